//! What all clients observe together: how long replies take, and whether `BUSY` is justified.
//!
//! Every [`Connection`](crate::connection::Connection) of a run with an [`Observer`] reports to it what it sends and
//! receives. Two rules hold whatever the loads are:
//!
//! 1. A reply arrives soon. The time from a request to its reply is bounded by the work of the requests that it meets, which
//!    is small in all loads, by stalls of threads, which the simulation counts, and by the time in which the network transfers
//!    large requests and replies ([`Pace`]). Requests that block are excepted, and what meets a request on all slots may take
//!    longer ([`ALL_SLOTS_US_MAX`]).
//! 2. `BUSY` is a reply only if another client's script has run for longer than `busy-reply-threshold`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reactor::simulated::Settings;
use sync::simulation;

use crate::plan::ALL_SLOTS_US_MAX;
use crate::world::lock;

/// Commands that may block; names begin so.
const BLOCKING: &[&str] = &["BL", "BR", "BZ", "XREAD", "WAIT"];
/// Commands that run scripts, or may run them; names begin so.
const SCRIPTING: &[&str] = &["EVAL", "FCALL", "EXEC"];

/// Commands that latch all 16,384 slots, as transactions with scripts do, too; names begin so.
const ON_ALL_SLOTS: &[&str] = &["FUNCTION", "FLUSH"];

/// See the module documentation.
#[derive(Default)]
pub struct Observer {
    /// Longest time of a request, in microseconds, besides the transfer of large ones; `None`: unlimited.
    reply_us_max: Option<u64>,
    pace: Pace,
    /// `busy-reply-threshold` in microseconds.
    busy_us: u64,
    /// When each connection sent the first script that may still run.
    scripts: Mutex<BTreeMap<u64, u64>>,
    on_all_slots: Mutex<OnAllSlots>,
    connection_count: AtomicU64,
    slowest_us: AtomicU64,
}

/// Requests on all slots.
#[derive(Default)]
struct OnAllSlots {
    /// The connections that wait for one.
    connections: BTreeSet<u64>,
    /// When the last one had its reply.
    ended_us: u64,
}

impl OnAllSlots {
    /// Notes when the requests of a connection had their replies, if it has any.
    fn end(&mut self, number: u64, us: u64) {
        if self.connections.remove(&number) {
            self.ended_us = self.ended_us.max(us);
        }
    }

    /// Whether one was under way at some time since then.
    fn were_under_way_since(&self, us: u64) -> bool {
        !self.connections.is_empty() || self.ended_us >= us
    }
}

impl Observer {
    /// Creates an observer for a server with this network and `busy-reply-threshold`.
    #[must_use]
    pub fn new(reply_us_max: Option<u64>, network: &Settings, busy_ms: u64) -> Arc<Self> {
        let pace = Pace::of(network);
        Arc::new(Self { reply_us_max, pace, busy_us: busy_ms * 1000, ..Self::default() })
    }

    /// The longest time that a reply took without stalls, in microseconds.
    #[must_use]
    pub fn slowest_us(&self) -> u64 {
        self.slowest_us.load(Ordering::Relaxed)
    }
}

/// How fast a network transfers requests and replies that are larger than its buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Bytes that are in flight at once.
    buffer_size: u64,
    /// Longest time of a packet.
    delay_us: u64,
    /// Bytes that a worker receives in one turn.
    turn_size: u64,
    /// The percentage of writes that send a part of what there is room for.
    short_write_percent: u64,
}

/// The size up to which the transfer is included in the time of every request, in bytes.
const SMALL_SIZE_MAX: u64 = 4 << 10;

/// The time of a turn of a worker among the turns of others, in microseconds.
const TURN_US: u64 = 1_000;

impl Pace {
    fn of(network: &Settings) -> Self {
        let received_size = u64::from(network.receive_buffer_size) * u64::from(network.receive_buffer_count);
        let buffer_size = network.buffer_size as u64;
        Self {
            buffer_size,
            delay_us: network.delay_us_max,
            turn_size: received_size.min(buffer_size),
            short_write_percent: network.short_write_percent,
        }
    }

    /// The time in which so many bytes are transferred, in microseconds; 0 if they are few.
    fn transfer_us(self, size: u64) -> u64 {
        if size <= SMALL_SIZE_MAX {
            return 0;
        }
        // A full buffer has arrived after the delay, and then the next bytes have room.
        let us = size.div_ceil(self.buffer_size) * self.delay_us + size.div_ceil(self.turn_size) * TURN_US;
        // What a short write leaves takes another one.
        us + us * self.short_write_percent / 100
    }
}

