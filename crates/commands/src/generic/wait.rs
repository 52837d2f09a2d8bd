//! `WAIT` and `WAITAOF`: they wait for the connection's own last write.

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

const WAIT_ON_REPLICA: CommandError = CommandError::new(
    "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured to be writable \
     (which is not the default) writes to replicas are just local and are not propagated.",
);
const WAITAOF_ON_REPLICA: CommandError = CommandError::new(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
     not propagated.",
);
const BAD_NUMLOCAL: CommandError = CommandError::new("ERR value is out of range, value must between 0 and 1");
const BAD_NUMREPLICAS: CommandError = CommandError::new("ERR value is out of range, must be positive");

fn wait(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let wanted = parse_i64_strict(args.at(1)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let timeout = parse_millis(ctx, args.at(2))?;
    if ctx.host.is_replica() {
        return Err(WAIT_ON_REPLICA);
    }
    note_writes(ctx);
    let acknowledged = ctx.host.replicas_at(ctx.session.write_lsn).applied;
    if acknowledged >= wanted || !ctx.may_block() {
        return Ok(reply.integer(acknowledged));
    }
    ctx.report.needs_acknowledgements = true;
    ctx.block(timeout, BlockReason::Replicas { wanted, acknowledged });
    Ok(reply.nothing())
}

/// Includes the writes of the connection that precede the request in the same batch.
fn note_writes(ctx: &mut Ctx<'_>) {
    ctx.session.write_lsn = ctx.session.write_lsn.max(ctx.data.take_write_lsn());
}

fn waitaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let local = parse_i64_strict(args.at(1)).ok_or(CommandError::NOT_AN_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(BAD_NUMLOCAL);
    }
    let replicas = parse_i64_strict(args.at(2)).filter(|count| *count >= 0).ok_or(BAD_NUMREPLICAS)?;
    let timeout = parse_millis(ctx, args.at(3))?;
    if ctx.host.is_replica() {
        return Err(WAITAOF_ON_REPLICA);
    }
    if local > 0 && !ctx.config.appendonly {
        return Err(CommandError::NO_APPEND_ONLY_FILE);
    }
    note_writes(ctx);
    let lsn = ctx.session.write_lsn;
    let is_durable = ctx.config.appendonly && ctx.host.is_durable(lsn);
    let acknowledged = ctx.host.replicas_at(lsn).durable;
    let is_satisfied = acknowledged >= replicas && i64::from(is_durable) >= local;
    if is_satisfied || !ctx.may_block() {
        let mut out = reply.array(2);
        out.integer(i64::from(is_durable));
        out.integer(acknowledged);
        return Ok(out.done());
    }
    if replicas > 0 {
        ctx.report.needs_acknowledgements = true;
    }
    let reason = BlockReason::Disk { awaits_local: local > 0, wanted: replicas, is_durable, acknowledged };
    ctx.block(timeout, reason);
    Ok(reply.nothing())
}
