//! `BITPOS`

use collections::DecimalBuffer;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::bits;
use super::range::{RANGE, RequestedRange};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub const COMMAND: Command = Command {
    name: "bitpos",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::Bitmap,
        "2.8.7",
        "Returns the position of the first bit set to 1 or 0 in a string or in a range of it.",
    )
    .complexity("O(N) where N is the length of the part.")
    .history(&[("7.0.0", "Added `BYTE` and `BIT`.")])
    .args(&[Arg::key("key", 0), Arg::integer("bit"), RANGE]),
    subcommands: &[],
    run,
};

const BAD_BIT: CommandError = CommandError::new("ERR The bit argument must be 1 or 0.");
const NOWHERE: i64 = -1;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let bit = match parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(BAD_BIT),
    };
    let part = RequestedRange::parse(args.tail(3))?;
    let Some(value) = ctx.find_string(ctx.key(0))? else {
        return Ok(reply.integer(if bit { NOWHERE } else { 0 }));
    };
    let mut decimal = DecimalBuffer::new();
    let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
    let range = part.bits(text.len());
    let position = match bits::find_bit(text, bit, range.clone()) {
        Some(position) => position as i64,
        // Without an end the string is treated as followed by zeros.
        None if !bit && part.end.is_none() && !range.is_empty() => range.end as i64,
        None => NOWHERE,
    };
    Ok(reply.integer(position))
}
