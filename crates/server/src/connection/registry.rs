//! The list of connections that every thread can read without stopping another: `CLIENT LIST`, `CLIENT KILL`, `INFO`.
//!
//! Each connection has a record here. Its own worker writes the numbers with plain atomic stores, and the
//! few texts under the record's lock when they change. Readers see each number whole, but not all from one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::session::{BlockReason, Blocked, Session, SessionFlags};
use commands::subscriptions::{SUBSCRIPTION_KIND_COUNT, SUBSCRIPTION_KINDS};
use keyspace::Waiter;
use os::clock::Uptime;
use sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use sync::{MemoryCharge, ThreadCounter};
use sync::{Mutex, MutexGuard, OnceLock};
use wire::reply::Protocol;

use crate::connection::token::Token;

/// Waits for the end of a pause.
pub const BLOCKED_BY_PAUSE: u64 = 1;
/// Waits for replicas' acknowledgements.
pub const BLOCKED_FOR_REPLICAS: u64 = 2;
/// Waits for the end of the server.
pub const BLOCKED_BY_SHUTDOWN: u64 = 3;
/// Waits for data.
pub const BLOCKED_FOR_KEYS: u64 = 4;
/// Added if the wait has a time limit.
pub const BLOCKED_WITH_TIMEOUT: u64 = 1 << 8;

const SHARD_COUNT: usize = 16;

/// All connections by id.
#[derive(Default)]
pub struct Registry {
    shards: [Mutex<BTreeMap<u64, Arc<ClientRecord>>>; SHARD_COUNT],
    sums: Arc<ClientSums>,
    last_id: AtomicU64,
    count: AtomicU64,
}

/// Sums over all connections, updated as each publishes its [`Share`]. A sum may miss an update in progress.
#[derive(Default)]
pub struct ClientSums {
    blocked: AtomicI64,
    with_timeout: AtomicI64,
    tracking: AtomicI64,
    listening: AtomicI64,
    watching: AtomicI64,
    watched_keys: AtomicI64,
}

/// What one connection adds to the sums, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

/// The state of a connection that every thread can read.
pub struct ClientRecord {
    /// Client id.
    pub id: u64,
    /// Peer address.
    pub peer: String,
    /// Local address.
    pub local: String,
    /// File descriptor.
    pub fd: i32,
    /// Unix time of the connection, in milliseconds.
    pub connected_at: i64,
    /// Worker and index.
    pub token: ThreadCounter,
    /// The millisecond of the monotonic clock of the last command.
    pub active_at: AtomicI64,
    /// Database.
    pub db: ThreadCounter,
    /// [`SessionFlags`](commands::session::SessionFlags) bits.
    pub flags: ThreadCounter,
    /// Whether it arrived on the unix socket.
    pub is_unix: bool,
    /// Whether it follows redirections.
    pub follows_redirects: ThreadCounter,
    /// Whether it imports data.
    pub is_import_source: ThreadCounter,
    /// The size reported for its reply buffer, in bytes.
    pub reply_buffer_bytes: ThreadCounter,
    /// The recent peak of bytes in it.
    pub reply_buffer_peak: ThreadCounter,
    /// RESP version.
    pub resp: ThreadCounter,
    /// Bytes of unexecuted input.
    pub query_bytes: ThreadCounter,
    /// Room left in the input buffer.
    pub query_free_bytes: ThreadCounter,
    /// Bytes of output not sent yet.
    pub output_bytes: ThreadCounter,
    /// Bytes of all its memory, as counted for `maxmemory-clients`.
    pub memory_charge: MemoryCharge,
    /// The memory shown to others: published once it is decided that the connection may stay.
    pub memory_bytes: ThreadCounter,
    /// Commands queued in MULTI, plus one; 0: no transaction.
    pub multi: ThreadCounter,
    /// Bytes queued in MULTI.
    pub multi_bytes: ThreadCounter,
    /// Keys watched.
    pub watch_count: ThreadCounter,
    /// Id of the connection that receives its invalidations; 0: none.
    pub redirect: ThreadCounter,
    /// Numbers of its subscriptions, by kind.
    pub name_counts: [ThreadCounter; SUBSCRIPTION_KIND_COUNT],
    /// Why it waits, as one of the numbers above; 0: it does not.
    pub blocked: ThreadCounter,
    /// Number of the last command, plus one.
    pub last_command: ThreadCounter,
    /// Bytes received since it connected.
    pub received_bytes: ThreadCounter,
    /// Bytes sent.
    pub sent_bytes: ThreadCounter,
    /// Commands executed.
    pub command_count: ThreadCounter,
    /// Its part of the sums, as [`Share`].
    share: AtomicU64,
    /// The sums that count it, once it is in the list.
    sums: OnceLock<Arc<ClientSums>>,
    texts: Mutex<ClientTexts>,
    waiter: Mutex<Option<Arc<Waiter>>>,
}

