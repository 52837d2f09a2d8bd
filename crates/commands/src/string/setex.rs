//! `SETEX` and `PSETEX`

use collections::ExpiryChange;
use wire::request::Args;

use super::assignment::{Assignment, assign, log_assignment};
use super::options::Condition;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::expiry::ExpiryFormat;
use crate::reply::{Replied, Reply};

/// `SETEX key seconds value`
pub const SETEX: Command = Command {
    name: "setex",
    doc: Doc::new(Group::String, "2.0.0", "Sets the string value and the time to live in seconds of a key.")
        .args(&[Arg::key("key", 0), Arg::integer("seconds"), Arg::string("value")]),
    run: |ctx, args, reply| run(ctx, args, reply, ExpiryFormat::Seconds),
    ..PSETEX
};

/// `PSETEX key milliseconds value`
pub const PSETEX: Command = Command {
    name: "psetex",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::OW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "2.6.0",
        "Sets the string value and the time to live in milliseconds of a key.",
    )
    .args(&[Arg::key("key", 0), Arg::integer("milliseconds"), Arg::string("value")]),
    subcommands: &[],
    run: |ctx, args, reply| run(ctx, args, reply, ExpiryFormat::Millis),
};

fn run(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    format: ExpiryFormat,
) -> Result<Replied, CommandError> {
    let expiry = ExpiryChange::At(format.parse(args.at(2), 1, ctx)?);
    let assignment =
        Assignment { key: ctx.key(0), value: args.argument(3), condition: Condition::Always, expiry };
    assign(ctx, &assignment)?;
    log_assignment(ctx, &assignment);
    Ok(reply.ok())
}
