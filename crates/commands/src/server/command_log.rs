//! `SLOWLOG` and `COMMANDLOG`: logs of slow commands and of large requests and replies.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::help;
use crate::host::CommandLog;
use crate::reply::{Replied, Reply};

/// `SLOWLOG subcommand ...`
pub const SLOWLOG: Command = Command::container(
    "slowlog",
    Doc::new(Group::Server, "2.2.12", "Subcommands for the slow log.").complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "get",
            -2,
            FLAGS,
            Doc::new(
                Group::Server,
                "2.2.12",
                "Returns the newest entries of the slow log: 10 by default, -1 for all.",
            )
            .complexity("O(N) where N is the number of entries returned")
            .history(&[("4.0.0", "Entries contain the client's address and name.")])
            .args(&[Arg::integer("count").optional()]),
            slowlog_get,
        )
        .tips(GET_TIPS),
        help::command(Group::Server, "6.2.0", |_, _, reply| help::answer(&SLOWLOG, reply)),
        Command::keyless(
            "len",
            2,
            FLAGS,
            Doc::new(Group::Server, "2.2.12", "Counts the entries of the slow log."),
            |ctx, _, reply| Ok(reply.integer(ctx.host.command_log_len(CommandLog::Slow) as i64)),
        )
        .tips(LEN_TIPS),
        Command::keyless(
            "reset",
            2,
            FLAGS,
            Doc::new(Group::Server, "2.2.12", "Deletes all entries of the slow log.")
                .complexity("O(N) where N is the number of entries"),
            |ctx, _, reply| {
                ctx.host.command_log_reset(CommandLog::Slow);
                Ok(reply.ok())
            },
        )
        .tips(RESET_TIPS),
    ],
);

/// `COMMANDLOG subcommand ...`
pub const COMMANDLOG: Command = Command::container(
    "commandlog",
    Doc::new(Group::Server, "8.1.0", "Subcommands for the logs of slow and large commands.")
        .complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "get",
            4,
            FLAGS,
            Doc::new(Group::Server, "8.1.0", "Returns the newest entries of a command log, -1 for all.")
                .complexity("O(N) where N is the number of entries returned")
                .args(&[Arg::integer("count"), TYPE]),
            |ctx, args, reply| entries(ctx, parse_log(args.at(3))?, args.at(2), reply),
        )
        .tips(GET_TIPS),
        help::command(Group::Server, "8.1.0", |_, _, reply| help::answer(&COMMANDLOG, reply)),
        Command::keyless(
            "len",
            3,
            FLAGS,
            Doc::new(Group::Server, "8.1.0", "Counts the entries of a command log.").args(&[TYPE]),
            |ctx, args, reply| Ok(reply.integer(ctx.host.command_log_len(parse_log(args.at(2))?) as i64)),
        )
        .tips(LEN_TIPS),
        Command::keyless(
            "reset",
            3,
            FLAGS,
            Doc::new(Group::Server, "8.1.0", "Deletes all entries of a command log.")
                .complexity("O(N) where N is the number of entries")
                .args(&[TYPE]),
            |ctx, args, reply| {
                ctx.host.command_log_reset(parse_log(args.at(2))?);
                Ok(reply.ok())
            },
        )
        .tips(RESET_TIPS),
    ],
);

const FLAGS: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE);
const GET_TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const LEN_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];
const RESET_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const TYPE: Arg = Arg::one_of(
    "type",
    &[
        Arg::word("slow", "SLOW"),
        Arg::word("large-request", "LARGE-REQUEST"),
        Arg::word("large-reply", "LARGE-REPLY"),
    ],
);

/// Default number of entries that `SLOWLOG GET` returns.
const DEFAULT_COUNT: &[u8] = b"10";

fn slowlog_get(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        return Err(crate::help::wrong_subcommand("SLOWLOG", args.at(1)));
    }
    entries(ctx, CommandLog::Slow, args.get(2).unwrap_or(DEFAULT_COUNT), reply)
}

fn parse_log(word: &[u8]) -> Result<CommandLog, CommandError> {
    match up_to_nul(word).to_ascii_lowercase().as_slice() {
        b"slow" => Ok(CommandLog::Slow),
        b"large-request" => Ok(CommandLog::LargeRequest),
        b"large-reply" => Ok(CommandLog::LargeReply),
        _ => Err(CommandError::new(
            "ERR type should be one of the following: slow, large-request, large-reply",
        )),
    }
}

fn entries(
    ctx: &mut Ctx<'_>,
    log: CommandLog,
    count: &[u8],
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let count = match parse_i64_strict(count) {
        Some(-1) => usize::MAX,
        Some(count) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
        _ => return Err(CommandError::new("ERR count should be greater than or equal to -1")),
    };
    let entries = ctx.host.command_log(log, count);
    let mut out = reply.array(entries.len());
    for entry in entries {
        out.array(6);
        out.integer(entry.id as i64);
        out.integer(entry.at_seconds);
        out.integer(entry.value as i64);
        out.array(entry.args.len());
        entry.args.iter().for_each(|arg| out.bulk(arg));
        out.bulk(entry.peer.as_bytes());
        out.bulk(&entry.name);
    }
    Ok(out.done())
}