/// The texts that a client sets.
#[derive(Clone, Debug, Default)]
pub struct ClientTexts {
    /// `CLIENT SETNAME`
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`
    pub lib_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`
    pub lib_version: Vec<u8>,
    /// The name of its user.
    pub user: Vec<u8>,
}

impl ClientRecord {
    /// Returns the record of a new connection.
    #[must_use]
    pub fn new(id: u64, peer: String, local: String, fd: i32, now: i64) -> Self {
        Self {
            id,
            peer,
            local,
            fd,
            connected_at: now,
            token: ThreadCounter::default(),
            active_at: AtomicI64::new(Uptime::now().to_raw()),
            db: ThreadCounter::default(),
            flags: ThreadCounter::default(),
            is_unix: false,
            follows_redirects: ThreadCounter::default(),
            is_import_source: ThreadCounter::default(),
            reply_buffer_bytes: ThreadCounter::default(),
            reply_buffer_peak: ThreadCounter::default(),
            resp: ThreadCounter::default(),
            query_bytes: ThreadCounter::default(),
            query_free_bytes: ThreadCounter::default(),
            output_bytes: ThreadCounter::default(),
            memory_charge: MemoryCharge::new(),
            memory_bytes: ThreadCounter::default(),
            multi: ThreadCounter::default(),
            multi_bytes: ThreadCounter::default(),
            watch_count: ThreadCounter::default(),
            redirect: ThreadCounter::default(),
            name_counts: Default::default(),
            blocked: ThreadCounter::default(),
            last_command: ThreadCounter::default(),
            received_bytes: ThreadCounter::default(),
            sent_bytes: ThreadCounter::default(),
            command_count: ThreadCounter::default(),
            share: AtomicU64::new(Share::NOTHING.0),
            sums: OnceLock::new(),
            waiter: Mutex::new(None),
            texts: Mutex::new(ClientTexts { user: b"default".to_vec(), ..ClientTexts::default() }),
        }
    }

