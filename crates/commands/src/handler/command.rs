//! Command definitions: one [`Command`] value holds everything that dispatch, latching, introspection, ACL
//! and documentation need.
//!
//! Invariants: the value is `const`; every property of a command is defined here and nowhere else. Start
//! reading at [`Command`].

use bitflags::bitflags;
use wire::request::Args;

use crate::context::Ctx;
use crate::doc::Doc;
use crate::error::CommandError;
pub use crate::key_spec::{Begin, Find, KeyFlags, KeySpec, find_declared_keys, find_keys, find_spec_keys};
use crate::reply::{Replied, Reply};
use crate::subscriptions::SubscriptionKind;
use crate::word::Word;

/// A function that runs a command while its latches are held.
pub type Handler = fn(&mut Ctx<'_>, Args<'_>, Reply<'_>) -> Result<Replied, CommandError>;

/// One line of the command table, or one of its subcommands.
#[derive(Clone, Copy)]
pub struct Command {
    /// Lower-case name; for a subcommand without the container's name.
    pub name: &'static str,
    /// Number of arguments including the name; negative: the minimum. Same encoding as in Redis.
    pub arity: i32,
    /// Flags as `COMMAND INFO` shows them.
    pub flags: Flags,
    /// ACL categories beyond those that follow from the flags (see [`Command::categories`]).
    pub categories: Categories,
    /// The latches to acquire before `run` is called.
    pub access: Access,
    /// The positions of the keys, and how they are accessed.
    pub keys: &'static [KeySpec],
    /// Hints for clients and proxies, as `COMMAND INFO` shows them.
    pub tips: &'static [&'static str],
    /// Documentation, as `COMMAND DOCS` shows it.
    pub doc: Doc,
    /// Subcommands. If there are any, `run` handles only the bare name.
    pub subcommands: &'static [Command],
    /// The handler.
    pub run: Handler,
}

impl Command {
    /// Creates a command without keys that accesses no data.
    #[must_use]
    pub const fn keyless(name: &'static str, arity: i32, flags: Flags, doc: Doc, run: Handler) -> Self {
        Self {
            name,
            arity,
            flags,
            categories: Categories::empty(),
            access: Access::None,
            keys: &[],
            tips: &[],
            doc,
            subcommands: &[],
            run,
        }
    }

    /// Creates a container that only has subcommands; [`only_subcommands`] handles the bare name.
    #[must_use]
    pub const fn container(name: &'static str, doc: Doc, subcommands: &'static [Command]) -> Self {
        let mut command = Self::keyless(name, -2, Flags::empty(), doc, only_subcommands);
        command.subcommands = subcommands;
        command
    }

    /// Sets the flags.
    #[must_use]
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Adds flags.
    #[must_use]
    pub const fn add_flags(mut self, flags: Flags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }

    /// Adds ACL categories.
    #[must_use]
    pub const fn add_categories(mut self, categories: Categories) -> Self {
        self.categories = self.categories.union(categories);
        self
    }

    /// Sets the hints.
    #[must_use]
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// Sets the access to data.
    #[must_use]
    pub const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the key specs.
    #[must_use]
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// Returns all ACL categories: the declared ones and those that follow from the flags.
    #[must_use]
    pub fn categories(&self) -> Categories {
        let mut all = self.categories;
        let follows = [
            (Flags::WRITE, Categories::WRITE),
            (Flags::READONLY, Categories::READ),
            (Flags::ADMIN, Categories::ADMIN.union(Categories::DANGEROUS)),
            (Flags::PUBSUB, Categories::PUBSUB),
            (Flags::FAST, Categories::FAST),
            (Flags::BLOCKING, Categories::BLOCKING),
        ];
        for (flag, categories) in follows {
            if self.flags.contains(flag) {
                all |= categories;
            }
        }
        if self.flags.contains(Flags::READONLY) && all.contains(Categories::SCRIPTING) {
            all.remove(Categories::READ);
        }
        if !all.contains(Categories::FAST) {
            all |= Categories::SLOW;
        }
        all
    }

    /// Returns the subcommands that introspection shows and statistics count separately.
    #[must_use]
    pub const fn public_subcommands(&self) -> &'static [Command] {
        if self.flags.contains(Flags::PRIVATE_SUBCOMMANDS) { &[] } else { self.subcommands }
    }

    /// Returns the kind of channel that the command sends a message to; the channel is the first argument.
    #[must_use]
    pub const fn published_kind(&self) -> Option<SubscriptionKind> {
        if !self.flags.contains(Flags::PUBLISHES) {
            return None;
        }
        Some(match self.flags.contains(Flags::SHARD_CHANNELS) {
            true => SubscriptionKind::ShardChannel,
            false => SubscriptionKind::Channel,
        })
    }

    /// Whether `argc` (name included) matches the arity.
    #[must_use]
    pub const fn accepts(&self, argc: usize) -> bool {
        if self.arity >= 0 { argc == self.arity as usize } else { argc >= self.arity.unsigned_abs() as usize }
    }
}

