//! `GET`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GET key`
pub const COMMAND: Command = Command {
    name: "get",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::String, "1.0.0", "Returns the string value of a key.").args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.reply_string(ctx.key(0), reply)
}