    /// The texts as last set.
    pub fn texts(&self) -> MutexGuard<'_, ClientTexts> {
        self.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Its waiter, if it is in a wait that other threads may end.
    #[must_use]
    pub fn waiter(&self) -> Option<Arc<Waiter>> {
        self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Records the begin or end of a wait.
    pub fn set_waiter(&self, waiter: Option<Arc<Waiter>>) {
        *self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = waiter;
    }

    /// Updates the sums over all connections, unless it is removed from the list, or not in it yet.
    #[inline]
    pub fn publish_share(&self, share: Share) {
        if self.share.load(Relaxed) != share.0 {
            self.change_share(share);
        }
    }

    #[cold]
    fn change_share(&self, share: Share) {
        let Some(sums) = self.sums.get() else { return };
        let change = |before| (before != Share::REMOVED.0).then_some(share.0);
        if let Ok(before) = self.share.fetch_update(Relaxed, Relaxed, change) {
            sums.change(Share(before), share);
        }
    }

    /// Publishes the session's numbers in the client record.
    pub fn publish(&self, session: &Session) {
        self.db.set(u64::from(session.db.0));
        let mut flags = session.flags;
        flags.set(SessionFlags::DIRTY_CAS, session.has_watched_change());
        flags.set(SessionFlags::SHOWN_READONLY, session.is_read_only);
        self.flags.set(u64::from(flags.bits()));
        self.follows_redirects.set(u64::from(session.follows_redirects));
        self.is_import_source.set(u64::from(session.is_import_source));
        self.resp.set(if session.protocol == Protocol::Resp3 { 3 } else { 2 });
        // A transaction that can only fail is shown empty.
        let is_doomed = session.multi.is_some() && session.is_doomed();
        let shown = |number: usize| if is_doomed { 0 } else { number as u64 };
        self.multi.set(session.multi.as_ref().map_or(0, |queue| shown(queue.len()) + 1));
        self.multi_bytes.set(session.multi.as_ref().map_or(0, |queue| shown(queue.size())));
        self.last_command.set(session.last_command.map_or(0, |id| u64::from(id.0) + 1));
        self.command_count.set(session.command_count);
        let watch_count = session.watching.as_ref().map_or(0, |watching| watching.len() as u64);
        self.watch_count.set(watch_count);
        self.redirect.set(session.tracking.as_ref().map_or(0, |tracking| tracking.redirect));
        for kind in SUBSCRIPTION_KINDS {
            self.name_counts[kind as usize].set(session.name_count(kind) as u64);
        }
        let blocked = session.blocked.as_ref().map_or(0, blocked_number);
        self.blocked.set(blocked);
        self.publish_share(Share::new(blocked, session.flags, watch_count));
    }

    /// The worker and index that serve it.
    #[must_use]
    pub fn place(&self) -> Token {
        Token(self.token.value())
    }
}

impl Share {
    const NOTHING: Self = Self(0);
    /// Adds nothing, until it is added again.
    const REMOVED: Self = Self(u64::MAX);

    const BLOCKED: u64 = 1;
    const WITH_TIMEOUT: u64 = 2;
    const TRACKING: u64 = 4;
    const LISTENING: u64 = 8;
    /// The bits above these are the number of watched keys.
    const FLAG_BITS: u32 = 4;

    /// Returns the share of a connection that waits for this reason (0: none), as one of the numbers
    /// above, with these flags set.
    #[must_use]
    #[inline]
    pub fn new(blocked: u64, flags: SessionFlags, watched_keys: u64) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        Self(
            bit(blocked != 0, Self::BLOCKED)
                | bit(blocked & BLOCKED_WITH_TIMEOUT != 0, Self::WITH_TIMEOUT)
                | bit(flags.contains(SessionFlags::TRACKING), Self::TRACKING)
                | bit(flags.contains(SessionFlags::SUBSCRIBED), Self::LISTENING)
                | watched_keys << Self::FLAG_BITS,
        )
    }

    fn has(self, bit: u64) -> i64 {
        i64::from(self.0 & bit != 0)
    }

    fn watched_keys(self) -> i64 {
        (self.0 >> Self::FLAG_BITS) as i64
    }
}

impl ClientSums {
    fn change(&self, before: Share, after: Share) {
        let change = |sum: &AtomicI64, of: &dyn Fn(Share) -> i64| {
            let change = of(after) - of(before);
            if change != 0 {
                sum.fetch_add(change, Relaxed);
            }
        };
        change(&self.blocked, &|share| share.has(Share::BLOCKED));
        change(&self.with_timeout, &|share| share.has(Share::WITH_TIMEOUT));
        change(&self.tracking, &|share| share.has(Share::TRACKING));
        change(&self.listening, &|share| share.has(Share::LISTENING));
        change(&self.watching, &|share| i64::from(share.watched_keys() > 0));
        change(&self.watched_keys, &|share| share.watched_keys());
    }

    /// Connections that wait.
    #[must_use]
    pub fn blocked(&self) -> i64 {
        read(&self.blocked)
    }

    /// Waiting connections with a time limit.
    #[must_use]
    pub fn with_timeout(&self) -> i64 {
        read(&self.with_timeout)
    }

    /// Connections with client-side caching.
    #[must_use]
    pub fn tracking(&self) -> i64 {
        read(&self.tracking)
    }

    /// Connections with subscriptions.
    #[must_use]
    pub fn listening(&self) -> i64 {
        read(&self.listening)
    }

