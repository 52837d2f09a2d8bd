//! Connections that yielded: they have used up their time, and have requests left to run.

use os::clock::Ticks;

use super::Thread;

/// The time in a turn after which no more connections that yielded are continued, in nanoseconds.
const READY_NS_MAX: u64 = 1_000_000;

impl Thread {
    /// Continues the connections that yielded, in that order. Those whose output is far behind wait until it is
    /// sent. At least one of them continues in each turn; the time is limited, so that new events are soon handled.
    pub(super) fn run_ready(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let began = Ticks::now();
        let mut ready = std::mem::take(&mut self.ready).into_iter();
        for token in ready.by_ref() {
            if self.connection(token).is_some_and(|connection| !connection.receive_paused) {
                self.run_query(token);
                if Ticks::now().ns_since(began) > READY_NS_MAX {
                    break;
                }
            }
        }
        let yielded_again = std::mem::replace(&mut self.ready, ready.collect());
        self.ready.extend(yielded_again);
    }
}
