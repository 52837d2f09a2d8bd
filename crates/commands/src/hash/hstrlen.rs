//! `HSTRLEN`

use collections::Hash;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HSTRLEN key field`
pub const COMMAND: Command = Command {
    name: "hstrlen",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Hash, "3.2.0", "Returns the length in bytes of the value of a hash field.")
        .args(&[Arg::key("key", 0), Arg::string("field")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let field = ctx.find::<Hash>(key)?.and_then(|hash| hash.find(alloc, args.at(2), due));
    Ok(reply.integer(field.map_or(0, |field| field.value.len()) as i64))
}
