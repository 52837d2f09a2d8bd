//! The positions of a command's keys in a request, and how the command accesses them.

use wire::request::Args;

use crate::command::Command;
use crate::word::Word;

bitflags::bitflags! {
    /// How a command accesses the keys of one [`KeySpec`], with Redis's names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16 {
        /// Reads and writes the value.
        const RW = 1 << 0;
        /// Reads the value.
        const RO = 1 << 1;
        /// Overwrites the value without reading it.
        const OW = 1 << 2;
        /// Removes the key.
        const RM = 1 << 3;
        /// Returns data of the value to the client.
        const ACCESS = 1 << 4;
        /// Updates data of the value.
        const UPDATE = 1 << 5;
        /// Inserts data only.
        const INSERT = 1 << 6;
        /// Deletes data.
        const DELETE = 1 << 7;
        /// The argument is not a key but is routed like one.
        const NOT_KEY = 1 << 8;
        /// The spec may not find all keys.
        const INCOMPLETE = 1 << 9;
        /// The flags depend on the arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// The positions of some of a command's keys, and how the command accesses them.
pub struct KeySpec {
    /// How the keys are accessed.
    pub flags: KeyFlags,
    /// The position of the first key.
    pub begin: Begin,
    /// The positions of the other keys.
    pub find: Find,
    /// A remark for `COMMAND INFO`, usually the reason why the flags vary.
    pub notes: Option<&'static str>,
    /// Replaces `begin` and `find` in the planner if finding the keys requires parsing the arguments: pushes
    /// the index of each key.
    pub custom: Option<fn(Args<'_>, &mut Vec<u32>)>,
    /// Returns the flags for a request, if its arguments determine them.
    pub flags_of_request: Option<fn(Args<'_>) -> KeyFlags>,
}

impl KeySpec {
    /// One key, the first argument.
    #[must_use]
    pub const fn first(flags: KeyFlags) -> Self {
        Self::at(1, flags)
    }

    /// Whether the spec is one key, the first argument.
    #[must_use]
    pub const fn is_first_only(&self) -> bool {
        self.is_by_count()
            && matches!(self.begin, Begin::Index(1))
            && matches!(self.find, Find::Range { last: 0, .. })
    }

    /// Whether the number of arguments alone determines the key positions.
    #[must_use]
    pub const fn is_by_count(&self) -> bool {
        matches!(self.begin, Begin::Index(_))
            && matches!(self.find, Find::Range { .. })
            && self.custom.is_none()
    }

    /// Returns how a request accesses the keys.
    #[must_use]
    pub fn flags_of(&self, request: Args<'_>) -> KeyFlags {
        match self.flags_of_request {
            Some(flags_of_request) => flags_of_request(request),
            None => self.flags.difference(KeyFlags::VARIABLE_FLAGS | KeyFlags::INCOMPLETE),
        }
    }

    /// One key at `index`.
    #[must_use]
    pub const fn at(index: u32, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// Keys from `index` to `last` (relative to `index`; negative: from the end), every `step` arguments.
    #[must_use]
    pub const fn range(index: u32, last: i32, step: u32, flags: KeyFlags) -> Self {
        Self {
            flags,
            begin: Begin::Index(index),
            find: Find::Range { last, step, limit: 0 },
            notes: None,
            custom: None,
            flags_of_request: None,
        }
    }

    /// A count at `index`, followed by that many keys, `step` apart.
    #[must_use]
    pub const fn counted(index: u32, step: u32, flags: KeyFlags) -> Self {
        Self {
            flags,
            begin: Begin::Index(index),
            find: Find::KeyNum { count_at: 0, first: 1, step },
            notes: None,
            custom: None,
            flags_of_request: None,
        }
    }
}

/// How the first key of a [`KeySpec`] is found.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// At this argument index.
    Index(u32),
    /// After this keyword, searched forwards from `from` (negative: backwards from the end).
    Keyword {
        /// The keyword.
        word: &'static str,
        /// The index where the search begins.
        from: i32,
    },
    /// Not expressible as a spec.
    Unknown,
}

/// How the further keys of a [`KeySpec`] are found.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Up to an argument index.
    Range {
        /// Last key, relative to the first; negative: from the end of the request.
        last: i32,
        /// Distance between keys.
        step: u32,
        /// With `last` = -1: the keys are only the first 1/n of the remaining arguments; 0 and 1: no limit.
        limit: u32,
    },
    /// As many as an argument specifies.
    KeyNum {
        /// Index of the count, relative to `begin`.
        count_at: u32,
        /// Index of the first key, relative to `begin`.
        first: u32,
        /// Distance between keys.
        step: u32,
    },
    /// Not expressible as a spec.
    Unknown,
}

/// Pushes the argument index of each key of a request with the right arity. Returns `false` if the arguments
/// are invalid (a count that is not a number, or too large).
pub fn find_keys(command: &Command, args: Args<'_>, found: &mut Vec<u32>) -> bool {
    command.keys.iter().all(|spec| find_spec_keys(spec, args, found))
}

/// Like [`find_keys`], for one [`KeySpec`].
pub fn find_spec_keys(spec: &KeySpec, args: Args<'_>, found: &mut Vec<u32>) -> bool {
    if let Some(custom) = spec.custom {
        custom(args, found);
        return true;
    }
    find_declared_keys(spec, args, found)
}

/// Like [`find_spec_keys`], but ignores `custom`: finds the keys as clients do.
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
