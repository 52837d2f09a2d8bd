//! `SCARD`

use collections::Set;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SCARD key`
pub const COMMAND: Command = Command {
    name: "scard",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Returns the number of members of a set.").args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find::<Set>(ctx.key(0))?.map_or(0, Set::len);
    Ok(reply.integer(len as i64))
}
