//! Sessions: the state of a connection that commands read and change. Plain data of one connection, accessed
//! only by the worker that serves it.
//!
//! Never holds a socket, a buffer or a latch: those belong to the server's connection.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::{DbIndex, Lsn, Millis};
use bitflags::bitflags;
use collections::Kind;
use config::Config;
use keyspace::{Needs, Watching};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use crate::acl::{DenialContext, User, Users};
use crate::command::Access;
use crate::context::PlannedKey;
use crate::declared_replica::DeclaredReplica;
use crate::error::CommandError;
use crate::host::Reload;
use crate::migration::Migration;
use crate::resolved_command::{CommandId, ResolvedCommand};
use crate::subscriptions::Subscriptions;
use crate::tracking::Tracking;

/// State of one connection.
pub struct Session {
    /// Unique since the start of the process, ascending.
    pub id: u64,
    /// Database selected by `SELECT`.
    pub db: DbIndex,
    /// RESP version.
    pub protocol: Protocol,
    /// Active modes.
    pub flags: SessionFlags,
    /// Whether the connection is that of the primary: its requests are the stream, which waits for no reply.
    pub is_stream: bool,
    /// Where it is connected from and to.
    pub endpoints: Arc<Endpoints>,
    /// How it calls itself.
    pub names: ClientNames,
    /// What it has declared of itself.
    pub options: ClientOptions,
    /// Its user.
    pub login: Login,
    /// The commands that it has run.
    pub ran: Ran,
    /// The end of the newest record of the write log on which its replies depend.
    pub reply_lsn: Lsn,
    /// The end of the newest record of a change that it has made.
    pub write_lsn: Lsn,
    /// Commands queued since `MULTI`.
    pub multi: Option<Box<Queue>>,
    /// The running transaction, while one of its scripts is paused.
    pub paused_exec: Option<Box<PausedExec>>,
    /// Watched keys (`WATCH`).
    pub watching: Option<Box<Watching>>,
    /// Subscriptions; `None`: none.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Sequence number of the last message in its worker's mailbox that was delivered to this session early.
    pub delivered_seq: u64,
    /// Client-side caching (`CLIENT TRACKING`); `None`: off.
    pub tracking: Option<Box<Tracking>>,
    /// The reason and timeout of its blocking, set by a handler and cleared by the server.
    pub blocked: Option<Blocked>,
    /// The progress of an unfinished command; `None`: there is none. A handler that sets it writes no reply: the
    /// command continues from there when it runs again in the next turn.
    pub unfinished: Option<u64>,
    /// The time that its script reads, in Unix microseconds. Set by the first reading.
    pub script_micros: Option<i64>,
    /// The `MIGRATE` that it has begun.
    pub migration: Option<Box<Migration>>,
    /// What it has declared of itself as a replica (`REPLCONF`); `None`: nothing.
    pub replica: Option<Box<DeclaredReplica>>,
}

/// Where a connection comes from and goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Peer address as Redis prints it.
    pub peer: String,
    /// Local address as Redis prints it.
    pub local: String,
    /// File descriptor number, for `CLIENT LIST`; -1: there is no socket.
    pub fd: i32,
    /// Whether it is a unix socket connection.
    pub is_unix: bool,
    /// Whether it is connected from this machine, over TCP.
    pub is_local: bool,
    /// When it connected.
    pub connected_at: Millis,
}

