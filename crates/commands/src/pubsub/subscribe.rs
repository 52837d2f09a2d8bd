//! `SUBSCRIBE`, `PSUBSCRIBE`, `SSUBSCRIBE` and their inverses. The reply is a separate message for each name,
//! in the format of published messages: in RESP3 a push.

use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::{Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{Session, SessionFlags};
use crate::subscriptions::SubscriptionKind;

const FLAGS: Flags = Flags::PUBSUB
    .union(Flags::NOSCRIPT)
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::SESSION)
    .union(Flags::PUSH_REPLY);

const TO_SUBSCRIBE: &str = "O(N) where N is the number of channels to subscribe to.";
const TO_SUBSCRIBE_PATTERNS: &str = "O(N) where N is the number of patterns to subscribe to.";
const TO_SUBSCRIBE_SHARDS: &str = "O(N) where N is the number of shard channels to subscribe to.";
const TO_UNSUBSCRIBE: &str = "O(N) where N is the number of channels to unsubscribe.";
const TO_UNSUBSCRIBE_PATTERNS: &str = "O(N) where N is the number of patterns to unsubscribe.";
const TO_UNSUBSCRIBE_SHARDS: &str = "O(N) where N is the number of shard channels to unsubscribe.";

/// Channels and patterns may be subscribed to in a transaction, shard channels may not.
const SHARD_IN_TRANSACTION: CommandError =
    CommandError::new("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");

const SHARD_KEYS: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)];

/// `SUBSCRIBE channel [channel ...]`
pub const SUBSCRIBE: Command = Command::keyless(
    "subscribe",
    -2,
    FLAGS.union(Flags::SUBSCRIBES),
    Doc::new(Group::Pubsub, "2.0.0", "Subscribes to channels.")
        .complexity(TO_SUBSCRIBE)
        .args(&[Arg::string("channel").multiple()]),
    |ctx, args, reply| subscribe(ctx, SubscriptionKind::Channel, args, reply),
);

/// `PSUBSCRIBE pattern [pattern ...]`
pub const PSUBSCRIBE: Command = Command::keyless(
    "psubscribe",
    -2,
    FLAGS.union(Flags::SUBSCRIBES).union(Flags::CHANNEL_PATTERNS),
    Doc::new(Group::Pubsub, "2.0.0", "Subscribes to the channels that match patterns.")
        .complexity(TO_SUBSCRIBE_PATTERNS)
        .args(&[Arg::new("pattern", ArgType::Pattern).multiple()]),
    |ctx, args, reply| subscribe(ctx, SubscriptionKind::Pattern, args, reply),
);

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
pub const SSUBSCRIBE: Command = Command::keyless(
    "ssubscribe",
    -2,
    FLAGS.union(Flags::SUBSCRIBES).union(Flags::SHARD_CHANNELS),
    Doc::new(Group::Pubsub, "7.0.0", "Subscribes to shard channels.")
        .complexity(TO_SUBSCRIBE_SHARDS)
        .args(&[Arg::string("shardchannel").multiple()]),
    |ctx, args, reply| subscribe(ctx, SubscriptionKind::ShardChannel, args, reply),
)
.keys(SHARD_KEYS);

/// `UNSUBSCRIBE [channel ...]`
pub const UNSUBSCRIBE: Command = Command::keyless(
    "unsubscribe",
    -1,
    FLAGS,
    Doc::new(Group::Pubsub, "2.0.0", "Unsubscribes from the given channels, or from all channels.")
        .complexity(TO_UNSUBSCRIBE)
        .args(&[Arg::string("channel").optional().multiple()]),
    |ctx, args, reply| unsubscribe(ctx, SubscriptionKind::Channel, args, reply),
);

/// `PUNSUBSCRIBE [pattern ...]`
pub const PUNSUBSCRIBE: Command = Command::keyless(
    "punsubscribe",
    -1,
    FLAGS.union(Flags::CHANNEL_PATTERNS),
    Doc::new(Group::Pubsub, "2.0.0", "Unsubscribes from the given patterns, or from all patterns.")
        .complexity(TO_UNSUBSCRIBE_PATTERNS)
        .args(&[Arg::new("pattern", ArgType::Pattern).optional().multiple()]),
    |ctx, args, reply| unsubscribe(ctx, SubscriptionKind::Pattern, args, reply),
);

/// `SUNSUBSCRIBE [shardchannel ...]`
pub const SUNSUBSCRIBE: Command = Command::keyless(
    "sunsubscribe",
    -1,
    FLAGS.union(Flags::SHARD_CHANNELS),
    Doc::new(
        Group::Pubsub,
        "7.0.0",
        "Unsubscribes from the given shard channels, or from all shard channels.",
    )
    .complexity(TO_UNSUBSCRIBE_SHARDS)
    .args(&[Arg::string("shardchannel").optional().multiple()]),
    |ctx, args, reply| unsubscribe(ctx, SubscriptionKind::ShardChannel, args, reply),
)
.keys(SHARD_KEYS);

impl SubscriptionKind {
    fn subscribed_word(self) -> &'static [u8] {
        match self {
            Self::Channel => b"subscribe",
            Self::Pattern => b"psubscribe",
            Self::ShardChannel | Self::Prefix => b"ssubscribe",
        }
    }

    fn unsubscribed_word(self) -> &'static [u8] {
        match self {
            Self::Channel => b"unsubscribe",
            Self::Pattern => b"punsubscribe",
            Self::ShardChannel | Self::Prefix => b"sunsubscribe",
        }
    }

    /// Returns the number of subscriptions for the reply: shard channels are counted separately.
    fn subscription_count(self, session: &Session) -> i64 {
        let count = match self {
            Self::Channel | Self::Pattern => {
                session.name_count(SubscriptionKind::Channel) + session.name_count(SubscriptionKind::Pattern)
            }
            Self::ShardChannel | Self::Prefix => session.name_count(self),
        };
        count as i64
    }
}

fn subscribe(
    ctx: &mut Ctx<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    if kind == SubscriptionKind::ShardChannel && !ctx.may_block() {
        return Err(SHARD_IN_TRANSACTION);
    }
    let mut out = reply.parts();
    for name in args.tail(1) {
        ctx.host.subscribe(ctx.session, kind, name);
        out.push(3);
        out.bulk(kind.subscribed_word());
        out.bulk(name);
        out.integer(kind.subscription_count(ctx.session));
    }
    ctx.session.flags.insert(SessionFlags::SUBSCRIBED);
    Ok(out.done())
}

fn unsubscribe(
    ctx: &mut Ctx<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    if args.len() > 1 {
        for name in args.tail(1) {
            end_one(ctx, kind, Some(name), &mut out);
        }
    } else {
        let names = ctx.session.names_of(kind);
        for name in &names {
            end_one(ctx, kind, Some(name), &mut out);
        }
        if names.is_empty() {
            end_one(ctx, kind, None, &mut out);
        }
    }
    if !ctx.session.is_subscribed() {
        ctx.session.flags.remove(SessionFlags::SUBSCRIBED);
    }
    Ok(out.done())
}

/// Unsubscribes from one name, if subscribed, and writes the reply in any case.
fn end_one(ctx: &mut Ctx<'_>, kind: SubscriptionKind, name: Option<&[u8]>, out: &mut ReplyBuffer<'_>) {
    if let Some(name) = name {
        ctx.host.unsubscribe(ctx.session, kind, name, out);
    }
    out.push(3);
    out.bulk(kind.unsubscribed_word());
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.integer(kind.subscription_count(ctx.session));
}
