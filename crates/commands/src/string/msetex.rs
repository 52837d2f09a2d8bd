//! `MSETEX`

use collections::ExpiryChange;
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::assignment::put;
use super::options::{OptionSet, SetOptions};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `MSETEX numkeys key value [key value ...] [NX | XX]
/// [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time | KEEPTTL]`
pub const COMMAND: Command = Command {
    name: "msetex",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec {
        custom: Some(find_keys),
        ..KeySpec::counted(1, 2, KeyFlags::OW.union(KeyFlags::UPDATE))
    }],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    doc: Doc::new(
        Group::String,
        "8.4.0",
        "Sets the string values and a common expiration of several keys, atomically.",
    )
    .complexity("O(N) where N is the number of keys.")
    .args(&[
        Arg::integer("numkeys"),
        Arg::block("data", &[Arg::key("key", 0), Arg::string("value")]).multiple(),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional(),
        Arg::one_of("expiration", EXPIRATIONS).optional(),
    ]),
    subcommands: &[],
    run,
};

const EXPIRATIONS: &[Arg] = &[
    Arg::integer("seconds").token("EX"),
    Arg::integer("milliseconds").token("PX"),
    Arg::new("unix-time-seconds", ArgType::UnixTime).token("EXAT"),
    Arg::new("unix-time-milliseconds", ArgType::UnixTime).token("PXAT"),
    Arg::word("keepttl", "KEEPTTL"),
];

/// Argument index of the first key.
const FIRST_KEY: usize = 2;

const BAD_COUNT: CommandError = CommandError::new("ERR invalid numkeys value or out of range");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = SetOptions::parse(args.tail(options_start(args)?), OptionSet::Msetex)?;
    let expiry = options.expiry_change(ctx)?.unwrap_or(ExpiryChange::Clear);
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        if !options.condition.holds(ctx, key)? {
            return Ok(reply.flag(false));
        }
    }
    let (mut keys, mut values) = (ctx.walk(), (FIRST_KEY + 1..args.len()).step_by(2));
    while let Some((key, value)) = keys.next(ctx.data).zip(values.next()) {
        // Unlike in SET, an expiry in the past deletes nothing here: the keys exist until they are next accessed.
        put(ctx, key, args.argument(value), expiry);
        log_set(ctx, key, args.at(value), expiry);
    }
    Ok(reply.flag(true))
}

/// Records one assignment: older servers have no `MSETEX`.
fn log_set(ctx: &mut Ctx<'_>, key: Key<'_>, value: &[u8], expiry: ExpiryChange) {
    let (set, key, value) = ("SET".into(), key.bytes.into(), value.into());
    match expiry {
        ExpiryChange::At(at) => ctx.record_effect(&[set, key, value, "PXAT".into(), at.into()]),
        ExpiryChange::Keep => ctx.record_effect(&[set, key, value, "KEEPTTL".into()]),
        ExpiryChange::Clear => ctx.record_effect(&[set, key, value]),
    }
}

/// Finds no keys in a malformed request: the handler then returns the error.
fn find_keys(args: Args<'_>, found: &mut Vec<u32>) {
    if let Ok(end) = options_start(args) {
        found.extend((FIRST_KEY..end).step_by(2).map(|index| index as u32));
    }
}

/// Returns the argument index after the keys and values.
fn options_start(args: Args<'_>) -> Result<usize, CommandError> {
    let count = parse_i64_strict(args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| (1..=i32::MAX as usize).contains(count)).ok_or(BAD_COUNT)?;
    let end = FIRST_KEY + count * 2;
    if end > args.len() { Err(CommandError::SYNTAX) } else { Ok(end) }
}
