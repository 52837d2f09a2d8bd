//! The cursor and the options that `SCAN` shares with `SSCAN`, `HSCAN` and `ZSCAN`.

use base::glob;
use collections::Kind;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::error::{CommandError, up_to_nul};
use crate::word::Word;

const INVALID_CURSOR: CommandError = CommandError::new("ERR invalid cursor");
const MISPLACED_NOVALUES: CommandError = CommandError::new("ERR NOVALUES option can only be used in HSCAN");
const MISPLACED_NOSCORES: CommandError = CommandError::new("ERR NOSCORES option can only be used in ZSCAN");

/// Default of `COUNT`.
const COUNT_DEFAULT: usize = 10;

/// The target of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The keys of the database.
    Keys,
    /// The elements of a value of this type.
    Elements(Kind),
}

/// Parsed options.
pub(crate) struct ScanOptions<'a> {
    /// `MATCH`, unless the pattern matches everything.
    pub pattern: Option<&'a [u8]>,
    /// `TYPE`
    pub kind: Option<Kind>,
    /// `COUNT`, at least 1: number of elements to visit.
    pub count: usize,
    /// `NOVALUES` or `NOSCORES`
    pub names_only: bool,
}

/// Returns the table position of a cursor. As in Valkey only the low bits count: a cursor that no call
/// returned starts at an arbitrary position.
pub(crate) fn position_of(cursor: u64) -> u32 {
    (cursor & ((1 << 24) - 1)) as u32
}

impl<'a> ScanOptions<'a> {
    /// Parses the options of a request; `args` starts after the cursor.
    pub fn parse(args: Args<'a>, subject: Subject) -> Result<Self, CommandError> {
        let mut options = Self { pattern: None, kind: None, count: COUNT_DEFAULT, names_only: false };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let mut operand = || rest.next().ok_or(CommandError::SYNTAX);
            if word.eq_token("match") {
                options.pattern = Some(operand()?).filter(|pattern| *pattern != b"*");
            } else if word.eq_token("count") {
                let count = parse_i64_strict(operand()?).ok_or(CommandError::NOT_AN_INTEGER)?;
                options.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(CommandError::SYNTAX)?;
            } else if word.eq_token("type") && subject == Subject::Keys {
                options.kind = Some(parse_kind(operand()?)?);
            } else if word.eq_token("novalues") {
                options.omit_values(subject, Kind::Hash, MISPLACED_NOVALUES)?;
            } else if word.eq_token("noscores") {
                options.omit_values(subject, Kind::SortedSet, MISPLACED_NOSCORES)?;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Whether the pattern matches the name of an element or key.
    #[inline]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn omit_values(
        &mut self,
        subject: Subject,
        kind: Kind,
        misplaced: CommandError,
    ) -> Result<(), CommandError> {
        self.names_only = true;
        if subject == Subject::Elements(kind) { Ok(()) } else { Err(misplaced) }
    }
}

fn parse_kind(name: &[u8]) -> Result<Kind, CommandError> {
    Kind::ALL
        .into_iter()
        .find(|kind| name.eq_token(kind.name()))
        .ok_or_else(|| CommandError::quote("ERR unknown type name '", name, "'"))
}

/// Parses a cursor like C's `strtoull`, as Redis does: accepts leading blanks, signs and zeros.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let text = up_to_nul(text);
    if let Some(cursor) = parse_i64_strict(text) {
        return u64::try_from(cursor).map_err(|_| INVALID_CURSOR);
    }
    read_loosely(text).ok_or(INVALID_CURSOR)
}

fn read_loosely(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let cursor: u64 = digits.parse().ok()?;
    Some(if negative { cursor.wrapping_neg() } else { cursor })
}
