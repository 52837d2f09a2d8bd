//! `BLPOP` and `BRPOP`

use collections::{End, Kind};
use wire::request::Args;

use super::pops::{pop_name, pop_one};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{BlockReason, KeyWait};
use crate::timeout::parse_seconds;

const ARGS: &[Arg] = &[Arg::key("key", 0).multiple(), Arg::new("timeout", ArgType::Double)];
const HISTORY: &[(&str, &str)] = &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")];

/// `BLPOP key [key ...] timeout`
pub const BLPOP: Command = Command {
    name: "blpop",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::BLOCKING),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::range(1, -2, 1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::List,
        "2.0.0",
        "Removes and returns the first element of the first non-empty list, or blocks until one is available.",
    )
    .complexity("O(N) where N is the number of provided keys.")
    .history(HISTORY)
    .args(ARGS),
    subcommands: &[],
    run: blpop,
};

/// `BRPOP key [key ...] timeout`
pub const BRPOP: Command = Command {
    name: "brpop",
    doc: Doc::new(
        Group::List,
        "2.0.0",
        "Removes and returns the last element of the first non-empty list, or blocks until one is available.",
    )
    .complexity("O(N) where N is the number of provided keys.")
    .history(HISTORY)
    .args(ARGS),
    run: brpop,
    ..BLPOP
};

fn blpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    pop_or_wait(ctx, args, End::Left, reply)
}

fn brpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    pop_or_wait(ctx, args, End::Right, reply)
}

fn pop_or_wait(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    end: End,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let timeout = parse_seconds(ctx, args.at(args.len() - 1))?;
    let mut out = reply.parts();
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        let popped = pop_one(ctx, key, end, &mut out, |out| {
            out.array(2);
            out.bulk(key.bytes);
        })?;
        if popped {
            ctx.record_effect(&[pop_name(end).into(), key.bytes.into()]);
            return Ok(out.done());
        }
    }
    if ctx.may_block() {
        ctx.block(timeout, BlockReason::Keys(KeyWait::for_kind(Kind::List, 0..ctx.planned.len())));
    } else {
        out.null_array();
    }
    Ok(out.done())
}
