//! Lines of the log about the progress of a long load.

use os::clock::{self, Uptime};

use crate::shared::Shared;

/// The time between two lines, in milliseconds.
const INTERVAL_MS: i64 = 5_000;

/// Writes a line from time to time.
pub(super) struct ProgressLog<'a> {
    shared: &'a Shared,
    next: Uptime,
}

impl<'a> ProgressLog<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, next: Uptime::now().plus_ms(INTERVAL_MS) }
    }

    /// Writes a line if it is time for one.
    pub(super) fn note(&mut self) {
        let now = Uptime::now();
        if now < self.next {
            return;
        }
        self.next = now.plus_ms(INTERVAL_MS);
        let progress = self.shared.loading.progress(clock::unix_millis() / 1000);
        log::info!(
            "Loading: {:.0} % of {} bytes, about {} seconds left",
            progress.percent,
            progress.total_bytes,
            progress.left_seconds
        );
    }
}
