//! `DELIFEQ`

use wire::request::Args;

use super::comparison::Comparison;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DELIFEQ key value`
pub const COMMAND: Command = Command {
    name: "delifeq",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RM.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::String, "9.0.0", "Deletes a key if its string value equals a given one.")
        .args(&[Arg::key("key", 0), Arg::string("value")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let comparison = Comparison::Equal(args.at(2));
    let holds = match ctx.find_string_for_write(key)? {
        None => false,
        Some(value) => comparison.holds(value)?,
    };
    Ok(reply.flag(holds && super::delex::delete(ctx, key)))
}
