//! The options of `HGETEX` and `HSETEX`: conditions, and the expiry of fields.

use collections::ExpiryChange;

use crate::context::Ctx;
use crate::error::CommandError;
use crate::expiry::{ExpiryFormat, ExpiryOption};
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
    pub key_exists: Option<bool>,
    /// `FNX` and `FXX`: whether the fields must exist.
    pub fields_exist: Option<bool>,
    expiry: Option<ExpiryOption<'a>>,
}

impl<'a> FieldExpiryOptions<'a> {
    /// Parses the arguments before `FIELDS`.
    pub(super) fn parse(words: Vec<&'a [u8]>, grammar: FieldExpiryCommand) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_token(name);
            let timed = [
                ("EX", ExpiryFormat::Seconds),
                ("PX", ExpiryFormat::Millis),
                ("EXAT", ExpiryFormat::UnixSeconds),
                ("PXAT", ExpiryFormat::UnixMillis),
            ];
            if let Some((_, format)) = timed.into_iter().find(|(name, _)| is(name)) {
                let operand = words.next().ok_or(CommandError::SYNTAX)?;
                ExpiryOption::set(&mut options.expiry, ExpiryOption::At(format, operand))?;
            } else if grammar == FieldExpiryCommand::Hgetex && is("PERSIST") {
                ExpiryOption::set(&mut options.expiry, ExpiryOption::Persist)?;
            } else if grammar == FieldExpiryCommand::Hsetex && is("KEEPTTL") {
                ExpiryOption::set(&mut options.expiry, ExpiryOption::Keep)?;
            } else if grammar == FieldExpiryCommand::Hsetex && (is("NX") || is("XX")) {
                set_condition(&mut options.key_exists, is("XX"))?;
            } else if grammar == FieldExpiryCommand::Hsetex && (is("FNX") || is("FXX")) {
                set_condition(&mut options.fields_exist, is("FXX"))?;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Returns the change of the fields' expiry; `None` if no option was given. Negative times are invalid.
    pub(super) fn expiry(&self, ctx: &Ctx<'_>) -> Result<Option<ExpiryChange>, CommandError> {
        self.expiry.map(|option| option.change(0, ctx)).transpose()
    }
}

fn set_condition(condition: &mut Option<bool>, exists: bool) -> Result<(), CommandError> {
    if condition.replace(exists).is_some_and(|before| before != exists) {
        return Err(CommandError::SYNTAX);
    }
    Ok(())
}
