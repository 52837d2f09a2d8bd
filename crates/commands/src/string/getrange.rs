//! `GETRANGE` and `SUBSTR`, its name in Redis 1.

use std::ops::Range;

use collections::DecimalBuffer;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GETRANGE key start end`
pub const GETRANGE: Command = Command {
    name: "getrange",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::String, "2.4.0", "Returns a substring of the string value of a key.")
        .complexity(COMPLEXITY)
        .args(ARGS),
    subcommands: &[],
    run,
};

/// `SUBSTR key start end`
pub const SUBSTR: Command = Command {
    name: "substr",
    doc: Doc::new(Group::String, "1.0.0", "Returns a substring of the string value of a key, like GETRANGE.")
        .complexity(COMPLEXITY)
        .args(ARGS),
    ..GETRANGE
};

const COMPLEXITY: &str = "O(N) where N is the length of the returned string.";

const ARGS: &[Arg] = &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("end")];

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let start = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let end = parse_i64_strict(args.at(3)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let Some(value) = ctx.find_string(ctx.key(0))? else { return Ok(reply.bulk(b"")) };
    let mut decimal = DecimalBuffer::new();
    let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
    Ok(reply.bulk(&text[clamp(start, end, text.len())]))
}

/// Resolves `start` to `end`, both inclusive and negative from the end, in `len` bytes.
fn clamp(start: i64, end: i64, len: usize) -> Range<usize> {
    // Two negative offsets in descending order are an empty range even if both lie before the beginning.
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { (index + len).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped() {
        let cases: &[(i64, i64, usize, Range<usize>)] = &[
            (0, 3, 11, 0..4),
            (0, -1, 11, 0..11),
            (-4, -1, 11, 7..11),
            (5, 3, 11, 0..0),
            (5, 5000, 11, 5..11),
            (-5000, 10000, 11, 0..11),
            (0, -100, 11, 0..1),
            (1, -100, 11, 0..0),
            (-1, -100, 11, 0..0),
            (-100, -99, 11, 0..1),
            (-100, -100, 11, 0..1),
            (-100, -101, 11, 0..0),
            (0, -1, 0, 0..0),
            (0, 0, 0, 0..0),
            (11, 11, 11, 0..0),
            (10, 10, 11, 10..11),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MAX, 3, 0..0),
            (i64::MIN, i64::MIN, 3, 0..1),
        ];
        for (start, end, len, expected) in cases {
            assert_eq!(clamp(*start, *end, *len), *expected, "{start}..={end} of {len}");
        }
    }
}