/// How a client calls itself. Empty: not at all.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// `CLIENT SETNAME`
    pub client: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`
    pub library_version: Vec<u8>,
}

/// What a client has declared of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientOptions {
    /// Whether it follows redirections (`CLIENT CAPA redirect`).
    pub follows_redirects: bool,
    /// Whether it imports data from another server (`CLIENT IMPORT-SOURCE`).
    pub is_import_source: bool,
    /// Whether `READONLY` was called; shown only. No flag, because a session with flags leaves the fast path.
    pub is_read_only: bool,
}

/// The user of a session.
pub struct Login {
    /// The user, with the permissions as of `users_version`.
    pub user: Arc<User>,
    /// The version of the users that `user` belongs to.
    pub users_version: u64,
    /// Whether it may run commands that require authentication.
    pub is_authenticated: bool,
    /// Whether it was authenticated before it was reset.
    pub was_authenticated: bool,
}

/// The commands that a session has run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// The last one, or the one that is running.
    pub last: Option<CommandId>,
    /// Their number.
    pub count: u64,
}

impl Endpoints {
    /// Those of a session without a connection; `name` in the place of both addresses.
    #[must_use]
    pub fn none(name: &str) -> Arc<Self> {
        Arc::new(Self {
            peer: name.to_owned(),
            local: name.to_owned(),
            fd: -1,
            is_unix: false,
            is_local: false,
            connected_at: Millis(0),
        })
    }
}

impl Login {
    /// The default user's.
    #[must_use]
    pub fn new(users: &Users) -> Self {
        Self {
            user: Arc::clone(users.default_user()),
            users_version: users.version(),
            is_authenticated: !users.require_authentication(),
            was_authenticated: false,
        }
    }
}

bitflags! {
    /// Modes of a connection. Empty on the fast path.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SessionFlags: u32 {
        /// `CLIENT NO-EVICT on`
        const NO_EVICT = 1 << 0;
        /// `CLIENT NO-TOUCH on`
        const NO_TOUCH = 1 << 1;
        /// `CLIENT REPLY OFF`
        const REPLY_OFF = 1 << 2;
        /// `CLIENT REPLY SKIP`: the next reply is not sent.
        const REPLY_SKIP_NEXT = 1 << 3;
        /// This reply is not sent.
        const REPLY_SKIP = 1 << 4;
        /// Receives every command that the server runs.
        const MONITOR = 1 << 5;
        /// The connection is closed after its replies are sent.
        const CLOSE_AFTER_REPLY = 1 << 6;
        /// In subscribed mode, after subscribing to a channel or pattern: RESP2 then allows few commands.
        const SUBSCRIBED = 1 << 7;
        /// The transaction must fail: a command was rejected while it was queued.
        const DIRTY_EXEC = 1 << 8;
        /// A watched key changed.
        const DIRTY_CAS = 1 << 9;
        /// `CLIENT TRACKING ON`
        const TRACKING = 1 << 10;
        /// Receives all invalidations (`BCAST`), not only for keys that it has read.
        const TRACKING_BCAST = 1 << 12;
        /// Receives no invalidations for its own changes (`NOLOOP`).
        const TRACKING_NOLOOP = 1 << 13;
        /// The connection that its invalidations are redirected to is closed.
        const BROKEN_REDIRECT = 1 << 14;
        /// Is running the commands of a transaction.
        const IN_EXEC = 1 << 11;
        /// Is the session of a script.
        const IN_SCRIPT = 1 << 15;
        /// The user was deleted, or may no longer use one of the subscriptions: the connection is closed.
        const REVOKED = 1 << 16;
        /// The connection is a replica's.
        const REPLICA = 1 << 18;
        /// The connection is for the snapshot of a replica that gets the stream on another one.
        const SNAPSHOT_CHANNEL = 1 << 19;
        /// `READONLY` was called. Set only in what is published of a session, see [`ClientOptions::is_read_only`].
        const SHOWN_READONLY = 1 << 17;
    }
}

/// Commands queued by `MULTI`, already planned.
#[derive(Default)]
pub struct Queue {
    /// For each request, the positions of its arguments and keys.
    requests: Vec<Entry>,
    /// The arguments of all requests, in several buffers, so that a long queue is not copied repeatedly.
    chunks: Vec<ArgsBuf>,
    /// The keys of all requests.
    keys: Vec<PlannedKey>,
    /// Total bytes of memory.
    size: usize,
    /// The database in which the next request will run, if a queued one selects it.
    db: Option<DbIndex>,
    /// Whether any of the requests runs a script.
    runs_scripts: bool,
}

/// A transaction whose script has paused. It keeps the latches and the effects of all its commands.
pub struct PausedExec {
    /// The commands.
    pub queue: Box<Queue>,
    /// The number of the command that runs the script.
    pub at: usize,
    /// The first part of the reply, kept so that no message is sent in the middle of the reply.
    pub written: Vec<u8>,
    /// How long the command has run, in nanoseconds.
    pub spent_ns: u64,
    /// Whether one of the commands requires a barrier at the end of the transaction.
    pub needs_barrier: bool,
    /// Whether the connection is closed. Commands that change only the connection are then skipped.
    pub is_orphan: bool,
}

/// The positions of the parts of a queued request.
struct Entry {
    found: ResolvedCommand,
    /// The buffer with the arguments; `args` is the range in it.
    chunk: usize,
    args: Range<usize>,
    keys: Range<usize>,
}

/// A request in a queue.
#[derive(Clone, Copy)]
pub struct Queued<'a> {
    /// The command.
    pub found: ResolvedCommand,
    /// The arguments.
    pub args: Args<'a>,
    /// The keys.
    pub keys: &'a [PlannedKey],
}

/// Bytes of arguments after which a new buffer begins.
const PORTION_SIZE: usize = 16 << 10;

/// Number of requests, and of keys, for which an empty queue keeps memory.
const SPARE_COUNT_MAX: usize = 128;

impl Queue {
    /// Appends a request.
    pub fn push(&mut self, found: ResolvedCommand, args: Args<'_>, keys: &[PlannedKey]) {
        let is_full = |chunk: &ArgsBuf| chunk.allocated_size() > PORTION_SIZE;
        // A buffer shares one large argument.
        if self.chunks.last().is_none_or(is_full) || args.has_detached() {
            self.chunks.push(ArgsBuf::new());
        }
        let chunk = self.chunks.len() - 1;
        let buffer = &mut self.chunks[chunk];
        let (first_arg, first_key, size) = (buffer.args().len(), self.keys.len(), buffer.allocated_size());
        buffer.append(args);
        self.keys.extend_from_slice(keys);
        self.size += buffer.allocated_size() - size + size_of::<Entry>() + size_of_val(keys);
        let (args, keys) = (first_arg..first_arg + args.len(), first_key..self.keys.len());
        self.runs_scripts |= matches!(found.command.access, Access::Script { .. });
        self.requests.push(Entry { found, chunk, args, keys });
    }

    /// Iterates over the requests, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Queued<'_>> {
        self.iter_from(0)
    }

    /// Iterates over the requests from this one on.
    pub fn iter_from(&self, first: usize) -> impl ExactSizeIterator<Item = Queued<'_>> {
        self.requests[first..].iter().map(|entry| Queued {
            found: entry.found,
            args: self.chunks[entry.chunk].args().range(entry.args.clone()),
            keys: &self.keys[entry.keys.clone()],
        })
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the database in which the next request will run; `None`: in the session's database.
    #[must_use]
    pub fn db(&self) -> Option<DbIndex> {
        self.db
    }

    /// Notes that a queued request selects a database.
    pub fn select(&mut self, db: DbIndex) {
        self.db = Some(db);
    }

    /// Whether one of the requests runs a script.
    #[must_use]
    pub fn runs_scripts(&self) -> bool {
        self.runs_scripts
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the bytes of memory that the requests use.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Removes all requests, and keeps the memory that a short queue needs.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.requests.shrink_to(SPARE_COUNT_MAX);
        self.keys.clear();
        self.keys.shrink_to(SPARE_COUNT_MAX);
        self.chunks.truncate(1);
        self.chunks.retain_mut(|chunk| {
            chunk.clear();
            chunk.allocated_size() <= 2 * PORTION_SIZE
        });
        self.size = 0;
        self.db = None;
        self.runs_scripts = false;
    }
}

/// Why a connection is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The maximum duration of the wait; `None`: no limit. Not a deadline in wall-clock time, because that clock may be
    /// set.
    pub timeout: Option<Duration>,
    /// The reason of the wait.
    pub reason: BlockReason,
}

impl Blocked {
    /// Whether the connection waits for this server's disk.
    #[must_use]
    pub fn awaits_disk(&self) -> bool {
        matches!(self.reason, BlockReason::Disk { awaits_local: true, .. })
    }

    /// Whether the connection waits for replicas.
    #[must_use]
    pub fn awaits_replicas(&self) -> bool {
        match self.reason {
            BlockReason::Replicas { .. } => true,
            BlockReason::Disk { wanted, .. } => wanted > 0,
            _ => false,
        }
    }

    /// Writes the timeout reply. Writes nothing if the timeout makes the request run.
    pub fn write_timeout(&self, reply: &mut ReplyBuffer<'_>) {
        match self.reason {
            BlockReason::Pause
            | BlockReason::Congestion
            | BlockReason::Log
            | BlockReason::Turns
            | BlockReason::Barrier
            | BlockReason::Shutdown
            | BlockReason::Save
            | BlockReason::Free
            | BlockReason::Transfer { .. } => {}
            BlockReason::Keys(_) => reply.null_array(),
            BlockReason::Replicas { acknowledged, .. } => reply.integer(acknowledged),
            BlockReason::Disk { is_durable, acknowledged, .. } => {
                reply.array(2);
                reply.integer(i64::from(is_durable));
                reply.integer(acknowledged);
            }
            BlockReason::Reload(_) => reply.error("UNBLOCKED the data are still being loaded"),
        }
    }
}

/// The wait of a request for keys: see [`Ctx::block`](crate::context::Ctx::block).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWait {
    /// Range of the request's keys, in the order of the table's key specs.
    pub keys: Range<usize>,
    /// The condition for running the request again.
    pub needs: Needs,
    /// Arguments to replace when the request is run again, by ascending index: the `$` of `XREAD` is resolved when
    /// the wait begins.
    pub replaced: Vec<(usize, Vec<u8>)>,
}

impl KeyWait {
    /// Waits for a value of a type under any of these keys.
    #[must_use]
    pub fn for_kind(kind: Kind, keys: Range<usize>) -> Self {
        Self { keys, needs: Needs { kind, or_none: false }, replaced: Vec::new() }
    }
}

/// The condition that a blocked connection waits for. It determines the timeout reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockReason {
    /// Data under a key: the request is then run again. The timeout reply is a null array.
    Keys(KeyWait),
    /// Acknowledgements of replicas (`WAIT`): the timeout reply is the number of acknowledgements.
    Replicas {
        /// The number that ends the wait.
        wanted: i64,
        /// Number of acknowledgements so far.
        acknowledged: i64,
    },
    /// Syncing to disk, here or on replicas (`WAITAOF`): the timeout reply is the number of syncs.
    Disk {
        /// Whether the connection waits until its writes are durable here.
        awaits_local: bool,
        /// The number of replicas that must have them on disk.
        wanted: i64,
        /// Whether the connection's writes are durable here.
        is_durable: bool,
        /// The number of replicas that have them on disk.
        acknowledged: i64,
    },
    /// The end of `CLIENT PAUSE`: the request is then run.
    Pause,
    /// A worker with too many undelivered messages: the request is then run.
    Congestion,
    /// Room in the write log: the request is then run.
    Log,
    /// The server's shutdown (`SHUTDOWN` waits for it).
    Shutdown,
    /// The end of a save (`SAVE`).
    Save,
    /// The end of freeing what was removed (`FLUSHALL SYNC`).
    Free,
    /// The end of a step of a transfer to another server (`MIGRATE`): the request is then run again.
    Transfer {
        /// Whether the connection keeps the latches of its keys while it waits.
        keeps_latches: bool,
    },
    /// The turns of the other workers, before a command that reads the state of all connections.
    Turns,
    /// The turns of the other workers, after a command that must apply to all of them before its reply is
    /// sent. The reply is already written.
    Barrier,
    /// The end of a load that replaces the data (`DEBUG RELOAD`, `DEBUG LOADAOF`).
    Reload(Reload),
}

impl Session {
    /// Creates the session of a new connection.
    #[must_use]
    pub fn new(id: u64, endpoints: Arc<Endpoints>, users: &Users) -> Self {
        Self {
            id,
            db: DbIndex(0),
            protocol: Protocol::Resp2,
            flags: SessionFlags::empty(),
            is_stream: false,
            endpoints,
            names: ClientNames::default(),
            options: ClientOptions::default(),
            login: Login::new(users),
            ran: Ran::default(),
            reply_lsn: Lsn(0),
            write_lsn: Lsn(0),
            multi: None,
            paused_exec: None,
            watching: None,
            subscriptions: None,
            delivered_seq: 0,
            tracking: None,
            blocked: None,
            unfinished: None,
            script_micros: None,
            migration: None,
            replica: None,
        }
    }

    /// Resets to the state of a new connection (`RESET`): database 0, RESP2, nothing queued, all modes off.
    pub fn reset(&mut self, users: &Users) {
        self.db = DbIndex(0);
        self.protocol = Protocol::Resp2;
        // If the current reply is skipped, it is the reply of `RESET` itself.
        self.flags &= SessionFlags::REPLY_SKIP;
        self.names.client.clear();
        self.options.is_import_source = false;
        self.options.is_read_only = false;
        self.multi = None;
        self.watching = None;
        self.tracking = None;
        self.log_out(users);
    }

    /// Whether a request may wait for its reply.
    #[must_use]
    pub fn may_block(&self) -> bool {
        !self.is_stream && !self.flags.contains(SessionFlags::IN_EXEC)
    }

    /// Whether the connection is to be closed after its replies.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.flags.contains(SessionFlags::CLOSE_AFTER_REPLY)
    }

    /// Returns the context of a request that runs now, for the denial log.
    #[must_use]
    pub fn denial_context(&self) -> DenialContext {
        if self.flags.contains(SessionFlags::IN_SCRIPT) {
            return DenialContext::Lua;
        }
        let is_multi = self.in_multi() || self.flags.contains(SessionFlags::IN_EXEC);
        if is_multi { DenialContext::Multi } else { DenialContext::Toplevel }
    }

    /// Whether the transaction can only fail: a command was rejected, or a watched key is known to have
    /// changed.
    #[must_use]
    pub fn is_doomed(&self) -> bool {
        self.flags.contains(SessionFlags::DIRTY_EXEC) || self.has_watched_change()
    }

    /// Whether a watched key is known to have changed.
    #[must_use]
    pub fn has_watched_change(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.has_changed())
    }

    /// Rejects `DEBUG` unless `enable-debug-command` allows it.
    ///
    /// # Errors
    /// If it is not allowed.
    pub fn may_debug(&self, config: &Config) -> Result<(), CommandError> {
        const NOT_ALLOWED: CommandError = CommandError::new(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
             local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        );
        let is_local = self.endpoints.is_local || self.endpoints.is_unix;
        if config.enable_debug_command.allows(is_local) { Ok(()) } else { Err(NOT_ALLOWED) }
    }

    /// The commands of the transaction that is being queued, or whose script is paused.
    #[must_use]
    pub fn transaction(&self) -> Option<&Queue> {
        let paused = self.paused_exec.as_ref().map(|paused| &*paused.queue);
        paused.or(self.multi.as_deref())
    }

    /// Whether a transaction is being queued.
    #[must_use]
    pub fn in_multi(&self) -> bool {
        self.multi.is_some()
    }
}
