//! `HEXPIRE`, `HPEXPIRE`, `HEXPIREAT` and `HPEXPIREAT`

use collections::Hash;
use wire::request::Args;

use super::httl::NO_FIELD;
use super::{FIELDS, PLAIN_FIELDS, fields, log_expiry, log_removed};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::expiry::{ExpiryCondition, ExpiryFormat};
use crate::reply::{Replied, Reply};

/// `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub const HEXPIRE: Command = Command {
    name: "hexpire",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: doc(
        "Sets the time to live of hash fields in seconds.",
        &[Arg::key("key", 0), Arg::integer("seconds"), CONDITION, PLAIN_FIELDS],
    ),
    subcommands: &[],
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::Seconds, reply),
};

/// `HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub const HPEXPIRE: Command = Command {
    name: "hpexpire",
    doc: doc(
        "Sets the time to live of hash fields in milliseconds.",
        &[Arg::key("key", 0), Arg::integer("milliseconds"), CONDITION.since("9.0.0"), FIELDS],
    ),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::Millis, reply),
    ..HEXPIRE
};

/// `HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub const HEXPIREAT: Command = Command {
    name: "hexpireat",
    doc: doc(
        "Sets the expiration time of hash fields as a Unix timestamp in seconds.",
        &[Arg::key("key", 0), Arg::integer("unix-time-seconds"), CONDITION.since("9.0.0"), FIELDS],
    ),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::UnixSeconds, reply),
    ..HEXPIRE
};

/// `HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub const HPEXPIREAT: Command = Command {
    name: "hpexpireat",
    doc: doc(
        "Sets the expiration time of hash fields as a Unix timestamp in milliseconds.",
        &[Arg::key("key", 0), Arg::integer("unix-time-milliseconds"), CONDITION.since("9.0.0"), FIELDS],
    ),
    run: |ctx, args, reply| expire(ctx, args, ExpiryFormat::UnixMillis, reply),
    ..HEXPIRE
};

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.optional();

const fn doc(summary: &'static str, args: &'static [Arg]) -> Doc {
    Doc::new(Group::Hash, "9.0.0", summary).complexity("O(N) where N is the number of fields.").args(args)
}

const NOT_ALLOWED: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

fn expire(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    format: ExpiryFormat,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let parse = |words: Vec<&[u8]>| ExpiryCondition::parse(words.into_iter());
    let (condition, fields) = fields::after_options(args, 3, 3, 1, parse)?;
    let at = format.parse(args.at(2), 0, ctx)?;
    let (expires_now, due, logs) = (ctx.expires_now(at), ctx.data.due(), ctx.records_effects());
    let mut changed: Vec<&[u8]> = Vec::new();
    let mut out = reply.array(fields.len());
    let changes = ctx.edit(key, |hash: &mut Hash, alloc| {
        let mut changes = 0;
        for field in fields.iter() {
            let result = match hash.find(alloc, field, due) {
                None => NO_FIELD,
                Some(found) if !condition.allow(found.expiry, at) => NOT_ALLOWED,
                Some(_) if expires_now => {
                    hash.remove(alloc, field, due);
                    DELETED
                }
                Some(_) => {
                    hash.set_expiry(alloc, field, Some(at), due);
                    SET
                }
            };
            changes += u64::from(result > 0);
            if logs && result > 0 {
                changed.push(field);
            }
            out.integer(result);
        }
        changes
    })?;
    match changes {
        None => fields.iter().for_each(|_| out.integer(NO_FIELD)),
        Some(0) => {}
        Some(changes) => {
            if expires_now {
                ctx.data.counters.expired_fields.add(changes);
            }
            ctx.changed(EventClass::Hash, if expires_now { "hexpired" } else { "hexpire" }, key);
            ctx.report.dirty += changes - 1;
            if expires_now {
                log_removed(ctx, key, &changed);
            } else {
                log_expiry(ctx, key, at, &changed);
            }
            ctx.report_if_emptied(key);
        }
    }
    Ok(out.done())
}
