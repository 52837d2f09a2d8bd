//! Stream commands.
//!
//! Shared: IDs in `ids.rs`, entries in replies in `entries.rs`, trimming options in `trimming.rs`, references
//! of groups to deleted entries in `references.rs`.

mod entries;
mod ids;
mod logged;
mod references;
mod trimming;

pub mod xack;
pub mod xackdel;
pub mod xadd;
pub mod xautoclaim;
pub mod xclaim;
pub mod xdel;
pub mod xgroup;
pub mod xinfo;
pub mod xlen;
pub mod xpending;
pub mod xrange;
pub mod xread;
pub mod xsetid;
pub mod xtrim;

use wire::number::parse_i64_strict;

use crate::error::{CommandError, up_to_nul};

/// The error for a missing key or group.
fn no_group(key: &[u8], group: &[u8], after: &str) -> CommandError {
    CommandError::quoting(
        [
            b"NOGROUP No such key '",
            up_to_nul(key),
            b"' or consumer group '",
            up_to_nul(group),
            b"'",
            after.as_bytes(),
        ]
        .concat(),
    )
}

/// The error for a missing group of an existing key.
fn no_group_of_key(key: &[u8], group: &[u8]) -> CommandError {
    CommandError::quoting(
        [b"NOGROUP No such consumer group '", up_to_nul(group), b"' for key name '", up_to_nul(key), b"'"]
            .concat(),
    )
}

/// Parses an integer argument.
fn parse_integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)
}

/// Parses a count: `None` for any number.
fn parse_count(text: &[u8]) -> Result<usize, CommandError> {
    Ok(usize::try_from(parse_integer(text)?).unwrap_or(0))
}

/// Parses `MINIDLE` and similar options: negative values become 0.
fn parse_min_idle(text: &[u8], refusal: CommandError) -> Result<i64, CommandError> {
    parse_i64_strict(text).map(|idle| idle.max(0)).ok_or(refusal)
}
