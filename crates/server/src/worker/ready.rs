//! Connections that yielded: they have used up their time, and have requests left to run.

use os::clock::Ticks;

use super::Worker;

/// The time in a turn after which no more connections that yielded are continued, in nanoseconds.
const READY_NS_MAX: u64 = 1_000_000;

impl Worker {
    /// Continues the connections that yielded, in that order. Those whose output is far behind wait until it is
    /// sent, unless a script of theirs has begun. At least one of them continues in each turn; the time is limited, so
    /// that new events are soon handled.
    pub(super) fn run_ready(&mut self) {
        let began = Ticks::now();
        let mut ready = std::mem::take(&mut self.waits.ready).into_iter();
        for token in ready.by_ref() {
            if self.connections.find_mut(token).is_some_and(|connection| connection.may_continue()) {
                self.run_query(token);
                if Ticks::now().ns_since(began) > READY_NS_MAX {
                    break;
                }
            }
        }
        let yielded_again = std::mem::replace(&mut self.waits.ready, ready.collect());
        self.waits.ready.extend(yielded_again);
    }
}
