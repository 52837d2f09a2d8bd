//! `ZSCORE` and `ZMSCORE`

use collections::SortedSet;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ZSCORE key member`
pub const ZSCORE: Command = Command {
    name: "zscore",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "1.2.0", "Returns the score of a sorted set member.")
        .args(&[Arg::key("key", 0), Arg::string("member")]),
    subcommands: &[],
    run: run_zscore,
};

/// `ZMSCORE key member [member ...]`
pub const ZMSCORE: Command = Command {
    name: "zmscore",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "6.2.0", "Returns the scores of several sorted set members.")
        .complexity("O(N) where N is the number of members given.")
        .args(&[Arg::key("key", 0), Arg::string("member").multiple()]),
    subcommands: &[],
    run: run_zmscore,
};

fn run_zscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let score = ctx.find::<SortedSet>(key)?.and_then(|set| set.score(ctx.alloc_context(key), args.at(2)));
    Ok(reply.double_or_null(score))
}

fn run_zmscore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, members) = (ctx.key(0), args.tail(2));
    let set = ctx.find::<SortedSet>(key)?;
    let mut out = reply.array(members.len());
    for member in members.iter() {
        match set.and_then(|set| set.score(ctx.alloc_context(key), member)) {
            Some(score) => out.double(score),
            None => out.null(),
        }
    }
    Ok(out.done())
}
