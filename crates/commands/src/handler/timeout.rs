//! Timeouts of blocking requests, parsed from their arguments.

use std::time::Duration;

use wire::extended::Extended;
use wire::number::parse_i64_strict;

use crate::context::Ctx;
use crate::error::CommandError;

const NOT_A_FLOAT: CommandError = CommandError::new("ERR timeout is not a float or out of range");
const NOT_AN_INTEGER: CommandError = CommandError::new("ERR timeout is not an integer or out of range");
const NEGATIVE: CommandError = CommandError::new("ERR timeout is negative");
const OUT_OF_RANGE: CommandError = CommandError::new("ERR timeout is out of range");

/// Parses a timeout in seconds, with fractions; `None`: no timeout.
pub fn parse_seconds(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let seconds = Extended::parse(text).ok_or(NOT_A_FLOAT)?;
    parse(ctx, seconds.thousandfold_up().ok_or(OUT_OF_RANGE)?)
}

/// Parses a timeout in milliseconds; `None`: no timeout.
pub fn parse_millis(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Duration>, CommandError> {
    parse(ctx, parse_i64_strict(text).ok_or(NOT_AN_INTEGER)?)
}

/// The clock is used only to reject timeouts that are out of range. Setting the clock changes no running timeout.
fn parse(ctx: &Ctx<'_>, timeout_ms: i64) -> Result<Option<Duration>, CommandError> {
    match timeout_ms {
        ..0 => Err(NEGATIVE),
        0 => Ok(None),
        _ if timeout_ms.checked_add(ctx.now().0).is_none() => Err(OUT_OF_RANGE),
        _ => Ok(Some(Duration::from_millis(timeout_ms.unsigned_abs()))),
    }
}
