//! The options of `HGETEX` and `HSETEX`: conditions, and the expiry of fields.

use collections::ExpiryChange;
use wire::number::parse_i64_strict;

use crate::context::Ctx;
use crate::error::CommandError;
use crate::word::Word;

/// The command, which determines the allowed options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldExpiryCommand {
    Hgetex,
    Hsetex,
}

/// Parsed options.
#[derive(Clone, Copy, Default)]
pub(super) struct FieldExpiryOptions<'a> {
    /// `NX` and `XX`: whether the key must exist.
    pub key_is_there: Option<bool>,
    /// `FNX` and `FXX`: whether the fields must exist.
    pub fields_are_there: Option<bool>,
    lifetime: Option<FieldLifetime<'a>>,
}

#[derive(Clone, Copy)]
enum FieldLifetime<'a> {
    Keep,
    Persist,
    Timed(Unit, &'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

impl<'a> FieldExpiryOptions<'a> {
    /// Parses the arguments before `FIELDS`.
    pub(super) fn parse(words: Vec<&'a [u8]>, grammar: FieldExpiryCommand) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_token(name);
            let timed = [
                ("EX", Unit::Seconds),
                ("PX", Unit::Millis),
                ("EXAT", Unit::UnixSeconds),
                ("PXAT", Unit::UnixMillis),
            ];
            if let Some((_, unit)) = timed.into_iter().find(|(name, _)| is(name)) {
                let operand = words.next().ok_or(CommandError::SYNTAX)?;
                options.set_expiry_option(FieldLifetime::Timed(unit, operand))?;
            } else if grammar == FieldExpiryCommand::Hgetex && is("PERSIST") {
                options.set_expiry_option(FieldLifetime::Persist)?;
            } else if grammar == FieldExpiryCommand::Hsetex && is("KEEPTTL") {
                options.set_expiry_option(FieldLifetime::Keep)?;
            } else if grammar == FieldExpiryCommand::Hsetex && (is("NX") || is("XX")) {
                set_condition(&mut options.key_is_there, is("XX"))?;
            } else if grammar == FieldExpiryCommand::Hsetex && (is("FNX") || is("FXX")) {
                set_condition(&mut options.fields_are_there, is("FXX"))?;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// The same option may be repeated, the last one counts; different ones conflict.
    fn set_expiry_option(&mut self, lifetime: FieldLifetime<'a>) -> Result<(), CommandError> {
        let agrees = match (self.lifetime, lifetime) {
            (None, _)
            | (Some(FieldLifetime::Keep), FieldLifetime::Keep)
            | (Some(FieldLifetime::Persist), FieldLifetime::Persist) => true,
            (Some(FieldLifetime::Timed(before, _)), FieldLifetime::Timed(now, _)) => before == now,
            _ => false,
        };
        self.lifetime = Some(lifetime);
        if agrees { Ok(()) } else { Err(CommandError::SYNTAX) }
    }

    /// Returns the change of the fields' expiry; `None` if no option was given.
    pub(super) fn expiry(&self, ctx: &Ctx<'_>) -> Result<Option<ExpiryChange>, CommandError> {
        Ok(match self.lifetime {
            None => None,
            Some(FieldLifetime::Keep) => Some(ExpiryChange::Keep),
            Some(FieldLifetime::Persist) => Some(ExpiryChange::Clear),
            Some(FieldLifetime::Timed(unit, text)) => Some(ExpiryChange::At(unit.read(text, ctx)?)),
        })
    }
}

fn set_condition(condition: &mut Option<bool>, is_there: bool) -> Result<(), CommandError> {
    if condition.replace(is_there).is_some_and(|before| before != is_there) {
        return Err(CommandError::SYNTAX);
    }
    Ok(())
}

impl Unit {
    fn read(self, text: &[u8], ctx: &Ctx<'_>) -> Result<i64, CommandError> {
        let is_relative = matches!(self, Self::Seconds | Self::Millis);
        let base = if is_relative { ctx.now().0 } else { 0 };
        let is_seconds = matches!(self, Self::Seconds | Self::UnixSeconds);
        unix_millis(text, if is_seconds { 1000 } else { 1 }, base, ctx)
    }
}

/// Returns the Unix time in milliseconds for `text`, a number of units of `unit_ms` milliseconds after
/// `base`.
pub(super) fn unix_millis(text: &[u8], unit_ms: i64, base: i64, ctx: &Ctx<'_>) -> Result<i64, CommandError> {
    let number = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    let at = if number < 0 { None } else { number.checked_mul(unit_ms).and_then(|ms| ms.checked_add(base)) };
    at.ok_or_else(|| CommandError::invalid_expire(ctx.command.name))
}
