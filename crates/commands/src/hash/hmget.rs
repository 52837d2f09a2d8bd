//! `HMGET`

use collections::Hash;
use wire::request::Args;

use super::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HMGET key field [field ...]`
pub const COMMAND: Command = Command {
    name: "hmget",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Returns the values of several hash fields.")
        .complexity("O(N) where N is the number of fields given.")
        .args(&[Arg::key("key", 0), Arg::string("field").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let hash = ctx.find::<Hash>(key)?;
    let fields = args.tail(2);
    let mut out = reply.array(fields.len());
    for field in fields.iter() {
        match hash.and_then(|hash| hash.find(alloc, field, due)) {
            Some(field) => write_item(&mut out, field.value),
            None => out.null(),
        }
    }
    Ok(out.done())
}
