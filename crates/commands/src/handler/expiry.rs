//! Expiry times as requests give them, for keys and for hash fields: their formats, the options that set them,
//! and the conditions on the previous expiry.
//!
//! A time is a Unix time in milliseconds once it is parsed.

use bitflags::bitflags;
use collections::ExpiryChange;
use wire::number::parse_i64_strict;

use crate::context::Ctx;
use crate::error::CommandError;
use crate::word::Word;

/// The unit and origin of an expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryFormat {
    /// `EX`: seconds from now.
    Seconds,
    /// `PX`: milliseconds from now.
    Millis,
    /// `EXAT`: Unix time in seconds.
    UnixSeconds,
    /// `PXAT`: Unix time in milliseconds.
    UnixMillis,
}

impl ExpiryFormat {
    /// Parses a time. A number below `number_min` is invalid.
    pub(crate) fn parse(self, text: &[u8], number_min: i64, ctx: &Ctx<'_>) -> Result<i64, CommandError> {
        let number = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
        let at = Some(number).filter(|number| *number >= number_min);
        let at = at.and_then(|number| self.unix_millis(number, ctx.now().0));
        at.ok_or_else(|| CommandError::invalid_expire(ctx.command.name))
    }

    /// Converts a number in this format; `None` on overflow.
    fn unix_millis(self, number: i64, now: i64) -> Option<i64> {
        match self {
            Self::Seconds => number.checked_mul(1000)?.checked_add(now),
            Self::Millis => number.checked_add(now),
            Self::UnixSeconds => number.checked_mul(1000),
            Self::UnixMillis => Some(number),
        }
    }
}

/// The option of a request that sets an expiry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpiryOption<'a> {
    /// `KEEPTTL`: keeps the expiry.
    Keep,
    /// `PERSIST`: removes the expiry.
    Persist,
    /// Sets the expiry to a time that is not parsed yet.
    At(ExpiryFormat, &'a [u8]),
}

impl<'a> ExpiryOption<'a> {
    /// Sets the option. An option may be repeated, the last one counts; two different options are an error.
    pub(crate) fn set(option: &mut Option<Self>, new: Self) -> Result<(), CommandError> {
        let agrees = match (option.replace(new), new) {
            (None, _) | (Some(Self::Keep), Self::Keep) | (Some(Self::Persist), Self::Persist) => true,
            (Some(Self::At(before, _)), Self::At(now, _)) => before == now,
            _ => false,
        };
        if agrees { Ok(()) } else { Err(CommandError::SYNTAX) }
    }

    /// Returns the change of the expiry. A number below `number_min` is invalid.
    pub(crate) fn change(self, number_min: i64, ctx: &Ctx<'_>) -> Result<ExpiryChange, CommandError> {
        Ok(match self {
            Self::Keep => ExpiryChange::Keep,
            Self::Persist => ExpiryChange::Clear,
            Self::At(format, text) => ExpiryChange::At(format.parse(text, number_min, ctx)?),
        })
    }
}

bitflags! {
    /// The condition on the previous expiry for setting a new one.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct ExpiryCondition: u8 {
        const NX = 1;
        const XX = 2;
        const GT = 4;
        const LT = 8;
    }
}

impl ExpiryCondition {
    /// Parses condition words.
    pub(crate) fn parse<'w>(words: impl Iterator<Item = &'w [u8]>) -> Result<Self, CommandError> {
        let mut conditions = Self::empty();
        for word in words {
            conditions |= match word {
                _ if word.eq_token("nx") => Self::NX,
                _ if word.eq_token("xx") => Self::XX,
                _ if word.eq_token("gt") => Self::GT,
                _ if word.eq_token("lt") => Self::LT,
                _ => return Err(CommandError::quote("ERR Unsupported option ", word, "")),
            };
        }
        if conditions.contains(Self::NX) && conditions != Self::NX {
            return Err(NX_WITH_OTHERS);
        }
        if conditions.contains(Self::GT.union(Self::LT)) {
            return Err(GT_WITH_LT);
        }
        Ok(conditions)
    }

    /// Whether the condition allows `at` after `before`; no expiry counts as infinite.
    pub(crate) fn allow(self, before: Option<i64>, at: i64) -> bool {
        let later = before.is_some_and(|before| at > before);
        let earlier = before.is_none_or(|before| at < before);
        !(self.contains(Self::NX) && before.is_some()
            || self.contains(Self::XX) && before.is_none()
            || self.contains(Self::GT) && !later
            || self.contains(Self::LT) && !earlier)
    }
}

const NX_WITH_OTHERS: CommandError =
    CommandError::new("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_WITH_LT: CommandError =
    CommandError::new("ERR GT and LT options at the same time are not compatible");
