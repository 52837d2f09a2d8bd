//! `FIELDS numfields field [field ...]`, the end of several hash commands.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::error::CommandError;
use crate::word::Word;

const BAD_COUNT: CommandError =
    CommandError::new("ERR numfields should be greater than 0 and match the provided number of fields");

/// Returns the fields of a request with `FIELDS` directly after the key. `mismatch` is the error for a wrong
/// count.
pub(super) fn after_key(args: Args<'_>, mismatch: CommandError) -> Result<Args<'_>, CommandError> {
    if !args.at(2).eq_token("fields") {
        return Err(CommandError::SYNTAX);
    }
    counted(args, 3, 1).map_err(|error| error.unwrap_or(mismatch))
}

/// Like [`after_key`], with the usual error.
pub(super) fn after_key_or_error(args: Args<'_>) -> Result<Args<'_>, CommandError> {
    after_key(args, BAD_COUNT)
}

/// Returns the options and the fields of a request with options before `FIELDS`, which is searched from
/// argument `from` on. Each field takes `step` arguments. `options` parses the arguments from `first` up to
/// `FIELDS`.
pub(super) fn after_options<'a, O>(
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

/// Returns the arguments after the count at `index`. The error is `None` if the count does not match their number.
fn counted(args: Args<'_>, index: usize, step: usize) -> Result<Args<'_>, Option<CommandError>> {
    let count = parse_i64_strict(args.at(index)).ok_or(Some(CommandError::NOT_AN_INTEGER))?;
    let fields = args.tail(index + 1);
    let expected =
        usize::try_from(count).ok().filter(|count| *count > 0).and_then(|count| count.checked_mul(step));
    if expected == Some(fields.len()) { Ok(fields) } else { Err(None) }
}
