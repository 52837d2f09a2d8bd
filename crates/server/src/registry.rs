//! The list of connections that everybody can read without stopping anyone: `CLIENT LIST`, `CLIENT KILL`, `INFO`.
//!
//! Each connection has a record here. Its own thread writes the numbers with plain atomic stores, and the few texts
//! under the record's lock when they change; readers see each number whole, if not all from one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::subscriptions::SUBSCRIPTION_KIND_COUNT;
use keyspace::Waiter;
use os::clock::Uptime;
use sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use sync::{MemoryCharge, ThreadCounter};
use sync::{Mutex, MutexGuard};

use crate::connection::Token;

/// Waits for the end of a pause.
pub const BLOCKED_BY_PAUSE: u64 = 1;
/// Waits for replicas' acknowledgements.
pub const BLOCKED_FOR_REPLICAS: u64 = 2;
/// Waits for the end of the server.
pub const BLOCKED_BY_SHUTDOWN: u64 = 3;
/// Waits for data.
pub const BLOCKED_FOR_KEYS: u64 = 4;
/// Added where the wait has an end.
pub const BLOCKED_WITH_TIMEOUT: u64 = 1 << 8;

const SHARD_COUNT: usize = 16;

/// All connections by id.
#[derive(Default)]
pub struct Registry {
    shards: [Mutex<BTreeMap<u64, Arc<ClientRecord>>>; SHARD_COUNT],
    last_id: AtomicU64,
    count: AtomicU64,
}

/// What everybody can read of a connection.
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
    /// Thread and place.
    pub token: ThreadCounter,
    /// The millisecond of the monotonic clock of the last command.
    pub active_at: AtomicI64,
    /// Database.
    pub db: ThreadCounter,
    /// [`SessionFlags`](commands::session::SessionFlags) bits.
    pub flags: ThreadCounter,
    /// Came by the unix socket.
    pub is_unix: bool,
    /// Whether it follows redirections.
    pub follows_redirects: ThreadCounter,
    /// Whether it imports data.
    pub is_import_source: ThreadCounter,
    /// How large a reply buffer it is shown to have, in bytes.
    pub reply_buffer_bytes: ThreadCounter,
    /// The most bytes it held of late.
    pub reply_buffer_peak: ThreadCounter,
    /// RESP version.
    pub resp: ThreadCounter,
    /// Bytes of unexecuted input.
    pub query_bytes: ThreadCounter,
    /// Room left in the input buffer.
    pub query_free_bytes: ThreadCounter,
    /// Bytes of output not sent yet.
    pub output_bytes: ThreadCounter,
    /// Bytes of memory of everything about it, as counted for `maxmemory-clients`.
    pub memory_charge: MemoryCharge,
    /// The same as others are shown it: once it is settled that the connection may stay.
    pub memory_bytes: ThreadCounter,
    /// Commands queued in MULTI, plus one; 0: no transaction.
    pub multi: ThreadCounter,
    /// Bytes queued in MULTI.
    pub multi_bytes: ThreadCounter,
    /// Keys watched.
    pub watch_count: ThreadCounter,
    /// Number of the connection that its invalidations go to; 0: none.
    pub redirect: ThreadCounter,
    /// Names it listens to, by kind.
    pub name_counts: [ThreadCounter; SUBSCRIPTION_KIND_COUNT],
    /// Why it waits, as the numbers above; 0: not.
    pub blocked: ThreadCounter,
    /// Number of the last command, plus one.
    pub last_command: ThreadCounter,
    /// Bytes received since it connected.
    pub received_bytes: ThreadCounter,
    /// Bytes sent.
    pub sent_bytes: ThreadCounter,
    /// Commands executed.
    pub command_count: ThreadCounter,
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
    /// Who it is.
    pub user: String,
}

impl ClientRecord {
    /// A record of a new connection.
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
            waiter: Mutex::new(None),
            texts: Mutex::new(ClientTexts { user: "default".to_owned(), ..ClientTexts::default() }),
        }
    }

    /// The texts as last set.
    pub fn texts(&self) -> MutexGuard<'_, ClientTexts> {
        self.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Its wait, if it is in one that others may end.
    #[must_use]
    pub fn waiter(&self) -> Option<Arc<Waiter>> {
        self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// It begins to wait, or has ended.
    pub fn set_waiter(&self, waiter: Option<Arc<Waiter>>) {
        *self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = waiter;
    }

    /// Where it is served.
    #[must_use]
    pub fn place(&self) -> Token {
        Token(self.token.value())
    }
}

impl Registry {
    /// An id that no connection had before.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Adds a connection.
    pub fn insert(&self, record: &Arc<ClientRecord>) {
        self.shard(record.id).insert(record.id, Arc::clone(record));
        self.count.fetch_add(1, Relaxed);
    }

    /// Removes a connection.
    /// Whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let was_there = self.shard(id).remove(&id).is_some();
        if was_there {
            self.count.fetch_sub(1, Relaxed);
        }
        was_there
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

    /// Calls `look` with each connection, in no order. Others can't come or go meanwhile, so it is to be brief.
    pub fn for_each(&self, mut look: impl FnMut(&ClientRecord)) {
        for shard in 0..SHARD_COUNT as u64 {
            self.shard(shard).values().for_each(|record| look(record));
        }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.shards[id as usize % SHARD_COUNT].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
