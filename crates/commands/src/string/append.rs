//! `APPEND`

use collections::{ExpiryChange, ValueRef};
use wire::request::Args;

use super::assignment::string_of;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `APPEND key value`
pub const COMMAND: Command = Command {
    name: "append",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "2.0.0",
        "Appends a string to the value of a key. A missing key is created.",
    )
    .complexity("O(N) where N is the length of the value argument, amortized over many appends.")
    .args(&[Arg::key("key", 0), Arg::string("value")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, suffix) = (ctx.key(0), args.at(2));
    let len = match ctx.find_string_for_write(key)?.and_then(ValueRef::text_len) {
        None => {
            ctx.data.set(key, string_of(args.argument(2)), ExpiryChange::Clear);
            suffix.len()
        }
        Some(old_len) => {
            ctx.check_string_len(old_len, suffix.len())?;
            let appended = ctx.data.edit(key, |entry| entry.append(suffix));
            appended.expect("found just now").map_err(|_| CommandError::WRONG_TYPE)?
        }
    };
    ctx.changed(EventClass::String, "append", key);
    Ok(reply.integer(len as i64))
}
