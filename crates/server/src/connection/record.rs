//! The state of a connection that every thread can read without stopping its worker.
//!
//! Its own worker writes the numbers with plain atomic stores, and the few texts under the record's lock when they
//! change. Readers see each number whole, but not all from one instant.

use std::sync::Arc;

use commands::command::Flags;
use commands::session::{ClientNames, Endpoints, Session, SessionFlags};
use commands::subscriptions::{SUBSCRIPTION_KIND_COUNT, SUBSCRIPTION_KINDS};
use commands::table::NUMBERED;
use keyspace::Waiter;
use os::clock::Uptime;
use sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use sync::{MemoryCharge, Mutex, MutexGuard, OnceLock, ThreadCounter};
use wire::reply::Protocol;

use super::client_sums::{ClientSums, Share};
use super::token::Token;
use super::wait_code;

/// See the module documentation.
pub struct ClientRecord {
    /// Client id.
    pub id: u64,
    /// Where it is connected from and to.
    pub endpoints: Arc<Endpoints>,
    /// Whether it is the connection to the primary.
    pub is_primary: bool,
    /// Worker and index.
    pub token: ThreadCounter,
    /// The millisecond of the monotonic clock of the last command.
    pub active_at: AtomicI64,
    /// Its session.
    pub session: SessionRecord,
    /// Its buffers.
    pub buffers: BufferRecord,
    /// Bytes of all its memory, as counted for `maxmemory-clients`.
    pub memory_charge: MemoryCharge,
    /// The memory shown to others: published once it is decided that the connection may stay.
    pub memory_bytes: ThreadCounter,
    /// Bytes received since it connected.
    pub received_bytes: ThreadCounter,
    /// Bytes sent.
    pub sent_bytes: ThreadCounter,
    /// Its part of the sums, as [`Share`].
    share: AtomicU64,
    /// The sums that count it, once it is in the list.
    sums: OnceLock<Arc<ClientSums>>,
    texts: Mutex<ClientTexts>,
    waiter: Mutex<Option<Arc<Waiter>>>,
}

/// The numbers of a session.
#[derive(Default)]
pub struct SessionRecord {
    /// Database.
    pub db: ThreadCounter,
    /// [`SessionFlags`] bits.
    pub flags: ThreadCounter,
    /// Whether it follows redirections.
    pub follows_redirects: ThreadCounter,
    /// Whether it imports data.
    pub is_import_source: ThreadCounter,
    /// RESP version.
    pub resp: ThreadCounter,
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
    /// Why it waits, see [`wait_code`]; 0: it does not.
    pub blocked: ThreadCounter,
    /// Number of the last command, plus one.
    pub last_command: ThreadCounter,
    /// Commands executed.
    pub command_count: ThreadCounter,
}

/// The sizes of a connection's buffers, in bytes.
#[derive(Default)]
pub struct BufferRecord {
    /// The size reported for its reply buffer.
    pub reply: ThreadCounter,
    /// The recent peak of bytes in it.
    pub reply_peak: ThreadCounter,
    /// Unexecuted input.
    pub query: ThreadCounter,
    /// Room left in the input buffer.
    pub query_free: ThreadCounter,
    /// Output not sent yet.
    pub output: ThreadCounter,
}

/// The texts that a client sets.
#[derive(Clone, Debug, Default)]
pub struct ClientTexts {
    /// How it calls itself.
    pub names: ClientNames,
    /// The name of its user.
    pub user: Vec<u8>,
}

impl ClientRecord {
    /// Returns the record of a new connection.
    #[must_use]
    pub fn new(id: u64, endpoints: Arc<Endpoints>) -> Self {
        Self {
            id,
            endpoints,
            is_primary: false,
            token: ThreadCounter::default(),
            active_at: AtomicI64::new(Uptime::now().to_raw()),
            session: SessionRecord::default(),
            buffers: BufferRecord::default(),
            memory_charge: MemoryCharge::new(),
            memory_bytes: ThreadCounter::default(),
            received_bytes: ThreadCounter::default(),
            sent_bytes: ThreadCounter::default(),
            share: AtomicU64::new(Share::NOTHING.0),
            sums: OnceLock::new(),
            waiter: Mutex::new(None),
            texts: Mutex::new(ClientTexts { user: b"default".to_vec(), ..ClientTexts::default() }),
        }
    }

    /// Returns the record of the connection to the primary.
    #[must_use]
    pub fn of_primary(id: u64, endpoints: Arc<Endpoints>) -> Self {
        Self { is_primary: true, ..Self::new(id, endpoints) }
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

    /// Has these sums count it from now on, beginning with nothing.
    pub(super) fn join(&self, sums: &Arc<ClientSums>) {
        self.sums.get_or_init(|| Arc::clone(sums));
        self.share.store(Share::NOTHING.0, Relaxed);
    }

    /// Ends its part of the sums. Returns it.
    pub(super) fn leave_sums(&self) -> Share {
        Share(self.share.swap(Share::REMOVED.0, Relaxed))
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

    /// Publishes the session's numbers.
    pub fn publish(&self, session: &Session) {
        let blocked = session.blocked.as_ref().map_or(0, wait_code::of);
        let watch_count = session.watching.as_ref().map_or(0, |watching| watching.len() as u64);
        self.session.publish(session, blocked, watch_count);
        self.publish_share(Share::new(blocked, session.flags, watch_count));
    }

    /// Whether its last command only reads, and it accepts what a replica has (`READONLY`).
    #[must_use]
    pub fn reads_from_replicas(&self) -> bool {
        let flags = SessionFlags::from_bits_truncate(self.session.flags.value() as u32);
        let last = (self.session.last_command.value() as usize).checked_sub(1);
        let last = last.and_then(|number| NUMBERED.get(number));
        let writes = last.is_none_or(|(_, command)| command.flags.contains(Flags::WRITE));
        flags.contains(SessionFlags::SHOWN_READONLY) && !writes
    }

    /// The worker and index that serve it.
    #[must_use]
    pub fn place(&self) -> Token {
        Token(self.token.value())
    }
}

impl SessionRecord {
    fn publish(&self, session: &Session, blocked: u64, watch_count: u64) {
        self.db.set(u64::from(session.db.0));
        let mut flags = session.flags;
        flags.set(SessionFlags::DIRTY_CAS, session.has_watched_change());
        flags.set(SessionFlags::SHOWN_READONLY, session.options.is_read_only);
        self.flags.set(u64::from(flags.bits()));
        self.follows_redirects.set(u64::from(session.options.follows_redirects));
        self.is_import_source.set(u64::from(session.options.is_import_source));
        self.resp.set(if session.protocol == Protocol::Resp3 { 3 } else { 2 });
        // A transaction that can only fail is shown empty.
        let is_doomed = session.multi.is_some() && session.is_doomed();
        let shown = |number: usize| if is_doomed { 0 } else { number as u64 };
        self.multi.set(session.multi.as_ref().map_or(0, |queue| shown(queue.len()) + 1));
        self.multi_bytes.set(session.multi.as_ref().map_or(0, |queue| shown(queue.size())));
        self.last_command.set(session.ran.last.map_or(0, |id| u64::from(id.0) + 1));
        self.command_count.set(session.ran.count);
        self.watch_count.set(watch_count);
        self.redirect.set(session.tracking.as_ref().map_or(0, |tracking| tracking.redirect));
        for kind in SUBSCRIPTION_KINDS {
            self.name_counts[kind as usize].set(session.name_count(kind) as u64);
        }
        self.blocked.set(blocked);
    }
}
