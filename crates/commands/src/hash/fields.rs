//! `FIELDS numfields field [field ...]`, as several hash commands end.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::error::CommandError;
use crate::word::Word;

const BAD_COUNT: CommandError =
    CommandError::new("ERR numfields should be greater than 0 and match the provided number of fields");

/// The fields of a request in which the word comes right behind the key. `mismatch` is what a wrong count is answered.
pub(super) fn behind_key(args: Args<'_>, mismatch: CommandError) -> Result<Args<'_>, CommandError> {
    if !args.at(2).eq_token("fields") {
        return Err(CommandError::SYNTAX);
    }
    counted(args, 3, 1).map_err(|error| error.unwrap_or(mismatch))
}

/// The same with the usual answer.
pub(super) fn behind_key_or_say(args: Args<'_>) -> Result<Args<'_>, CommandError> {
    behind_key(args, BAD_COUNT)
}

/// The fields of a request in which options may come before the word, which is looked for from argument `from` on; each
/// field with what goes with it is `step` arguments. `options` reads what is between arguments `first` and the word.
pub(super) fn behind_options<'a, O>(
    args: Args<'a>,
    from: usize,
    first: usize,
    step: usize,
    options: impl FnOnce(Vec<&'a [u8]>) -> Result<O, CommandError>,
) -> Result<(O, Args<'a>), CommandError> {
    let is_word = |index: &usize| args.at(*index).eq_token("fields");
    let word = (from..args.len() - 1).find(is_word).ok_or(BAD_COUNT)?;
    let options = options(args.iter().take(word).skip(first).collect())?;
    let fields = counted(args, word + 1, step).map_err(|error| error.unwrap_or(BAD_COUNT))?;
    Ok((options, fields))
}

/// What is behind the count at `index`, if the count is right. `None` as error: it is not.
fn counted(args: Args<'_>, index: usize, step: usize) -> Result<Args<'_>, Option<CommandError>> {
    let count = parse_i64_strict(args.at(index)).ok_or(Some(CommandError::NOT_AN_INTEGER))?;
    let fields = args.tail(index + 1);
    let expected =
        usize::try_from(count).ok().filter(|count| *count > 0).and_then(|count| count.checked_mul(step));
    if expected == Some(fields.len()) { Ok(fields) } else { Err(None) }
}