    /// Connections that watch keys.
    #[must_use]
    pub fn watching(&self) -> i64 {
        read(&self.watching)
    }

    /// The keys that connections watch.
    #[must_use]
    pub fn watched_keys(&self) -> i64 {
        read(&self.watched_keys)
    }
}

/// The number of a wait, from those above.
fn blocked_number(blocked: &Blocked) -> u64 {
    let reason = match blocked.reason {
        // These waits are internal: clients see the connection as not blocked.
        BlockReason::Congestion
        | BlockReason::Log
        | BlockReason::Turns
        | BlockReason::Barrier
        | BlockReason::Transfer { .. }
        | BlockReason::Reload(_) => return 0,
        BlockReason::Pause => BLOCKED_BY_PAUSE,
        BlockReason::Replicas { .. } | BlockReason::Disk { .. } => BLOCKED_FOR_REPLICAS,
        BlockReason::Shutdown | BlockReason::Save => BLOCKED_BY_SHUTDOWN,
        BlockReason::Keys(_) => BLOCKED_FOR_KEYS,
    };
    let has_end = blocked.timeout.is_some() && blocked.reason != BlockReason::Pause;
    reason + if has_end { BLOCKED_WITH_TIMEOUT } else { 0 }
}

/// A subtraction may be counted before its addition.
fn read(sum: &AtomicI64) -> i64 {
    sum.load(Relaxed).max(0)
}

impl Registry {
    /// Returns an id that no connection had before.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Adds a connection, or adds it again.
    pub fn insert(&self, record: &Arc<ClientRecord>) {
        record.sums.get_or_init(|| Arc::clone(&self.sums));
        record.share.store(Share::NOTHING.0, Relaxed);
        self.shard(record.id).insert(record.id, Arc::clone(record));
        self.count.fetch_add(1, Relaxed);
    }

    /// Removes a connection. Returns whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let Some(record) = self.shard(id).remove(&id) else { return false };
        self.count.fetch_sub(1, Relaxed);
        let before = record.share.swap(Share::REMOVED.0, Relaxed);
        self.sums.change(Share(before), Share::NOTHING);
        true
    }

    /// Sums over all connections.
    #[must_use]
    pub fn sums(&self) -> &ClientSums {
        &self.sums
    }

    /// Number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// The connection with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<ClientRecord>> {
        self.shard(id).get(&id).cloned()
    }

    /// All connections, ascending by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ClientRecord>> {
        let mut all: Vec<_> = (0..SHARD_COUNT as u64)
            .flat_map(|shard| self.shard(shard).values().cloned().collect::<Vec<_>>())
            .collect();
        all.sort_unstable_by_key(|record| record.id);
        all
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.shards[id as usize % SHARD_COUNT].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_published_values_until_removal() {
        let registry = Registry::default();
        let records = [1, 2].map(|id| Arc::new(ClientRecord::new(id, String::new(), String::new(), 3, 0)));
        records.iter().for_each(|record| registry.insert(record));
        let figures = || {
            let sums = registry.sums();
            let waiting = [sums.blocked(), sums.with_timeout()];
            (waiting, [sums.tracking(), sums.listening()], [sums.watching(), sums.watched_keys()])
        };
        records[0].publish_share(Share::new(
            BLOCKED_FOR_KEYS + BLOCKED_WITH_TIMEOUT,
            SessionFlags::TRACKING,
            3,
        ));
        records[1].publish_share(Share::new(BLOCKED_BY_PAUSE, SessionFlags::SUBSCRIBED, 2));
        assert_eq!(figures(), ([2, 1], [1, 1], [2, 5]));
        records[1].publish_share(Share::new(0, SessionFlags::empty(), 4));
        assert_eq!(figures(), ([1, 1], [1, 0], [2, 7]));
        assert!(registry.remove(1) && !registry.remove(1));
        // Its worker may be notified later.
        records[0].publish_share(Share::new(BLOCKED_FOR_KEYS, SessionFlags::TRACKING, 1));
        assert_eq!(figures(), ([0, 0], [0, 0], [1, 4]));
    }
}
