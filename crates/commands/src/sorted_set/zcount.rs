//! `ZCARD`, `ZCOUNT` and `ZLEXCOUNT`

use collections::SortedSet;
use wire::request::Args;

use super::range::{By, Range};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ZCARD key`
pub const ZCARD: Command = Command {
    name: "zcard",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "1.2.0", "Returns the number of members of a sorted set.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run: run_zcard,
};

/// `ZCOUNT key min max`
pub const ZCOUNT: Command = Command {
    name: "zcount",
    arity: 4,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.0.0", "Counts the sorted set members in a range of scores.")
        .complexity("O(log(N)) where N is the number of members.")
        .args(&[Arg::key("key", 0), Arg::new("min", ArgType::Double), Arg::new("max", ArgType::Double)]),
    subcommands: &[],
    run: |ctx, args, reply| count(ctx, args, reply, By::Score),
};

/// `ZLEXCOUNT key min max`
pub const ZLEXCOUNT: Command = Command {
    name: "zlexcount",
    arity: 4,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.8.9", "Counts the sorted set members in a lexicographical range.")
        .complexity("O(log(N)) where N is the number of members.")
        .args(&[Arg::key("key", 0), Arg::string("min"), Arg::string("max")]),
    subcommands: &[],
    run: |ctx, args, reply| count(ctx, args, reply, By::Lex),
};

fn run_zcard(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find(ctx.key(0))?.map_or(0, SortedSet::len);
    Ok(reply.integer(len as i64))
}

fn count(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>, by: By) -> Result<Replied, CommandError> {
    let range = Range::parse(by, args.at(2), args.at(3))?;
    let count = ctx.find::<SortedSet>(ctx.key(0))?.map_or(0, |set| range.ranks(set, false).len());
    Ok(reply.integer(count as i64))
}
