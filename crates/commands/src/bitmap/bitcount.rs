//! `BITCOUNT`

use collections::DecimalBuffer;
use wire::request::Args;

use super::bits;
use super::range::{RANGE, RequestedRange};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `BITCOUNT key [start [end [BYTE | BIT]]]`
pub const COMMAND: Command = Command {
    name: "bitcount",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Bitmap, "2.6.0", "Counts the bits set to 1 in a string or in a range of it.")
        .complexity("O(N) where N is the length of the part.")
        .history(&[("7.0.0", "Added `BYTE` and `BIT`."), ("8.0.0", "`end` may be left out.")])
        .args(&[Arg::key("key", 0), RANGE]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let part = RequestedRange::parse(args.tail(2))?;
    let Some(value) = ctx.find_string(ctx.key(0))? else { return Ok(reply.integer(0)) };
    let mut decimal = DecimalBuffer::new();
    let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
    // Two negative offsets in descending order are an empty range even if both lie before the beginning.
    if part.start < 0 && part.end.is_some_and(|end| end < 0 && part.start > end) {
        return Ok(reply.integer(0));
    }
    Ok(reply.integer(bits::count_ones_in(text, part.bits(text.len())) as i64))
}
