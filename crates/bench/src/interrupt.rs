//! Ctrl-C handling. The first signal ends the run in order and stops the servers; the second ends the
//! process at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::BenchError;

/// Exit status after Ctrl-C, by shell convention.
pub const EXIT_STATUS: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// Installs the handler for SIGINT, SIGTERM and SIGHUP.
pub fn install() {
    INSTALLED.call_once(|| {
        let result = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_STATUS));
            }
        });
        if let Err(error) = result {
            eprintln!(
                "cannot install the signal handler, so Ctrl-C will not stop the started servers: {error}"
            );
        }
    });
}

/// Returns the flag that a signal sets.
pub const fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Returns an error once a signal has arrived.
pub fn check() -> Result<(), BenchError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
}
