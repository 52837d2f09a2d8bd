//! Ctrl-C: the run ends in order, so that servers are stopped; the second one ends the process at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::BenchError;

/// Exit status after Ctrl-C, as shells expect it.
pub const EXIT_STATUS: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// Begins to catch SIGINT, SIGTERM and SIGHUP.
pub fn install() {
    INSTALLED.call_once(|| {
        let result = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_STATUS));
            }
        });
        if let Err(error) = result {
            eprintln!("Ctrl-C will not stop the started servers in order: {error}");
        }
    });
}

/// What a signal sets.
pub const fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// An error once a signal came.
pub fn check() -> Result<(), BenchError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
}
