//! `LSET`

use collections::List;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::{limits, resolve};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LSET key index element`
pub const COMMAND: Command = Command {
    name: "lset",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::BRIEF),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Sets the list element at an index.")
        .complexity("O(N) where N is the number of nodes between the element and the nearer end.")
        .args(&[Arg::key("key", 0), Arg::integer("index"), Arg::string("element")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, element, limits) = (ctx.key(0), args.at(3), limits(ctx.config));
    let index = parse_i64_strict(args.at(2));
    let set = ctx.edit(key, |list: &mut List, _| {
        // Redis and Valkey use only the low 32 bits of the index in this command: 4294967296 is the first
        // element.
        let index = i64::from(index.ok_or(CommandError::NOT_AN_INTEGER)? as i32);
        list.expect(1, element.len(), limits);
        let index = resolve(index, list.len()).ok_or(CommandError::INDEX_OUT_OF_RANGE)?;
        list.set(index, element);
        list.shrunk(limits);
        Ok(())
    })?;
    set.ok_or(CommandError::NO_SUCH_KEY)??;
    ctx.changed(EventClass::List, "lset", key);
    Ok(reply.ok())
}
