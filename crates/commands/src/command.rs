//! What a command says of itself: one [`Command`] value holds everything that dispatch, latching,
//! introspection, ACL and documentation ask about it.
//!
//! Invariants: the value is `const`; nothing about a command is said anywhere else.
//! Start reading at [`Command`].

use bitflags::bitflags;
use wire::request::Args;

use crate::context::Ctx;
use crate::doc::Doc;
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// The function that runs a command under its latches.
pub type Run = fn(&mut Ctx<'_>, Args<'_>, Reply<'_>) -> Result<Replied, CommandError>;

/// One line of the command table, or one subcommand of such a line.
#[derive(Clone, Copy)]
pub struct Command {
    /// Lower-case name; a subcommand has only its own word here.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least so many. As Redis counts it.
    pub arity: i32,
    /// Flags as `COMMAND INFO` shows them.
    pub flags: Flags,
    /// ACL categories beyond those that follow from the flags (see [`Command::categories`]).
    pub categories: Categories,
    /// What has to be latched before `run` is called.
    pub access: Access,
    /// Where the keys are, and what happens to them.
    pub keys: &'static [KeySpec],
    /// Hints for clients and proxies, as `COMMAND INFO` shows them.
    pub tips: &'static [&'static str],
    /// Documentation, as `COMMAND DOCS` shows it.
    pub doc: Doc,
    /// Subcommands; where there are any, `run` answers the bare name only.
    pub subcommands: &'static [Command],
    /// The handler.
    pub run: Run,
}

impl Command {
    /// A command without keys that touches no data.
    #[must_use]
    pub const fn keyless(name: &'static str, arity: i32, flags: Flags, doc: Doc, run: Run) -> Self {
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

    /// A name that stands for its subcommands only: [`only_subcommands`] answers it.
    #[must_use]
    pub const fn container(name: &'static str, doc: Doc, subcommands: &'static [Command]) -> Self {
        let mut command = Self::keyless(name, -2, Flags::empty(), doc, only_subcommands);
        command.subcommands = subcommands;
        command
    }

    /// In these ACL categories as well.
    #[must_use]
    pub const fn categories_too(mut self, categories: Categories) -> Self {
        self.categories = self.categories.union(categories);
        self
    }

    /// With these hints.
    #[must_use]
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// With this access to data.
    #[must_use]
    pub const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// With these keys.
    #[must_use]
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// All ACL categories: the named ones and those that follow from the flags.
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
        if self.flags.contains(Flags::WRITE) && all.contains(Categories::SCRIPTING) {
            all.remove(Categories::WRITE);
        }
        if !all.contains(Categories::FAST) {
            all |= Categories::SLOW;
        }
        all
    }

    /// The subcommands that are shown, and counted by themselves.
    #[must_use]
    pub const fn public_subcommands(&self) -> &'static [Command] {
        if self.flags.contains(Flags::PRIVATE_SUBCOMMANDS) { &[] } else { self.subcommands }
    }

    /// Whether a request of `argc` arguments (name included) has the right number of them.
    #[must_use]
    pub const fn accepts(&self, argc: usize) -> bool {
        if self.arity >= 0 { argc == self.arity as usize } else { argc >= self.arity.unsigned_abs() as usize }
    }
}

/// Answers a container without a subcommand; its arity keeps such requests away.
pub fn only_subcommands(ctx: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(CommandError::wrong_arity(ctx.command.name))
}

/// Whether a request's arguments lead to keys that are not among them.
pub type Reaches = fn(Args<'_>) -> bool;

/// What a command needs latched. The planner takes the latches, handlers never do.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// No data.
    None,
    /// No data, but what every connection is: the other threads first do what had reached them (`CLIENT LIST`).
    Connections,
    /// The slots of its keys, for reading.
    Read,
    /// The slots of its keys, for writing.
    Write,
    /// Every slot, for reading: an operation that sees one instant of the whole keyspace.
    ReadAll,
    /// Every slot, for writing.
    WriteAll,
    /// What the commands queued in the session need, all of it at once (`EXEC`).
    Queued,
    /// As [`Self::ReadAll`] for requests whose arguments lead to keys that are not among them, else as [`Self::Read`].
    ReadAllIf(Reaches),
    /// As [`Self::WriteAll`] for requests whose arguments lead to keys that are not among them, else as [`Self::Write`].
    WriteAllIf(Reaches),
}

