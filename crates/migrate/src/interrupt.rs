//! Ctrl-C. The first signal ends the move at the next point where its state can be described; the second ends the
//! process at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::MigrateError;

/// Exit status after Ctrl-C, by shell convention.
pub const EXIT_STATUS: u8 = 130;

/// Maximum time after which a sleep notices a signal.
const SLEEP_MAX: Duration = Duration::from_millis(50);

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
                "cannot install the signal handler, so Ctrl-C ends the tool without a description: {error}"
            );
        }
    });
}

/// Returns an error once a signal has arrived.
pub fn check() -> Result<(), MigrateError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(MigrateError::Interrupted) } else { Ok(()) }
}

/// Sleeps, unless a signal arrives.
pub fn sleep(time: Duration) -> Result<(), MigrateError> {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}
