//! Ctrl-C. The first signal ends the tool at the next point where it can end in order; the second ends the process at
//! once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit status after Ctrl-C, by shell convention.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Maximum time after which a sleep notices a signal.
const SLEEP_MAX: Duration = Duration::from_millis(50);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// Ctrl-C was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Installs the handler for SIGINT, SIGTERM and SIGHUP. `without` says what Ctrl-C does if that fails.
pub(crate) fn install(without: &str) {
    INSTALLED.call_once(|| {
        let result = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_STATUS));
            }
        });
        if let Err(error) = result {
            eprintln!("cannot install the signal handler, so Ctrl-C {without}: {error}");
        }
    });
}

/// Returns the flag that a signal sets.
#[must_use]
pub const fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Returns an error once a signal has arrived.
///
/// # Errors
/// A signal has arrived.
pub fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps, unless a signal arrives.
///
/// # Errors
/// A signal has arrived.
pub fn sleep(time: Duration) -> Result<(), Interrupted> {
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
