//! What a connection means: the state that commands read and change. Plain data of one connection, touched only by
//! the thread that serves it.
//!
//! Never holds a socket, a buffer or a latch: those belong to the server's connection around it.

use std::ops::Range;
use std::time::Duration;

use base::{DbIndex, Millis};
use bitflags::bitflags;
use collections::Kind;
use config::Config;
use keyspace::{Needs, Watching};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use crate::context::PlannedKey;
use crate::error::CommandError;
use crate::subscriptions::Subscriptions;
use crate::table::CommandId;
use crate::table::Found;
use crate::tracking::Tracking;

/// State of one connection.
pub struct Session {
    /// Unique since the start of the process, ascending.
    pub id: u64,
    /// Database chosen by `SELECT`.
    pub db: DbIndex,
    /// RESP version.
    pub protocol: Protocol,
    /// What is switched on.
    pub flags: SessionFlags,
    /// Name set by `CLIENT SETNAME`; empty: none.
    pub name: Vec<u8>,
    /// Library name set by `CLIENT SETINFO`.
    pub lib_name: Vec<u8>,
    /// Library version set by `CLIENT SETINFO`.
    pub lib_version: Vec<u8>,
    /// Name of the user it authenticated as.
    pub user: String,
    /// Whether it may run commands that need authentication.
    pub authenticated: bool,
    /// Whether it once might, before it was reset.
    pub was_authenticated: bool,
    /// Peer address as Redis prints it.
    pub peer: String,
    /// Local address as Redis prints it.
    pub local: String,
    /// File descriptor number, for `CLIENT LIST`.
    pub fd: i32,
    /// Connected by a unix socket.
    pub by_unix_socket: bool,
    /// Connected from this machine.
    pub from_local: bool,
    /// When it connected.
    pub connected_at: Millis,
    /// It follows redirections (`CLIENT CAPA redirect`).
    pub follows_redirects: bool,
    /// It imports data from another server (`CLIENT IMPORT-SOURCE`).
    pub is_import_source: bool,
    /// The command that ran last, or runs.
    pub last_command: Option<CommandId>,
    /// Commands run so far.
    pub command_count: u64,
    /// Commands queued since `MULTI`.
    pub multi: Option<Box<Queue>>,
    /// Keys that `WATCH` was given.
    pub watching: Option<Box<Watching>>,
    /// What it listens to; `None`: nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Number of the last mail to its thread that it was given ahead of the others.
    pub delivered_seq: u64,
    /// How it is told what it may not keep any more (`CLIENT TRACKING`); `None`: not at all.
    pub tracking: Option<Box<Tracking>>,
    /// Why and until when it waits; set by a handler, cleared by the server.
    pub blocked: Option<Blocked>,
}

bitflags! {
    /// What is switched on for a connection. Empty on the fast path.
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
        /// Is closed when its replies are out.
        const CLOSE_AFTER_REPLY = 1 << 6;
        /// Listens to channels or patterns: in RESP2 little else is possible then.
        const LISTENING = 1 << 7;
        /// Its transaction must fail: a command was refused while it was queued.
        const DIRTY_EXEC = 1 << 8;
        /// A watched key changed.
        const DIRTY_CAS = 1 << 9;
        /// `CLIENT TRACKING ON`
        const TRACKING = 1 << 10;
        /// Is told of all changes (`BCAST`), not of those to what it has read.
        const TRACKING_BCAST = 1 << 12;
        /// Is not told of its own changes (`NOLOOP`).
        const TRACKING_NOLOOP = 1 << 13;
        /// Whom it redirected its invalidations to is gone.
        const BROKEN_REDIRECT = 1 << 14;
        /// Runs the commands of a transaction just now.
        const IN_EXEC = 1 << 11;
    }
}

/// Commands queued by `MULTI`, planned already.
#[derive(Default)]
pub struct Queue {
    /// In order.
    requests: Vec<Entry>,
    /// The arguments of all requests. Several, so that those of a long queue are not copied again and again.
    portions: Vec<ArgsBuf>,
    /// The keys of all requests.
    keys: Vec<PlannedKey>,
    /// Bytes that all of it takes.
    size: usize,
}

/// Where the parts of a queued request are.
struct Entry {
    found: Found,
    /// Which portion the arguments are in, and where in it.
    portion: usize,
    args: Range<usize>,
    keys: Range<usize>,
}

/// A request in a queue.
#[derive(Clone, Copy)]
pub struct Queued<'a> {
    /// What is to be run.
    pub found: Found,
    /// With what.
    pub args: Args<'a>,
    /// Its keys.
    pub keys: &'a [PlannedKey],
}

/// Bytes of arguments after which another portion begins.
const PORTION_SIZE: usize = 16 << 10;

/// Requests, and keys, that an empty queue keeps room for.
const SPARE_COUNT_MAX: usize = 128;

impl Queue {
    /// Adds a request.
    pub fn push(&mut self, found: Found, args: Args<'_>, keys: &[PlannedKey]) {
        let is_full = |portion: &ArgsBuf| portion.allocated_size() > PORTION_SIZE;
        if self.portions.last().is_none_or(is_full) {
            self.portions.push(ArgsBuf::new());
        }
        let portion = self.portions.len() - 1;
        let buffer = &mut self.portions[portion];
        let (first_arg, first_key, size) = (buffer.args().len(), self.keys.len(), buffer.allocated_size());
        buffer.extend(args);
        self.keys.extend_from_slice(keys);
        self.size += buffer.allocated_size() - size + size_of::<Entry>() + size_of_val(keys);
        let (args, keys) = (first_arg..first_arg + args.len(), first_key..self.keys.len());
        self.requests.push(Entry { found, portion, args, keys });
    }

