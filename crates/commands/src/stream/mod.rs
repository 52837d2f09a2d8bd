//! Stream commands.
//!
//! What several of them share: ids in `ids.rs`, entries as replies in `entries.rs`, trimming options in `trimming.rs`,
//! what groups still know of a deleted entry in `references.rs`.

mod entries;
mod ids;
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

/// The refusal where a group is needed that is not there, or its key.
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

/// The refusal where the key is there, but not the group.
fn no_group_of_key(key: &[u8], group: &[u8]) -> CommandError {
    CommandError::quoting(
        [b"NOGROUP No such consumer group '", up_to_nul(group), b"' for key name '", up_to_nul(key), b"'"]
            .concat(),
    )
}

/// An integer argument.
fn parse_integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)
}

/// How many: `None` for any number.
fn parse_count(text: &[u8]) -> Result<usize, CommandError> {
    Ok(usize::try_from(parse_integer(text)?).unwrap_or(0))
}

/// `MINIDLE` and the like: what is negative is no time at all.
fn parse_min_idle(text: &[u8], refusal: CommandError) -> Result<i64, CommandError> {
    parse_i64_strict(text).map(|idle| idle.max(0)).ok_or(refusal)
}
