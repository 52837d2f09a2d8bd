//! `REPLICAOF`, `SLAVEOF` and `FAILOVER`: there is no replication yet, so they reply like a primary without replicas. What
//! would make the server a replica is refused.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
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

fn replicaof(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.at(1).eq_token("no") && args.at(2).eq_token("one") {
        return Ok(reply.ok());
    }
    let port = parse_i64_strict(args.at(2)).filter(|port| (0..=65_535).contains(port));
    port.ok_or(CommandError::new("ERR Invalid master port"))?;
    Err(CommandError::new("ERR This instance has replication support disabled"))
}

fn failover(_: &mut Ctx<'_>, args: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() == 2 && args.at(1).eq_token("abort") {
        return Err(CommandError::new("ERR No failover in progress."));
    }
    let mut at = 1;
    let (mut has_timeout, mut has_target, mut is_forced) = (false, false, false);
    while let Some(word) = args.get(at) {
        if word.eq_token("timeout") && !has_timeout && at + 1 < args.len() {
            let timeout = parse_i64_strict(args.at(at + 1)).ok_or(CommandError::NOT_AN_INTEGER)?;
            if timeout <= 0 {
                return Err(CommandError::new("ERR FAILOVER timeout must be greater than 0"));
            }
            has_timeout = true;
            at += 2;
        } else if word.eq_token("to") && !has_target && at + 2 < args.len() {
            parse_i64_strict(args.at(at + 2)).ok_or(CommandError::NOT_AN_INTEGER)?;
            has_target = true;
            at += 3;
        } else if word.eq_token("force") && !is_forced {
            is_forced = true;
            at += 1;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Err(CommandError::new("ERR FAILOVER requires connected replicas."))
}