/// The requests of one connection that have no reply yet.
#[derive(Default)]
pub struct Outstanding {
    observer: Option<Arc<Observer>>,
    /// The connection's number.
    number: u64,
    count: usize,
    /// Bytes of the requests since there were none.
    size: u64,
    may_block: bool,
    /// Whether it has queued a script, so that EXEC takes all latches.
    has_queued_script: bool,
    /// Whether one of them ends a script: `BUSY` is its reply if there is none of its kind.
    kills_script: bool,
}

/// The time at which a client begins to wait.
#[derive(Clone, Copy)]
pub struct WaitStart {
    now_us: u64,
    stalled_us: u64,
}

impl Outstanding {
    /// The requests of a new connection, of the simulation that the caller belongs to.
    #[must_use]
    pub fn new() -> Self {
        let observer = simulation::extension::<Observer>();
        let number = observer.as_ref().map_or(0, |all| all.connection_count.fetch_add(1, Ordering::Relaxed));
        Self { observer, number, ..Self::default() }
    }

    /// Notes requests that are about to be sent.
    pub fn sent(&mut self, requests: &[Vec<String>]) {
        let Some(observer) = &self.observer else { return };
        self.count += requests.len();
        let is_any_of = |names: &[&str]| {
            let name = |words: &Vec<String>| words[0].to_ascii_uppercase();
            requests.iter().any(|words| names.iter().any(|start| name(words).starts_with(start)))
        };
        self.may_block |= is_any_of(BLOCKING);
        self.size += requests.iter().flatten().map(|word| word.len() as u64).sum::<u64>();
        self.kills_script |= requests.iter().any(|words| words.get(1).is_some_and(|word| word == "KILL"));
        self.has_queued_script |= is_any_of(&["MULTI"]) && is_any_of(&["EVAL", "FCALL"]);
        if is_any_of(ON_ALL_SLOTS) || (self.has_queued_script && is_any_of(&["EXEC"])) {
            lock(&observer.on_all_slots).connections.insert(self.number);
        }
        if is_any_of(SCRIPTING) {
            let now_us = now_us();
            lock(&observer.scripts).entry(self.number).or_insert(now_us);
        }
    }

    /// The client begins to wait for a reply.
    #[must_use]
    pub fn begin_wait(&self) -> WaitStart {
        WaitStart { now_us: now_us(), stalled_us: simulation::stalled_us() }
    }

    /// Notes a reply of so many bytes: the text of an error, or `None`.
    ///
    /// # Panics
    /// If it is late, or `BUSY` for no reason.
    pub fn received(&mut self, name: &str, since: WaitStart, size: usize, error: Option<&[u8]>) {
        let Some(observer) = &self.observer else { return };
        let stalled_us = simulation::stalled_us() - since.stalled_us;
        let waited_us = (now_us() - since.now_us).saturating_sub(stalled_us);
        if !self.may_block {
            observer.slowest_us.fetch_max(waited_us, Ordering::Relaxed);
            if let Some(most_us) = observer.reply_us_max {
                let meets_all_slots = lock(&observer.on_all_slots).were_under_way_since(since.now_us);
                let most_us = most_us
                    + observer.pace.transfer_us(self.size + size as u64)
                    + if meets_all_slots { ALL_SLOTS_US_MAX } else { 0 };
                assert!(
                    waited_us <= most_us,
                    "{name}: a reply is late: it took {waited_us} us without stalls, of at most {most_us} us"
                );
            }
        }
        if error.is_some_and(|text| text.starts_with(b"BUSY ")) && !self.kills_script {
            let (now_us, busy_us) = (now_us(), observer.busy_us);
            let is_justified = lock(&observer.scripts)
                .iter()
                .any(|(number, start_us)| *number != self.number && start_us + busy_us <= now_us);
            assert!(is_justified, "{name}: BUSY, and no script has run for long");
        }
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            (self.size, self.may_block, self.kills_script) = (0, false, false);
            lock(&observer.scripts).remove(&self.number);
            let now_us = now_us();
            lock(&observer.on_all_slots).end(self.number, now_us);
        }
    }
}

impl Drop for Outstanding {
    /// The server may still run what the client no longer waits for.
    fn drop(&mut self) {
        if let Some(observer) = &self.observer {
            let end_us = now_us() + ALL_SLOTS_US_MAX;
            lock(&observer.on_all_slots).end(self.number, end_us);
        }
    }
}

/// The virtual microseconds since the start.
fn now_us() -> u64 {
    simulation::monotonic_ns().unwrap_or(0) / 1000
}
