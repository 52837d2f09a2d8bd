//! The options shared by `SET`, `GETEX` and `MSETEX`: condition and expiry.

use collections::ExpiryChange;
use keyspace::Key;
use wire::request::Args;

use super::comparison::Comparison;
use crate::context::Ctx;
use crate::error::{CommandError, up_to_nul};
use crate::expiry::{ExpiryFormat, ExpiryOption};

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
    pub expiry: Option<ExpiryOption<'a>>,
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

impl<'a> SetOptions<'a> {
    /// Parses the options of a request; `args` starts after its keys and values.
    pub fn parse(args: Args<'a>, grammar: OptionSet) -> Result<Self, CommandError> {
        let mut options = Self { condition: Condition::Always, expiry: None, get: false };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            options.take(word, &mut rest, grammar)?;
        }
        Ok(options)
    }

    /// Returns the change of a key's expiry; `None` if no option was given. Only positive times are valid.
    pub fn expiry_change(&self, ctx: &Ctx<'_>) -> Result<Option<ExpiryChange>, CommandError> {
        self.expiry.map(|option| option.change(1, ctx)).transpose()
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
            b"EX" => ExpiryOption::set(&mut self.expiry, ExpiryOption::At(ExpiryFormat::Seconds, operand()?)),
            b"PX" => ExpiryOption::set(&mut self.expiry, ExpiryOption::At(ExpiryFormat::Millis, operand()?)),
            b"EXAT" => {
                ExpiryOption::set(&mut self.expiry, ExpiryOption::At(ExpiryFormat::UnixSeconds, operand()?))
            }
            b"PXAT" => {
                ExpiryOption::set(&mut self.expiry, ExpiryOption::At(ExpiryFormat::UnixMillis, operand()?))
            }
            b"KEEPTTL" if sets => ExpiryOption::set(&mut self.expiry, ExpiryOption::Keep),
            b"PERSIST" if grammar == OptionSet::Getex => {
                ExpiryOption::set(&mut self.expiry, ExpiryOption::Persist)
            }
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
