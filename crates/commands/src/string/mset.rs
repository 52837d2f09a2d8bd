//! `MSET` and `MSETNX`

use collections::ExpiryChange;
use wire::request::Args;

use super::assignment::string_of;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `MSET key value [key value ...]`
pub const MSET: Command = Command {
    name: "mset",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::BRIEF),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::range(1, -1, 2, KeyFlags::OW.union(KeyFlags::UPDATE))],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    doc: Doc::new(Group::String, "1.0.1", "Sets the string values of several keys, atomically.")
        .complexity(COMPLEXITY)
        .args(ARGS),
    subcommands: &[],
    run: |ctx, args, reply| {
        set_all(ctx, args)?;
        Ok(reply.ok())
    },
};

/// `MSETNX key value [key value ...]`
pub const MSETNX: Command = Command {
    name: "msetnx",
    keys: &[KeySpec::range(1, -1, 2, KeyFlags::OW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "1.0.1",
        "Sets the string values of several keys, atomically, if none of them exists.",
    )
    .complexity(COMPLEXITY)
    .args(ARGS),
    run: set_all_if_absent,
    ..MSET
};

const COMPLEXITY: &str = "O(N) where N is the number of keys.";

const ARGS: &[Arg] = &[Arg::block("data", &[Arg::key("key", 0), Arg::string("value")]).multiple()];

fn set_all_if_absent(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    check_pairs(ctx, args)?;
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        if ctx.data.find_for_write(key).is_some() {
            return Ok(reply.flag(false));
        }
    }
    set_all(ctx, args)?;
    Ok(reply.flag(true))
}

fn set_all(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), CommandError> {
    check_pairs(ctx, args)?;
    let (mut keys, mut values) = (ctx.walk(), (2..args.len()).step_by(2));
    while let Some((key, value)) = keys.next(ctx.data).zip(values.next()) {
        ctx.data.set(key, string_of(args.argument(value)), ExpiryChange::Clear);
        ctx.changed(EventClass::String, "set", key);
    }
    Ok(())
}

/// Checks that each key has a value.
fn check_pairs(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), CommandError> {
    if args.len().is_multiple_of(2) { Err(CommandError::wrong_arity(ctx.command.name)) } else { Ok(()) }
}
