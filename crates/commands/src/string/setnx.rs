//! `SETNX`

use collections::ExpiryChange;
use wire::request::Args;

use super::assignment::{Assignment, assign};
use super::options::Condition;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SETNX key value`
pub const COMMAND: Command = Command {
    name: "setnx",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::OW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::String, "1.0.0", "Sets the string value of a key if the key does not exist.")
        .args(&[Arg::key("key", 0), Arg::string("value")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let assignment = Assignment {
        key: ctx.key(0),
        value: args.argument(2),
        condition: Condition::Absent,
        expiry: ExpiryChange::Clear,
    };
    Ok(reply.flag(assign(ctx, &assignment)?))
}
