//! `STRLEN`

use collections::ValueRef;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `STRLEN key`
pub const COMMAND: Command = Command {
    name: "strlen",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::String, "2.2.0", "Returns the length of a string value in bytes.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find_string(ctx.key(0))?.and_then(ValueRef::text_len).unwrap_or(0);
    Ok(reply.integer(len as i64))
}
