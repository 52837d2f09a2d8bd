//! `TYPE`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `TYPE key`
pub const COMMAND: Command = Command {
    name: "type",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Generic, "1.0.0", "Returns the type of the value of a key.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let name = ctx.data.inspect(ctx.key(0)).map_or("none", |entry| entry.kind().name());
    Ok(reply.simple(name))
}
