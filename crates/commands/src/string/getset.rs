//! `GETSET`

use collections::ExpiryChange;
use wire::request::Args;

use super::assignment::Assignment;
use super::options::Condition;
use super::set::set_and_get;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GETSET key value`
pub const COMMAND: Command = Command {
    name: "getset",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::String, "1.0.0", "Sets the string value of a key and returns its previous value.")
        .args(&[Arg::key("key", 0), Arg::string("value")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let assignment = Assignment {
        key: ctx.key(0),
        value: args.argument(2),
        condition: Condition::Always,
        expiry: ExpiryChange::Clear,
    };
    let replied = set_and_get(ctx, &assignment, reply)?;
    // As `SET`, like Redis and Valkey.
    ctx.record_effect(&["SET".into(), assignment.key.bytes.into(), assignment.value.bytes().into()]);
    Ok(replied)
}
