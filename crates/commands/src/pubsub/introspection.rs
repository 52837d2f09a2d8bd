//! `PUBSUB`: channels and patterns with subscribers.

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::subscriptions::SubscriptionKind;

const FLAGS: Flags = Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE);

/// `PUBSUB subcommand ...`
pub const COMMAND: Command = Command::container(
    "pubsub",
    Doc::new(Group::Pubsub, "2.8.0", "Subcommands that inspect channels and patterns.")
        .complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "channels",
            -2,
            FLAGS,
            Doc::new(Group::Pubsub, "2.8.0", "Returns the channels that have subscribers.")
                .complexity(
                    "O(N) where N is the number of active channels, and assuming constant time pattern matching \
                     (relatively short channels and patterns)",
                )
                .args(&[Arg::new("pattern", ArgType::Pattern).optional()]),
            |ctx, args, reply| channels(ctx, SubscriptionKind::Channel, args, reply),
        ),
        help::command(Group::Pubsub, "6.2.0", |_, _, reply| help::answer(&COMMAND, reply)),
        Command::keyless(
            "numpat",
            2,
            FLAGS,
            Doc::new(Group::Pubsub, "2.8.0", "Returns the number of distinct patterns that have subscribers."),
            |ctx, _, reply| Ok(reply.integer(ctx.host.name_count(SubscriptionKind::Pattern) as i64)),
        ),
        Command::keyless(
            "numsub",
            -2,
            FLAGS,
            Doc::new(Group::Pubsub, "2.8.0", "Counts the subscribers of channels, without pattern subscribers.")
                .complexity(
                    "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
                )
                .args(&[Arg::string("channel").optional().multiple()]),
            |ctx, args, reply| counts(ctx, SubscriptionKind::Channel, args, reply),
        ),
        Command::keyless(
            "shardchannels",
            -2,
            FLAGS,
            Doc::new(Group::Pubsub, "7.0.0", "Returns the shard channels that have subscribers.")
                .complexity(
                    "O(N) where N is the number of active shard channels, and assuming constant time pattern \
                     matching (relatively short shard channels).",
                )
                .args(&[Arg::new("pattern", ArgType::Pattern).optional()]),
            |ctx, args, reply| channels(ctx, SubscriptionKind::ShardChannel, args, reply),
        ),
        Command::keyless(
            "shardnumsub",
            -2,
            FLAGS,
            Doc::new(Group::Pubsub, "7.0.0", "Returns the number of subscribers of shard channels.")
                .complexity(
                    "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
                )
                .args(&[Arg::string("shardchannel").optional().multiple()]),
            |ctx, args, reply| counts(ctx, SubscriptionKind::ShardChannel, args, reply),
        ),
    ],
);

fn channels(
    ctx: &mut Ctx<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        let head = "ERR unknown subcommand or wrong number of arguments for '";
        return Err(CommandError::quote(head, args.at(1), "'. Try PUBSUB HELP."));
    }
    let pattern = args.get(2);
    let mut names = ctx.host.names(kind);
    names.retain(|name| pattern.is_none_or(|pattern| base::glob::matches(pattern, name)));
    let mut out = reply.array(names.len());
    for name in &names {
        out.bulk(name);
    }
    Ok(out.done())
}

fn counts(
    ctx: &mut Ctx<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut out = reply.array((args.len() - 2) * 2);
    for name in args.tail(2) {
        out.bulk(name);
        out.integer(ctx.host.subscriber_count(kind, name) as i64);
    }
    Ok(out.done())
}
