//! `SETRANGE`

use collections::ValueRef;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SETRANGE key offset value`
pub const COMMAND: Command = Command {
    name: "setrange",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "2.2.0",
        "Overwrites a part of a string value, starting at an offset. The string grows as needed.",
    )
    .complexity("O(N) where N is the length of the value argument and of the gap filled before it.")
    .args(&[Arg::key("key", 0), Arg::integer("offset"), Arg::string("value")]),
    subcommands: &[],
    run,
};

const BAD_OFFSET: CommandError = CommandError::new("ERR offset is out of range");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, value) = (ctx.key(0), args.at(3));
    let offset = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| BAD_OFFSET)?;
    let old_len = ctx.find_string_for_write(key)?.and_then(ValueRef::text_len).unwrap_or(0);
    if value.is_empty() {
        return Ok(reply.integer(old_len as i64));
    }
    ctx.check_string_len(offset, value.len())?;
    let end = offset + value.len();
    let len = ctx.data.edit_string(key, end, |bytes| {
        bytes[offset..end].copy_from_slice(value);
        bytes.len()
    });
    let len = len.map_err(|_| CommandError::WRONG_TYPE)?;
    ctx.changed(EventClass::String, "setrange", key);
    Ok(reply.integer(len as i64))
}
