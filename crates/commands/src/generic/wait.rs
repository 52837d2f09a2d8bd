//! `WAIT` and `WAITAOF`
//!
//! There are no replicas yet: only the timeout ends a wait for their acknowledgements.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::BlockReason;
use crate::timeout::parse_millis;

/// `WAIT numreplicas timeout`
pub const WAIT: Command = Command {
    name: "wait",
    arity: 3,
    flags: Flags::BLOCKING,
    categories: Categories::CONNECTION,
    access: Access::None,
    keys: &[],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    doc: Doc::new(
        Group::Generic,
        "3.0.0",
        "Waits until the connection's previous writes are acknowledged by a number of replicas.",
    )
    .args(&[Arg::integer("numreplicas"), Arg::integer("timeout")]),
    subcommands: &[],
    run: wait,
};

/// `WAITAOF numlocal numreplicas timeout`
pub const WAITAOF: Command = Command {
    name: "waitaof",
    arity: 4,
    doc: Doc::new(
        Group::Generic,
        "7.2.0",
        "Waits until the connection's previous writes are synced to the append-only file here or on replicas.",
    )
    .args(&[Arg::integer("numlocal"), Arg::integer("numreplicas"), Arg::integer("timeout")]),
    run: waitaof,
    ..WAIT
};

const BAD_NUMLOCAL: CommandError = CommandError::new("ERR value is out of range, value must between 0 and 1");
const BAD_NUMREPLICAS: CommandError = CommandError::new("ERR value is out of range, must be positive");
const NO_AOF: CommandError =
    CommandError::new("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

fn wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let wanted = parse_i64_strict(args.at(1)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let timeout = parse_millis(ctx, args.at(2))?;
    if wanted <= 0 || !ctx.may_block() {
        return Ok(reply.integer(0));
    }
    ctx.block(timeout, BlockReason::Replicas { acknowledged: 0 });
    Ok(reply.nothing())
}

fn waitaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let local = parse_i64_strict(args.at(1)).ok_or(CommandError::NOT_AN_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(BAD_NUMLOCAL);
    }
    let replicas = parse_i64_strict(args.at(2)).filter(|count| *count >= 0).ok_or(BAD_NUMREPLICAS)?;
    let timeout = parse_millis(ctx, args.at(3))?;
    if local > 0 && !ctx.config.appendonly {
        return Err(NO_AOF);
    }
    let is_durable = ctx.config.appendonly && ctx.host.is_durable(ctx.session.reply_lsn);
    let is_satisfied = replicas == 0 && i64::from(is_durable) >= local;
    if is_satisfied || !ctx.may_block() {
        let mut out = reply.array(2);
        out.integer(i64::from(is_durable));
        out.integer(0);
        return Ok(out.done());
    }
    ctx.block(timeout, BlockReason::Disk { awaits_replicas: replicas > 0, is_durable });
    Ok(reply.nothing())
}