    /// The requests, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Queued<'_>> {
        self.requests.iter().map(|entry| Queued {
            found: entry.found,
            args: self.portions[entry.portion].args().range(entry.args.clone()),
            keys: &self.keys[entry.keys.clone()],
        })
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Bytes of memory that the requests take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Forgets the requests, and keeps the memory that a short queue needs.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.requests.shrink_to(SPARE_COUNT_MAX);
        self.keys.clear();
        self.keys.shrink_to(SPARE_COUNT_MAX);
        self.portions.truncate(1);
        self.portions.retain_mut(|portion| {
            portion.clear();
            portion.allocated_size() <= 2 * PORTION_SIZE
        });
        self.size = 0;
    }
}

/// Why a connection waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// How long it waits at most, from when it began; `None`: for ever. No moment of the wall clock, which may be set.
    pub timeout: Option<Duration>,
    /// For what it waits.
    pub reason: BlockReason,
}

impl Blocked {
    /// Answers that the time is over; nothing where the request itself is to be run then.
    pub fn write_timeout(&self, reply: &mut ReplyBuffer<'_>) {
        match self.reason {
            BlockReason::Pause
            | BlockReason::Congestion
            | BlockReason::Turns
            | BlockReason::Barrier
            | BlockReason::Shutdown => {}
            BlockReason::Keys(_) => reply.null_array(),
            BlockReason::Replicas { acknowledged } => reply.integer(acknowledged),
            BlockReason::Disk => {
                reply.array(2);
                reply.integer(0);
                reply.integer(0);
            }
        }
    }
}

/// What a request that waits for keys waits for: see [`Ctx::block`](crate::context::Ctx::block).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWait {
    /// Which of the request's keys, as places in the order of the table's key specs.
    pub keys: Range<usize>,
    /// What must be there for the request to be run again.
    pub needs: Needs,
    /// Arguments that are others when it is run again, by ascending index: what `$` of `XREAD` means is settled now.
    pub replaced: Vec<(usize, Vec<u8>)>,
}

impl KeyWait {
    /// Waits for a value of a type under any of these keys.
    #[must_use]
    pub fn for_kind(kind: Kind, keys: Range<usize>) -> Self {
        Self { keys, needs: Needs { kind, or_none: false }, replaced: Vec::new() }
    }
}

/// For what a connection waits, and so what it is answered when its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockReason {
    /// Data under a key: the request is then run again. Answered with a null array.
    Keys(KeyWait),
    /// Replicas' acknowledgements (`WAIT`): answered with the number of those that have come.
    Replicas {
        /// How many acknowledged so far.
        acknowledged: i64,
    },
    /// The disk, here or on replicas (`WAITAOF`): answered with how many have written it.
    Disk,
    /// The end of `CLIENT PAUSE`: the request is then run.
    Pause,
    /// A thread that has been sent more than it has delivered so far: the request is then run.
    Congestion,
    /// The server's shutdown (`SHUTDOWN` waits for it).
    Shutdown,
    /// The other threads' turns, before a command that looks at all connections.
    Turns,
    /// The other threads' turns, after a command that must hold for all of them before it is answered. Its reply is
    /// written already.
    Barrier,
}

impl Session {
    /// A new connection's session.
    #[must_use]
    pub fn new(id: u64, peer: String, local: String, connected_at: Millis, needs_password: bool) -> Self {
        Self {
            id,
            db: DbIndex(0),
            protocol: Protocol::Resp2,
            flags: SessionFlags::empty(),
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            user: "default".to_owned(),
            authenticated: !needs_password,
            was_authenticated: false,
            peer,
            local,
            fd: -1,
            by_unix_socket: false,
            from_local: false,
            connected_at,
            follows_redirects: false,
            is_import_source: false,
            last_command: None,
            command_count: 0,
            multi: None,
            watching: None,
            subscriptions: None,
            delivered_seq: 0,
            tracking: None,
            blocked: None,
        }
    }

    /// Back to the state of a new connection (`RESET`): database 0, RESP2, nothing queued or switched on.
    pub fn reset(&mut self, needs_password: bool) {
        self.db = DbIndex(0);
        self.protocol = Protocol::Resp2;
        // A reply that is being skipped is that of `RESET` itself.
        self.flags &= SessionFlags::REPLY_SKIP;
        self.name.clear();
        self.is_import_source = false;
        self.multi = None;
        self.watching = None;
        self.tracking = None;
        self.user = "default".to_owned();
        self.was_authenticated |= self.authenticated;
        self.authenticated = !needs_password;
    }

    /// Whether the transaction can only fail: there was a refusal, or a watched key is known to have changed.
    #[must_use]
    pub fn is_doomed(&self) -> bool {
        self.flags.contains(SessionFlags::DIRTY_EXEC) || self.has_watched_change()
    }

    /// Whether a watched key is known to have changed.
    #[must_use]
    pub fn has_watched_change(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.has_changed())
    }

    /// Refuses `DEBUG` where `enable-debug-command` does not allow it.
    ///
    /// # Errors
    /// The refusal.
    pub fn may_debug(&self, config: &Config) -> Result<(), CommandError> {
        const NOT_ALLOWED: CommandError = CommandError::new(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
             local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        );
        let is_local = self.from_local || self.by_unix_socket;
        if config.enable_debug_command.allows(is_local) { Ok(()) } else { Err(NOT_ALLOWED) }
    }

    /// Whether a transaction is being queued.
    #[must_use]
    pub fn in_multi(&self) -> bool {
        self.multi.is_some()
    }
}
