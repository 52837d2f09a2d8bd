//! Connections that wait for a latch: whether another session, whose worker is in a long command, keeps them waiting.
//!
//! A latch is handed over to a session that failed to claim it. The worker of that session may have begun a long command
//! meanwhile. So a worker looks again and again, at growing intervals, whether a latch that its connections wait for is
//! handed over and not claimed. If it still is at a look 100 microseconds later, of this worker or of another one, it is
//! taken back and goes to the next waiter.

use base::Slot;
use keyspace::Latching;
use os::clock::Ticks;

use super::connection_table::ConnectionTable;
use crate::connection::client::Client;
use crate::connection::token::Token;

/// The first interval between two looks, in nanoseconds, and the one while a latch is handed over and not claimed. A session
/// whose worker is at the end of a turn claims within microseconds.
const LOOK_NS_MIN: u64 = 100_000;
/// The longest interval: the wake-ups take a percent of a CPU.
const LOOK_NS_MAX: u64 = 800_000;
/// The interval is at least so many times as long as a look takes, which depends on the number of connections.
const LOOK_SHARE: u64 = 50;

/// The connections of a worker that wait for latches.
#[derive(Default)]
pub(super) struct ParkedConnections {
    /// May be stale: a connection may have continued.
    waiting: Vec<(Token, Slot)>,
    interval_ns: u64,
    pub(super) next_look: Option<Ticks>,
}

impl ParkedConnections {
    /// Whether it is time for a look.
    #[inline]
    pub(super) fn is_due(&self, now: Ticks) -> bool {
        self.next_look.is_some_and(|at| now >= at)
    }

    /// Notes a client that has begun to wait for a latch, if it has.
    pub(super) fn note(&mut self, client: &Client) {
        let Some(parked) = client.wait.parked() else { return };
        self.waiting.push((client.token, parked.busy.0));
        if self.next_look.is_none() {
            self.interval_ns = LOOK_NS_MIN;
            self.next_look = Some(Ticks::now().plus_ns(LOOK_NS_MIN));
        }
    }

    /// Takes latches back that sessions in long commands have not claimed.
    #[cold]
    pub(super) fn look(&mut self, connections: &ConnectionTable, latching: &Latching<'static>) {
        let began = Ticks::now();
        self.waiting.retain(|(token, slot)| {
            let parked = connections.find(*token).and_then(|connection| connection.client.wait.parked());
            parked.is_some_and(|parked| parked.busy.0 == *slot)
        });
        self.waiting.sort_unstable_by_key(|(token, slot)| (*slot, token.0));
        self.waiting.dedup();
        self.next_look = None;
        if self.waiting.is_empty() {
            return;
        }
        // Not the time at which the turn began: other workers compare it with theirs.
        let now = Ticks::now();
        let (mut last, mut finds_unclaimed) = (None, false);
        for (_, slot) in &self.waiting {
            if last.replace(*slot) != Some(*slot) {
                finds_unclaimed |= latching.take_back(*slot, now.uptime_us());
            }
        }
        self.interval_ns =
            if finds_unclaimed { LOOK_NS_MIN } else { (2 * self.interval_ns).min(LOOK_NS_MAX) };
        let ended = Ticks::now();
        self.next_look = Some(ended.plus_ns(self.interval_ns.max(LOOK_SHARE * ended.ns_since(began))));
    }
}
