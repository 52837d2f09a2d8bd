//! `GETEX`

use collections::ExpiryChange;
use keyspace::Key;
use wire::request::Args;

use super::options::{OptionSet, SetOptions};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GETEX key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time | PERSIST]`
pub const COMMAND: Command = Command {
    name: "getex",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("Updates the expiry, not the value"),
        ..KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))
    }],
    tips: &[],
    doc: Doc::new(Group::String, "6.2.0", "Returns the string value of a key and can change its expiration.")
        .args(&[Arg::key("key", 0), Arg::one_of("expiration", EXPIRATIONS).optional()]),
    subcommands: &[],
    run,
};

const EXPIRATIONS: &[Arg] = &[
    Arg::integer("seconds").token("EX"),
    Arg::integer("milliseconds").token("PX"),
    Arg::new("unix-time-seconds", ArgType::UnixTime).token("EXAT"),
    Arg::new("unix-time-milliseconds", ArgType::UnixTime).token("PXAT"),
    Arg::word("persist", "PERSIST"),
];

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let options = SetOptions::parse(args.tail(2), OptionSet::Getex)?;
    let change = options.expiry_change(ctx)?;
    ctx.data.expire_if_due(key);
    let mut out = reply.parts();
    ctx.write_string(key, &mut out)?;
    match change {
        None | Some(ExpiryChange::Keep) => {}
        Some(ExpiryChange::Clear) => persist(ctx, key),
        Some(ExpiryChange::At(at)) => expire_at(ctx, key, at),
    }
    Ok(out.done())
}

fn persist(ctx: &mut Ctx<'_>, key: Key<'_>) {
    let was_volatile = ctx.data.edit(key, |entry| {
        let is_volatile = entry.entry().expiry().is_some();
        if is_volatile {
            entry.set_expiry(None);
        }
        is_volatile
    });
    if was_volatile == Some(true) {
        ctx.changed(EventClass::Generic, "persist", key);
        ctx.record_effect(&["PERSIST".into(), key.bytes.into()]);
    }
}

fn expire_at(ctx: &mut Ctx<'_>, key: Key<'_>, at: i64) {
    if ctx.expires_now(at) {
        ctx.delete_as_expired(key);
    } else if ctx.data.set_expiry(key, Some(at)) {
        ctx.changed(EventClass::Generic, "expire", key);
        ctx.record_effect(&["PEXPIREAT".into(), key.bytes.into(), at.into()]);
    }
}
