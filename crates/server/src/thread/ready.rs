//! Connections that yielded: they have had their time, and have requests left to run.

use os::clock::Ticks;

use super::Thread;

/// Time in a turn after which no more of the connections go on that had yielded, in nanoseconds.
const READY_NS_MAX: u64 = 1_000_000;

impl Thread {
    /// Connections that yielded go on, in the order in which they did, but for those whose output is far behind: they wait until
    /// it is out. However many there are, what has arrived meanwhile has its turn soon; one of them goes on in each turn.
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
