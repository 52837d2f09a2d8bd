//! How long a request waits at most, as its arguments say.

use base::Millis;
use wire::extended::Extended;
use wire::number::parse_i64_strict;

use crate::context::Ctx;
use crate::error::CommandError;

const NOT_A_FLOAT: CommandError = CommandError::new("ERR timeout is not a float or out of range");
const NOT_AN_INTEGER: CommandError = CommandError::new("ERR timeout is not an integer or out of range");
const NEGATIVE: CommandError = CommandError::new("ERR timeout is negative");
const OUT_OF_RANGE: CommandError = CommandError::new("ERR timeout is out of range");

/// The end of a wait that is given in seconds, fractions included; `None`: there is none.
pub fn parse_seconds(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Millis>, CommandError> {
    let seconds = Extended::parse(text).ok_or(NOT_A_FLOAT)?;
    end(ctx, seconds.thousandfold_up().ok_or(OUT_OF_RANGE)?)
}

/// The end of a wait that is given in milliseconds; `None`: there is none.
pub fn parse_millis(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Millis>, CommandError> {
    end(ctx, parse_i64_strict(text).ok_or(NOT_AN_INTEGER)?)
}

fn end(ctx: &Ctx<'_>, timeout_ms: i64) -> Result<Option<Millis>, CommandError> {
    match timeout_ms {
        ..0 => Err(NEGATIVE),
        0 => Ok(None),
        _ => timeout_ms.checked_add(ctx.now().0).map(|until| Some(Millis(until))).ok_or(OUT_OF_RANGE),
    }
}
