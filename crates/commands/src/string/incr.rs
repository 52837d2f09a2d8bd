//! `INCR`, `DECR`, `INCRBY` and `DECRBY`

use collections::{ExpiryChange, NewValue, ValueRef};
use wire::number::parse_i64_strict;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `INCR key`
pub const INCR: Command = Command {
    name: "incr",
    arity: 2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "1.0.0",
        "Increments the integer value of a key by one. A missing key counts as 0.",
    )
    .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run: |ctx, _, reply| add(ctx, 1, reply),
};

/// `DECR key`
pub const DECR: Command = Command {
    name: "decr",
    doc: Doc::new(
        Group::String,
        "1.0.0",
        "Decrements the integer value of a key by one. A missing key counts as 0.",
    )
    .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| add(ctx, -1, reply),
    ..INCR
};

/// `INCRBY key increment`
pub const INCRBY: Command = Command {
    name: "incrby",
    arity: 3,
    doc: Doc::new(
        Group::String,
        "1.0.0",
        "Increments the integer value of a key by a number. A missing key counts as 0.",
    )
    .args(&[Arg::key("key", 0), Arg::integer("increment")]),
    run: |ctx, args, reply| {
        let increment = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
        add(ctx, increment, reply)
    },
    ..INCR
};

/// `DECRBY key decrement`
pub const DECRBY: Command = Command {
    name: "decrby",
    arity: 3,
    doc: Doc::new(
        Group::String,
        "1.0.0",
        "Decrements the integer value of a key by a number. A missing key counts as 0.",
    )
    .args(&[Arg::key("key", 0), Arg::integer("decrement")]),
    run: |ctx, args, reply| {
        let decrement = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
        add(ctx, decrement.checked_neg().ok_or(DECREMENT_OVERFLOW)?, reply)
    },
    ..INCR
};

const OVERFLOW: CommandError = CommandError::new("ERR increment or decrement would overflow");

/// The smallest integer has no negation.
const DECREMENT_OVERFLOW: CommandError = CommandError::new("ERR decrement would overflow");

/// Adds to the key's value in place, or sets it.
fn add(ctx: &mut Ctx<'_>, increment: i64, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let edited = ctx.data.edit_integer(key, |value| integer(value)?.checked_add(increment).ok_or(OVERFLOW));
    let value = match edited {
        Some(sum) => sum?,
        None => {
            ctx.data.set(key, NewValue::Int(increment), ExpiryChange::Clear);
            increment
        }
    };
    ctx.changed(EventClass::String, "incrby", key);
    Ok(reply.integer(value))
}

fn integer(value: ValueRef<'_>) -> Result<i64, CommandError> {
    match value {
        ValueRef::Int(value) => Ok(value),
        ValueRef::Bytes(text) => parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER),
        ValueRef::Object(_) => Err(CommandError::WRONG_TYPE),
    }
}