/// Rejects a container without a subcommand. Unreachable in practice: the arity check comes first.
pub fn only_subcommands(ctx: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(CommandError::wrong_arity(ctx.command.name))
}

/// Whether a request accesses keys that are not among its arguments.
pub type AccessesOtherKeys = fn(Args<'_>) -> bool;

/// What the first argument of a request that runs a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// The text of a script.
    Body,
    /// The digest of a cached script.
    Sha,
    /// The name of a function.
    Function,
}

/// The latches that a command needs. The planner acquires them; handlers never do.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// No data.
    None,
    /// No data, but the state of every connection: the other workers first process their pending requests
    /// (`CLIENT LIST`).
    Connections,
    /// No latches, but the number of keys. In a transaction it is of one instant, and contains the changes of the transaction.
    KeyCount,
    /// No latches, but random keys. In a transaction their slots stay latched.
    RandomKeys,
    /// Read latches on the slots of the keys.
    Read,
    /// Write latches on the slots of the keys.
    Write,
    /// Read latches on all slots, for a consistent view of the whole keyspace.
    ReadAll,
    /// Write latches on all slots.
    WriteAll,
    /// The script token, for writing: changes of the libraries of functions have an order.
    Libraries,
    /// The union of the latches that the commands queued in the session need (`EXEC`).
    Queued,
    /// Latches for a script or function. The server determines them from the script's text and earlier runs.
    Script {
        /// What the first argument names.
        source: ScriptSource,
        /// Whether the script may only read.
        reads_only: bool,
    },
    /// [`Self::ReadAll`] if the request accesses keys that are not among its arguments, else [`Self::Read`].
    ReadAllIf(AccessesOtherKeys),
    /// [`Self::WriteAll`] if the request accesses keys that are not among its arguments, else
    /// [`Self::Write`].
    WriteAllIf(AccessesOtherKeys),
}

impl Access {
    /// Resolves the access for a request: never returns a variant that depends on the arguments.
    #[must_use]
    pub fn of_request(self, args: Args<'_>) -> Self {
        match self {
            Self::ReadAllIf(accesses_other_keys) => {
                if accesses_other_keys(args) {
                    Self::ReadAll
                } else {
                    Self::Read
                }
            }
            Self::WriteAllIf(accesses_other_keys) => {
                if accesses_other_keys(args) {
                    Self::WriteAll
                } else {
                    Self::Write
                }
            }
            settled => settled,
        }
    }

    /// Resolves the access for a request whose user may access only the keys among its arguments.
    #[must_use]
    pub const fn of_own_keys(self) -> Self {
        match self {
            Self::ReadAllIf(_) => Self::Read,
            Self::WriteAllIf(_) => Self::Write,
            settled => settled,
        }
    }
}

