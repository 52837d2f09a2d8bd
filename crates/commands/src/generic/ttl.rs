//! `TTL`, `PTTL`, `EXPIRETIME` and `PEXPIRETIME`

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const NO_KEY: i64 = -2;
const NO_EXPIRY: i64 = -1;

/// `TTL key`
pub const TTL: Command = Command {
    name: "ttl",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Generic, "1.0.0", "Returns the remaining time to live of a key in seconds.")
        .history(&[("2.8.0", "Returns -2 if the key does not exist.")])
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run: |ctx, _, reply| answer(ctx, |at, now| to_seconds((at - now).max(0)), reply),
};

/// `PTTL key`
pub const PTTL: Command = Command {
    name: "pttl",
    doc: Doc::new(Group::Generic, "2.6.0", "Returns the remaining time to live of a key in milliseconds.")
        .history(&[("2.8.0", "Returns -2 if the key does not exist.")])
        .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| answer(ctx, |at, now| (at - now).max(0), reply),
    ..TTL
};

/// `EXPIRETIME key`
pub const EXPIRETIME: Command = Command {
    name: "expiretime",
    tips: &[],
    doc: Doc::new(
        Group::Generic,
        "7.0.0",
        "Returns the expiration time of a key as a Unix timestamp in seconds.",
    )
    .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| answer(ctx, |at, _| to_seconds(at), reply),
    ..TTL
};

/// `PEXPIRETIME key`
pub const PEXPIRETIME: Command = Command {
    name: "pexpiretime",
    tips: &[],
    doc: Doc::new(
        Group::Generic,
        "7.0.0",
        "Returns the expiration time of a key as a Unix timestamp in milliseconds.",
    )
    .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| answer(ctx, |at, _| at, reply),
    ..TTL
};

/// Replies with the result of `show` for the expiry and the current time.
fn answer(
    ctx: &Ctx<'_>,
    show: impl FnOnce(i64, i64) -> i64,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let answer = match ctx.data.inspect(ctx.key(0)).map(|entry| entry.expiry()) {
        None => NO_KEY,
        Some(None) => NO_EXPIRY,
        Some(Some(at)) => show(at, ctx.now().0),
    };
    Ok(reply.integer(answer))
}

/// Rounds to the nearest second, as Redis does. `ms` is not negative.
fn to_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}
