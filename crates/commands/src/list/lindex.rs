//! `LINDEX`

use collections::List;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::resolve;
use super::pops::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LINDEX key index`
pub const COMMAND: Command = Command {
    name: "lindex",
    arity: 3,
    flags: Flags::READONLY.union(Flags::BRIEF),
    categories: Categories::LIST,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Returns the list element at an index.")
        .complexity("O(N) where N is the number of nodes between the element and the nearer end.")
        .args(&[Arg::key("key", 0), Arg::integer("index")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(list) = ctx.find::<List>(ctx.key(0))? else { return Ok(reply.null()) };
    let index = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let mut out = reply.parts();
    match resolve(index, list.len()) {
        Some(index) => write_item(list.at(index), &mut out),
        None => out.null(),
    }
    Ok(out.done())
}
