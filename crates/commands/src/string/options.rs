//! The options shared by `SET`, `GETEX` and `MSETEX`: condition and expiry.

use std::mem::discriminant;

use collections::ExpiryChange;
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::comparison::Comparison;
use crate::context::Ctx;
use crate::error::{CommandError, up_to_nul};

/// Length of the longest option name.
const WORD_SIZE_MAX: usize = 7;

/// The options of a command in addition to the timed expiries, which all commands have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionSet {
    /// `SET`: conditions, comparisons, `GET` and `KEEPTTL`.
    Set,
    /// `MSETEX`: conditions and `KEEPTTL`.
    Msetex,
    /// `GETEX`: `PERSIST`.
    Getex,
}

/// Parsed options.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetOptions<'a> {
    /// The condition for setting keys.
    pub condition: Condition<'a>,
    /// The expiry.
    pub lifetime: Lifetime<'a>,
    /// `GET`: reply with the old value.
    pub get: bool,
}

/// The condition for setting a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition<'a> {
    /// Unconditional.
    Always,
    /// `NX`: only if it does not exist.
    Absent,
    /// `XX`: only if it exists.
    Present,
    /// Only if the comparison with its value holds.
    Compared(Comparison<'a>),
}

/// The expiry option of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lifetime<'a> {
    /// None given.
    Unsaid,
    /// `KEEPTTL`: keeps the expiry.
    Keep,
    /// `PERSIST`: removes the expiry.
    Persist,
    /// Sets the expiry to a time that is not parsed yet.
    Timed(TimeKind, &'a [u8]),
}

/// The unit and origin of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeKind {
    /// `EX`: seconds from now.
    Seconds,
    /// `PX`: milliseconds from now.
    Millis,
    /// `EXAT`: Unix time in seconds.
    UnixSeconds,
    /// `PXAT`: Unix time in milliseconds.
    UnixMillis,
}

impl<'a> SetOptions<'a> {
    /// Parses the options of a request; `args` starts after its keys and values.
    pub fn parse(args: Args<'a>, grammar: OptionSet) -> Result<Self, CommandError> {
        let mut options = Self { condition: Condition::Always, lifetime: Lifetime::Unsaid, get: false };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            options.take(word, &mut rest, grammar)?;
        }
        Ok(options)
    }

    /// Parses one option and its operand, if any.
    fn take(
        &mut self,
        word: &'a [u8],
        operands: &mut impl Iterator<Item = &'a [u8]>,
        grammar: OptionSet,
    ) -> Result<(), CommandError> {
        let mut operand = || operands.next().ok_or(CommandError::SYNTAX);
        let (mut upper, word) = ([0; WORD_SIZE_MAX], up_to_nul(word));
        let upper = upper.get_mut(..word.len()).ok_or(CommandError::SYNTAX)?;
        upper.copy_from_slice(word);
        upper.make_ascii_uppercase();
        let sets = grammar != OptionSet::Getex;
        match &*upper {
            b"EX" => self.set_expiry_option(Lifetime::Timed(TimeKind::Seconds, operand()?)),
            b"PX" => self.set_expiry_option(Lifetime::Timed(TimeKind::Millis, operand()?)),
            b"EXAT" => self.set_expiry_option(Lifetime::Timed(TimeKind::UnixSeconds, operand()?)),
            b"PXAT" => self.set_expiry_option(Lifetime::Timed(TimeKind::UnixMillis, operand()?)),
            b"KEEPTTL" if sets => self.set_expiry_option(Lifetime::Keep),
            b"PERSIST" if grammar == OptionSet::Getex => self.set_expiry_option(Lifetime::Persist),
            b"NX" if sets => self.set_condition(Condition::Absent),
            b"XX" if sets => self.set_condition(Condition::Present),
            b"GET" if grammar == OptionSet::Set => {
                self.get = true;
                Ok(())
            }
            _ if grammar == OptionSet::Set => {
                let comparison = Comparison::named(word, operand()?).ok_or(CommandError::SYNTAX)?;
                self.set_condition(Condition::Compared(comparison))
            }
            _ => Err(CommandError::SYNTAX),
        }
    }

    /// The same expiry option may be repeated: the last one counts.
    fn set_expiry_option(&mut self, lifetime: Lifetime<'a>) -> Result<(), CommandError> {
        let agrees = match (self.lifetime, lifetime) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Timed(before, _), Lifetime::Timed(now, _)) => before == now,
            (before, now) => discriminant(&before) == discriminant(&now),
        };
        self.lifetime = lifetime;
        if agrees { Ok(()) } else { Err(CommandError::SYNTAX) }
    }

    /// `NX` and `XX` may be repeated, comparisons may not.
    fn set_condition(&mut self, condition: Condition<'a>) -> Result<(), CommandError> {
        let agrees = matches!(
            (self.condition, condition),
            (Condition::Always, _)
                | (Condition::Absent, Condition::Absent)
                | (Condition::Present, Condition::Present)
        );
        self.condition = condition;
        if agrees { Ok(()) } else { Err(CommandError::SYNTAX) }
    }
}

impl Condition<'_> {
    /// Whether the condition holds for a write-latched key.
    #[inline]
    pub fn holds(self, ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<bool, CommandError> {
        match self {
            Self::Always => Ok(true),
            Self::Absent => Ok(ctx.data.find_for_write(key).is_none()),
            Self::Present => Ok(ctx.data.find_for_write(key).is_some()),
            Self::Compared(comparison) => match ctx.find_string_for_write(key)? {
                None => Ok(comparison.holds_without_value()),
                Some(value) => comparison.holds(value),
            },
        }
    }
}

impl Lifetime<'_> {
    /// Returns the change of a key's expiry; `None` if no option was given.
    pub fn change(self, ctx: &Ctx<'_>) -> Result<Option<ExpiryChange>, CommandError> {
        Ok(match self {
            Self::Unsaid => None,
            Self::Keep => Some(ExpiryChange::Keep),
            Self::Persist => Some(ExpiryChange::Clear),
            Self::Timed(kind, text) => Some(ExpiryChange::At(kind.read(text, ctx)?)),
        })
    }
}

impl TimeKind {
    /// Parses `text` as a Unix time in milliseconds, which must be positive.
    pub fn read(self, text: &[u8], ctx: &Ctx<'_>) -> Result<i64, CommandError> {
        let number = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
        let now = ctx.now().0;
        let at = match self {
            _ if number <= 0 => None,
            Self::Seconds => number.checked_mul(1000).and_then(|ms| ms.checked_add(now)),
            Self::Millis => number.checked_add(now),
            Self::UnixSeconds => number.checked_mul(1000),
            Self::UnixMillis => Some(number),
        };
        at.ok_or_else(|| CommandError::invalid_expire(ctx.command.name))
    }
}
