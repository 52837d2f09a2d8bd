//! `BZPOPMIN`, `BZPOPMAX` and `BZMPOP`

use std::time::Duration;

use collections::Kind;
use wire::request::Args;

use super::combine::find_counted;
use super::pop::{End, PopReplyForm, first_present, pop};
use super::zpop::{ZMPOP, parse_multi_pop};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{BlockReason, KeyWait};
use crate::timeout::parse_seconds;

const TIMEOUT: Arg = Arg::new("timeout", ArgType::Double);
const HISTORY: &[(&str, &str)] = &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")];

/// `BZPOPMIN key [key ...] timeout`
pub const BZPOPMIN: Command = Command {
    name: "bzpopmin",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST).union(Flags::BLOCKING),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::range(1, -2, 1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "5.0.0",
        "Pops the lowest-scored member of the first non-empty sorted set, or blocks until there is one.",
    )
    .complexity("O(log(N)) with N being the number of elements in the sorted set.")
    .history(HISTORY)
    .args(&[Arg::key("key", 0).multiple(), TIMEOUT]),
    subcommands: &[],
    run: |ctx, args, reply| pop_one(ctx, args, reply, End::Min),
};

/// `BZPOPMAX key [key ...] timeout`
pub const BZPOPMAX: Command = Command {
    name: "bzpopmax",
    doc: Doc::new(
        Group::SortedSet,
        "5.0.0",
        "Pops the highest-scored member of the first non-empty sorted set, or blocks until there is one.",
    )
    .complexity("O(log(N)) with N being the number of elements in the sorted set.")
    .history(HISTORY)
    .args(&[Arg::key("key", 0).multiple(), TIMEOUT]),
    run: |ctx, args, reply| pop_one(ctx, args, reply, End::Max),
    ..BZPOPMIN
};

/// `BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]`
pub const BZMPOP: Command = Command {
    name: "bzmpop",
    arity: -5,
    flags: ZMPOP.flags.union(Flags::BLOCKING),
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 2, found)),
        ..KeySpec::counted(2, 1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))
    }],
    doc: Doc::new(
        Group::SortedSet,
        "7.0.0",
        "Pops the lowest or highest members of the first non-empty sorted set, or blocks until there is one.",
    )
    .complexity("O(K)+O(M*log(N)) for K keys and M removed members of N.")
    .args(&[
        TIMEOUT,
        Arg::integer("numkeys"),
        Arg::key("key", 0).multiple(),
        Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
        Arg::integer("count").token("COUNT").optional(),
    ]),
    run: pop_several,
    ..ZMPOP
};

fn pop_one(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>, end: End) -> Result<Replied, CommandError> {
    let timeout = parse_seconds(ctx, args.at(args.len() - 1))?;
    match first_present(ctx)? {
        Some(key) => pop(ctx, key, end, 1, PopReplyForm::KeyAndFlat, reply),
        None => wait(ctx, timeout, reply),
    }
}

fn pop_several(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (end, count) = parse_multi_pop(args, 2)?;
    let timeout = parse_seconds(ctx, args.at(1))?;
    match first_present(ctx)? {
        Some(key) => pop(ctx, key, end, count, PopReplyForm::KeyAndPairs, reply),
        None => wait(ctx, timeout, reply),
    }
}

fn wait(ctx: &mut Ctx<'_>, timeout: Option<Duration>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if !ctx.may_block() {
        return Ok(reply.null_array());
    }
    ctx.block(timeout, BlockReason::Keys(KeyWait::for_kind(Kind::SortedSet, 0..ctx.planned.len())));
    Ok(reply.nothing())
}
