//! `LRANGE`

use collections::List;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::resolve_range;
use super::pops::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LRANGE key start stop`
pub const COMMAND: Command = Command {
    name: "lrange",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Returns the list elements in a range of indices.")
        .complexity(
            "O(S+N) where S is the number of nodes before the range and N the number of elements in it.",
        )
        .args(&[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let start = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let stop = parse_i64_strict(args.at(3)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let list = ctx.find::<List>(ctx.key(0))?;
    let (from, count) = resolve_range(start, stop, list.map_or(0, List::len));
    let mut out = reply.array(count);
    let (mut left, chunks) = (count, ctx.chunks(&out));
    if let Some(list) = list.filter(|_| count > 0) {
        list.walk(from, |_, item| {
            write_item(item, &mut out);
            chunks.cut(&mut out);
            left -= 1;
            left > 0
        });
    }
    Ok(out.done())
}
