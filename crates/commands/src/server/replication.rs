//! `REPLICAOF`, `SLAVEOF` and `FAILOVER`.

use std::time::Duration;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::host::FailoverPlan;
use crate::reply::{Replied, Reply};
use crate::word::Word;

const FLAGS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE);

/// `REPLICAOF host port`, `REPLICAOF NO ONE`
pub const REPLICAOF: Command = Command::keyless(
    "replicaof",
    3,
    FLAGS.union(Flags::NO_ASYNC_LOADING),
    Doc::new(Group::Server, "5.0.0", "Makes the server a replica of another one, or a primary.")
        .args(REPLICAOF_ARGS),
    replicaof,
);

/// `SLAVEOF host port`, `SLAVEOF NO ONE`
pub const SLAVEOF: Command = Command {
    name: "slaveof",
    doc: Doc::new(Group::Server, "1.0.0", "Makes the server a replica of another one, or a primary.")
        .deprecated("5.0.0", "`REPLICAOF`")
        .args(REPLICAOF_ARGS),
    ..REPLICAOF
};

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`
pub const FAILOVER: Command = Command::keyless(
    "failover",
    -1,
    FLAGS,
    Doc::new(Group::Server, "6.2.0", "Starts a coordinated failover to a replica.").args(&[
        Arg::block(
            "target",
            &[Arg::string("host"), Arg::integer("port"), Arg::word("force", "FORCE").optional()],
        )
        .token("TO")
        .optional(),
        Arg::word("abort", "ABORT").optional(),
        Arg::integer("milliseconds").token("TIMEOUT").optional(),
    ]),
    failover,
);

const REPLICAOF_ARGS: &[Arg] = &[Arg::one_of(
    "args",
    &[
        Arg::block("host-port", &[Arg::string("host"), Arg::integer("port")]),
        Arg::block("no-one", &[Arg::word("no", "NO"), Arg::word("one", "ONE")]),
    ],
)];

fn replicaof(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.host.check_role_change()?;
    // When the reply is sent, no request of before the change is running, nor is the stream of the former primary applied.
    ctx.report.needs_barrier = true;
    if args.at(1).eq_token("no") && args.at(2).eq_token("one") {
        ctx.host.promote();
        return Ok(reply.ok());
    }
    let port = parse_i64_strict(args.at(2)).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::new("ERR Invalid master port"))?;
    match ctx.host.replicate(args.at(1), port) {
        false => Ok(reply.ok()),
        true => Ok(reply.simple("OK Already connected to specified master")),
    }
}

fn failover(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() == 2 && args.at(1).eq_token("abort") {
        return match ctx.host.abort_failover() {
            true => Ok(reply.ok()),
            false => Err(CommandError::new("ERR No failover in progress.")),
        };
    }
    let mut at = 1;
    let mut plan = FailoverPlan::default();
    while let Some(word) = args.get(at) {
        if word.eq_token("timeout") && plan.timeout.is_none() && at + 1 < args.len() {
            let timeout = parse_i64_strict(args.at(at + 1)).ok_or(CommandError::NOT_AN_INTEGER)?;
            if timeout <= 0 {
                return Err(CommandError::new("ERR FAILOVER timeout must be greater than 0"));
            }
            plan.timeout = Some(Duration::from_millis(timeout.unsigned_abs()));
            at += 2;
        } else if word.eq_token("to") && plan.target.is_none() && at + 2 < args.len() {
            let port = parse_i64_strict(args.at(at + 2)).ok_or(CommandError::NOT_AN_INTEGER)?;
            plan.target = Some((args.at(at + 1), port));
            at += 3;
        } else if word.eq_token("force") && !plan.is_forced {
            plan.is_forced = true;
            at += 1;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    ctx.host.fail_over(plan)?;
    // When the reply is sent, no change is being made.
    ctx.report.needs_barrier = true;
    Ok(reply.ok())
}