impl PartialEq for Access {
    /// Whether both are the same variant; the `AccessesOtherKeys` function is not compared.
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Access {}

bitflags! {
    /// Command flags, with Redis's names and meaning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u64 {
        /// May change data.
        const WRITE = 1 << 0;
        /// Reads data only.
        const READONLY = 1 << 1;
        /// May use more memory: rejected over the memory limit.
        const DENYOOM = 1 << 2;
        /// Administration.
        const ADMIN = 1 << 3;
        /// Publish/subscribe.
        const PUBSUB = 1 << 4;
        /// Not allowed in scripts.
        const NOSCRIPT = 1 << 5;
        /// May block.
        const BLOCKING = 1 << 6;
        /// Allowed while the dataset is being loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica with stale data.
        const STALE = 1 << 8;
        /// Not shown to `MONITOR`.
        const SKIP_MONITOR = 1 << 9;
        /// Not recorded in the slow log: its own duration is not meaningful.
        const SKIP_COMMANDLOG = 1 << 10;
        /// Constant or logarithmic time.
        const FAST = 1 << 11;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 12;
        /// Key positions depend on the contents of the arguments.
        const MOVABLEKEYS = 1 << 13;
        /// Not allowed inside MULTI.
        const NO_MULTI = 1 << 14;
        /// Runs at once inside MULTI instead of being queued.
        const NO_QUEUE = 1 << 15;
        /// Allowed while a script or module blocks the server.
        const ALLOW_BUSY = 1 << 16;
        /// Not allowed during asynchronous loading.
        const NO_ASYNC_LOADING = 1 << 17;
        /// Changes how later requests of the connection are interpreted: ends a planned batch.
        const SESSION = 1 << 18;
        /// May replicate although it is not a write. Not exposed to clients.
        const MAY_REPLICATE = 1 << 19;
        /// Runs while clients are paused.
        const NO_PAUSE = 1 << 21;
        /// Takes about a microsecond for any value, although Redis does not flag it as fast. A sequence of such
        /// commands is timed as a whole. Not exposed to clients.
        const BRIEF = 1 << 22;
        /// The replies are messages, which `CLIENT REPLY` does not suppress. Not exposed to clients.
        const PUSH_REPLY = 1 << 23;
        /// The request itself is logged, unless the handler records other effects: running it again repeats its changes.
        /// Every write has this flag or the next one. Not exposed to clients.
        const LOG_VERBATIM = 1 << 24;
        /// Other requests are logged, which the handler records ([`Ctx::record_effect`]): the request itself depends on the time
        /// or on random numbers, or blocks, so running it again could have another result. Not exposed to clients.
        const LOG_INSTEAD = 1 << 25;
        /// Refused like a write while changes can't be stored: health checks notice that. Not exposed to clients.
        const SHOWS_HEALTH = 1 << 27;
        /// Allowed in subscribed mode, although it is not about subscriptions. Not exposed to clients.
        const FOR_SUBSCRIBERS = 1 << 28;
        /// Selects the database of the requests after it. Not exposed to clients.
        const SELECTS_DB = 1 << 29;
        /// May turn tracking on. Not exposed to clients.
        const BEGINS_TRACKING = 1 << 31;
        /// Leaves the effect of `CLIENT CACHING` to the next command. Not exposed to clients.
        const KEEPS_CACHING = 1 << 32;
        /// Sends a message to a channel, the first argument. Not exposed to clients.
        const PUBLISHES = 1 << 33;
        /// Subscribes to channels: all arguments. Not exposed to clients.
        const SUBSCRIBES = 1 << 34;
        /// The channels are patterns of channels. Not exposed to clients.
        const CHANNEL_PATTERNS = 1 << 35;
        /// The channels are shard channels. Not exposed to clients.
        const SHARD_CHANNELS = 1 << 36;
        /// `DEBUG` and its subcommands: refused unless `enable-debug-command` allows them, and queued in a transaction even if
        /// there is no such subcommand. Not exposed to clients.
        const FOR_DEBUGGING = 1 << 37;
        /// Has another name than in the command table, or is a subcommand of such a command. Not exposed to clients.
        const RENAMED = 1 << 38;
        /// Hides the subcommands from introspection; statistics count them under the container.
        const PRIVATE_SUBCOMMANDS = 1 << 30;
        /// Runs in a slot that is being imported, as if `ASKING` preceded it.
        const ASKING = 1 << 26;
        /// May have no keys; cluster checks require none.
        const NO_MANDATORY_KEYS = 1 << 20;
    }

    /// ACL categories, with Redis's names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1 << 0;
        /// `@read`
        const READ = 1 << 1;
        /// `@write`
        const WRITE = 1 << 2;
        /// `@set`
        const SET = 1 << 3;
        /// `@sortedset`
        const SORTEDSET = 1 << 4;
        /// `@list`
        const LIST = 1 << 5;
        /// `@hash`
        const HASH = 1 << 6;
        /// `@string`
        const STRING = 1 << 7;
        /// `@bitmap`
        const BITMAP = 1 << 8;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 9;
        /// `@geo`
        const GEO = 1 << 10;
        /// `@stream`
        const STREAM = 1 << 11;
        /// `@pubsub`
        const PUBSUB = 1 << 12;
        /// `@admin`
        const ADMIN = 1 << 13;
        /// `@fast`
        const FAST = 1 << 14;
        /// `@slow`
        const SLOW = 1 << 15;
        /// `@blocking`
        const BLOCKING = 1 << 16;
        /// `@dangerous`
        const DANGEROUS = 1 << 17;
        /// `@connection`
        const CONNECTION = 1 << 18;
        /// `@transaction`
        const TRANSACTION = 1 << 19;
        /// `@scripting`
        const SCRIPTING = 1 << 20;
    }
}

impl Categories {
    /// Returns the category with this name, in any case.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Self::all().iter_names().find(|(known, _)| name.eq_token(known)).map(|(_, category)| category)
    }
}
