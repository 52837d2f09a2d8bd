//! `HGET`

use collections::Hash;
use wire::request::Args;

use super::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HGET key field`
pub const COMMAND: Command = Command {
    name: "hget",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Returns the value of a hash field.")
        .args(&[Arg::key("key", 0), Arg::string("field")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let field = ctx.find::<Hash>(key)?.and_then(|hash| hash.find(alloc, args.at(2), due));
    let mut out = reply.parts();
    match field {
        Some(field) => write_item(&mut out, field.value),
        None => out.null(),
    }
    Ok(out.done())
}
