//! `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::expiry::{ExpiryCondition, ExpiryFormat};
use crate::reply::{Replied, Reply};

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub const EXPIRE: Command = Command {
    name: "expire",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Generic, "1.0.0", "Sets the time to live of a key in seconds.")
        .history(HISTORY)
        .args(&[Arg::key("key", 0), Arg::integer("seconds"), CONDITION]),
    subcommands: &[],
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::Seconds, reply),
};

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub const PEXPIRE: Command = Command {
    name: "pexpire",
    doc: Doc::new(Group::Generic, "2.6.0", "Sets the time to live of a key in milliseconds.")
        .history(HISTORY)
        .args(&[Arg::key("key", 0), Arg::integer("milliseconds"), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::Millis, reply),
    ..EXPIRE
};

/// `EXPIREAT key unix-time-seconds [NX | XX | GT | LT]`
pub const EXPIREAT: Command = Command {
    name: "expireat",
    doc: Doc::new(
        Group::Generic,
        "1.2.0",
        "Sets the expiration time of a key as a Unix timestamp in seconds.",
    )
    .history(HISTORY)
    .args(&[Arg::key("key", 0), Arg::new("unix-time-seconds", ArgType::UnixTime), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::UnixSeconds, reply),
    ..EXPIRE
};

/// `PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]`
pub const PEXPIREAT: Command = Command {
    name: "pexpireat",
    doc: Doc::new(
        Group::Generic,
        "2.6.0",
        "Sets the expiration time of a key as a Unix timestamp in milliseconds.",
    )
    .history(HISTORY)
    .args(&[Arg::key("key", 0), Arg::new("unix-time-milliseconds", ArgType::UnixTime), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::UnixMillis, reply),
    ..EXPIRE
};

const HISTORY: &[(&str, &str)] = &[("7.0.0", "Added `NX`, `XX`, `GT` and `LT`.")];

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.since("7.0.0")
.optional();

fn expire(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    format: ExpiryFormat,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let condition = ExpiryCondition::parse(args.tail(3).iter())?;
    let at = format.parse(args.at(2), i64::MIN, ctx)?.max(0);
    let key = ctx.key(0);
    let before = ctx.data.find_for_write(key).map(|entry| entry.expiry());
    if !before.is_some_and(|before| condition.allow(before, at)) {
        return Ok(reply.flag(false));
    }
    if ctx.expires_now(at) {
        ctx.delete_as_expired(key);
    } else {
        ctx.data.set_expiry(key, Some(at));
        ctx.changed(EventClass::Generic, "expire", key);
        ctx.record_effect(&["PEXPIREAT".into(), key.bytes.into(), at.into()]);
    }
    Ok(reply.flag(true))
}
