//! `SETBIT` and `GETBIT`

use collections::DecimalBuffer;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::bits;
use super::fields::parse_offset;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SETBIT key offset value`
pub const SETBIT: Command = Command {
    name: "setbit",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::BRIEF),
    categories: Categories::BITMAP,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Bitmap,
        "2.2.0",
        "Sets or clears the bit at an offset of a string. The string grows as needed.",
    )
    .args(&[Arg::key("key", 0), Arg::integer("offset"), Arg::integer("value")]),
    subcommands: &[],
    run: setbit,
};

/// `GETBIT key offset`
pub const GETBIT: Command = Command {
    name: "getbit",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::BITMAP,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Bitmap, "2.2.0", "Returns the bit at an offset of a string.")
        .args(&[Arg::key("key", 0), Arg::integer("offset")]),
    subcommands: &[],
    run: getbit,
};

const BAD_BIT: CommandError = CommandError::new("ERR bit is not an integer or out of range");

fn setbit(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let offset = parse_offset(ctx, args.at(2))?;
    let bit = match parse_i64_strict(args.at(3)) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(BAD_BIT),
    };
    let key = ctx.key(0);
    let size_min = offset / 8 + 1;
    let edited = ctx.data.edit_string_of(key, size_min, |bytes, old_len| {
        (bits::put(bytes, offset, bit), old_len.is_none_or(|len| len < size_min))
    });
    let (before, has_grown) = edited.map_err(|_| CommandError::WRONG_TYPE)?;
    if before != bit || has_grown {
        ctx.changed(EventClass::String, "setbit", key);
    }
    Ok(reply.flag(before))
}

fn getbit(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let offset = parse_offset(ctx, args.at(2))?;
    let Some(value) = ctx.find_string(ctx.key(0))? else { return Ok(reply.flag(false)) };
    let mut decimal = DecimalBuffer::new();
    let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
    Ok(reply.flag(bits::is_set(text, offset)))
}
