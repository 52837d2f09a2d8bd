//! `LLEN`

use collections::List;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LLEN key`
pub const COMMAND: Command = Command {
    name: "llen",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::LIST,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Returns the number of elements of a list.")
        .complexity("O(1)")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find::<List>(ctx.key(0))?.map_or(0, List::len);
    Ok(reply.integer(len as i64))
}
