//! `PUBLISH` and `SPUBLISH`

use wire::request::Args;

use crate::command::{Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::subscriptions::SubscriptionKind;

const FLAGS: Flags = Flags::PUBSUB
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::MAY_REPLICATE)
    .union(Flags::PUBLISHES);

/// `PUBLISH channel message`
pub const PUBLISH: Command = Command::keyless(
    "publish",
    3,
    FLAGS,
    Doc::new(Group::Pubsub, "2.0.0", "Publishes a message to a channel.")
        .complexity(
            "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of \
             subscribed patterns (by any client).",
        )
        .args(&[Arg::string("channel"), Arg::string("message")]),
    |ctx, args, reply| publish(ctx, SubscriptionKind::Channel, args, reply),
);

/// `SPUBLISH shardchannel message`
pub const SPUBLISH: Command = Command::keyless(
    "spublish",
    3,
    FLAGS.union(Flags::SHARD_CHANNELS),
    Doc::new(Group::Pubsub, "7.0.0", "Publishes a message to a shard channel.")
        .complexity("O(N) where N is the number of clients subscribed to the receiving shard channel.")
        .args(&[Arg::string("shardchannel"), Arg::string("message")]),
    |ctx, args, reply| publish(ctx, SubscriptionKind::ShardChannel, args, reply),
)
.keys(&[KeySpec::first(KeyFlags::NOT_KEY)]);

fn publish(
    ctx: &mut Ctx<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let name = ctx.own_name().map_or(args.name(), str::as_bytes);
    ctx.data.record_for_replicas(ctx.session.db, [name, args.at(1), args.at(2)].into_iter());
    Ok(reply.integer(ctx.host.publish_message(kind, args.at(1), args.at(2)) as i64))
}