impl Access {
    /// What a request with these arguments needs: none of those that depend on them.
    #[must_use]
    pub fn of_request(self, args: Args<'_>) -> Self {
        match self {
            Self::ReadAllIf(reaches) => {
                if reaches(args) {
                    Self::ReadAll
                } else {
                    Self::Read
                }
            }
            Self::WriteAllIf(reaches) => {
                if reaches(args) {
                    Self::WriteAll
                } else {
                    Self::Write
                }
            }
            settled => settled,
        }
    }
}

impl PartialEq for Access {
    /// Whether they are of one kind; whatever decides about the requests of one that depends on them.
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Access {}

bitflags! {
    /// Command flags, with Redis's names and meaning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// May change data.
        const WRITE = 1 << 0;
        /// Reads data only.
        const READONLY = 1 << 1;
        /// May make the data larger: refused when memory is used up.
        const DENYOOM = 1 << 2;
        /// Administration.
        const ADMIN = 1 << 3;
        /// Publish/subscribe.
        const PUBSUB = 1 << 4;
        /// Not from scripts.
        const NOSCRIPT = 1 << 5;
        /// May wait for data.
        const BLOCKING = 1 << 6;
        /// Allowed while the data is being loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica with stale data.
        const STALE = 1 << 8;
        /// Not shown to `MONITOR`.
        const SKIP_MONITOR = 1 << 9;
        /// Not logged as slow: its duration says nothing.
        const SKIP_COMMANDLOG = 1 << 10;
        /// Constant or logarithmic time.
        const FAST = 1 << 11;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 12;
        /// Keys depend on the arguments' meaning, not only on their place.
        const MOVABLEKEYS = 1 << 13;
        /// Not inside MULTI.
        const NO_MULTI = 1 << 14;
        /// Not queued by MULTI but run at once.
        const NO_QUEUE = 1 << 15;
        /// Allowed while a script or module keeps the server busy.
        const ALLOW_BUSY = 1 << 16;
        /// May be refused with `-NOREPLICAS`: writes that need good replicas.
        const NO_ASYNC_LOADING = 1 << 17;
        /// Changes what later requests of the same connection mean: ends a planned batch.
        const SESSION = 1 << 18;
        /// Replicates although it is not a write. Not shown to anyone.
        const MAY_REPLICATE = 1 << 19;
        /// Runs while clients are paused.
        const NO_PAUSE = 1 << 21;
        /// Takes a microsecond or so on any value, though Redis does not call it fast: a run of such commands is timed
        /// as a whole. Not shown to anyone.
        const BRIEF = 1 << 22;
        /// Its replies are messages, which `CLIENT REPLY` does not swallow. Not shown to anyone.
        const PUSH_REPLY = 1 << 23;
        /// Its subcommands are its own business: they are counted as itself, and not shown.
        const PRIVATE_SUBCOMMANDS = 1 << 30;
        /// No keys must be given in its key specs for cluster checks.
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

    /// What a command does to the keys of one [`KeySpec`], with Redis's names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16 {
        /// Reads and changes the value.
        const RW = 1 << 0;
        /// Only reads.
        const RO = 1 << 1;
        /// Overwrites without looking.
        const OW = 1 << 2;
        /// Removes.
        const RM = 1 << 3;
        /// Hands the value's data to the client.
        const ACCESS = 1 << 4;
        /// Changes the value's data.
        const UPDATE = 1 << 5;
        /// Adds data only.
        const INSERT = 1 << 6;
        /// Deletes data.
        const DELETE = 1 << 7;
        /// The argument is no key but is routed like one.
        const NOT_KEY = 1 << 8;
        /// Not all keys may be found by this spec.
        const INCOMPLETE = 1 << 9;
        /// The flags depend on the arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// Where some of a command's keys are, and what the command does with them.
pub struct KeySpec {
    /// What happens to the keys.
    pub flags: KeyFlags,
    /// Where the first one is.
    pub begin: Begin,
    /// Which follow.
    pub find: Find,
    /// A remark for `COMMAND INFO`, usually why the flags vary.
    pub notes: Option<&'static str>,
    /// What the planner calls instead of `begin` and `find` where the arguments must be understood
    /// to find the keys: it pushes the index of each key.
    pub custom: Option<fn(Args<'_>, &mut Vec<u32>)>,
}

impl KeySpec {
    /// One key as the first argument.
    #[must_use]
    pub const fn first(flags: KeyFlags) -> Self {
        Self::at(1, flags)
    }

    /// Whether it is one key as the first argument.
    #[must_use]
    pub const fn is_first_only(&self) -> bool {
        self.is_by_count()
            && matches!(self.begin, Begin::Index(1))
            && matches!(self.find, Find::Range { last: 0, .. })
    }

    /// Whether the number of arguments alone tells which of them are its keys.
    #[must_use]
    pub const fn is_by_count(&self) -> bool {
        matches!(self.begin, Begin::Index(_))
            && matches!(self.find, Find::Range { .. })
            && self.custom.is_none()
    }

    /// One key at `index`.
    #[must_use]
    pub const fn at(index: u32, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// Keys from `index` to `last` (counted from `index`; negative: from the end), every `step` arguments.
    #[must_use]
    pub const fn range(index: u32, last: i32, step: u32, flags: KeyFlags) -> Self {
        Self {
            flags,
            begin: Begin::Index(index),
            find: Find::Range { last, step, limit: 0 },
            notes: None,
            custom: None,
        }
    }

    /// A count at `index`, with that many keys behind it, `step` apart.
    #[must_use]
    pub const fn counted(index: u32, step: u32, flags: KeyFlags) -> Self {
        Self {
            flags,
            begin: Begin::Index(index),
            find: Find::KeyNum { count_at: 0, first: 1, step },
            notes: None,
            custom: None,
        }
    }
}

/// How the first key of a [`KeySpec`] is found.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// At this argument.
    Index(u32),
    /// After this word, searched from `from` on (negative: backwards from the end).
    Keyword {
        /// The word.
        word: &'static str,
        /// Where the search begins.
        from: i32,
    },
    /// In no way that could be said here.
    Unknown,
}

/// How the further keys of a [`KeySpec`] are found.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Up to an argument.
    Range {
        /// Last key, counted from the first; negative: from the end of the request.
        last: i32,
        /// Distance of two keys.
        step: u32,
        /// With `last` = -1: stop after the n-th part of the arguments; 0 and 1: no limit.
        limit: u32,
    },
    /// As many as another argument says.
    KeyNum {
        /// Where the count is, counted from the beginning.
        count_at: u32,
        /// Where the first key is, counted from the beginning.
        first: u32,
        /// Distance of two keys.
        step: u32,
    },
    /// In no way that could be said here.
    Unknown,
}

/// Pushes the argument index of each key of a request with the right arity. `false` if the arguments
/// make no sense (a count that is no number, or too large).
pub fn find_keys(command: &Command, args: Args<'_>, found: &mut Vec<u32>) -> bool {
    command.keys.iter().all(|spec| find_spec_keys(spec, args, found))
}

/// The same for one [`KeySpec`].
pub fn find_spec_keys(spec: &KeySpec, args: Args<'_>, found: &mut Vec<u32>) -> bool {
    if let Some(custom) = spec.custom {
        custom(args, found);
        return true;
    }
    find_declared_keys(spec, args, found)
}

/// The same by what the [`KeySpec`] declares, as clients would.
pub fn find_declared_keys(spec: &KeySpec, args: Args<'_>, found: &mut Vec<u32>) -> bool {
    let argc = args.len();
    let begin = match spec.begin {
        Begin::Index(index) => index as usize,
        Begin::Keyword { word, from } => match find_keyword(args, word, from) {
            Some(index) => index + 1,
            None => return true,
        },
        Begin::Unknown => return true,
    };
    if begin >= argc {
        return true;
    }
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let end = if last >= 0 {
                begin + last as usize
            } else if limit <= 1 {
                argc - last.unsigned_abs() as usize
            } else {
                begin + (argc - begin) / limit as usize - 1
            };
            (begin, end, step as usize)
        }
        Find::KeyNum { count_at, first, step } => {
            let Some(count) = args.get(begin + count_at as usize).and_then(wire::number::parse_i64_strict)
            else {
                return false;
            };
            let first = begin + first as usize;
            let Ok(count) = usize::try_from(count) else { return false };
            if count == 0 {
                return true;
            }
            let Some(last) = count.checked_sub(1).and_then(|n| n.checked_mul(step as usize)) else {
                return false;
            };
            (first, first.saturating_add(last), step as usize)
        }
        Find::Unknown => return true,
    };
    if last >= argc {
        return false;
    }
    found.extend((first..=last).step_by(step.max(1)).map(|index| index as u32));
    true
}

fn find_keyword(args: Args<'_>, word: &str, from: i32) -> Option<usize> {
    let matches = |index: &usize| args.get(*index).is_some_and(|arg| arg.eq_token(word));
    if from >= 0 {
        (from as usize..args.len()).find(matches)
    } else {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(matches)
    }
}
