//! `SWAPDB`

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SWAPDB index1 index2`
pub const COMMAND: Command = Command {
    name: "swapdb",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
    access: Access::WriteAll,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Server, "4.0.0", "Swaps the contents of two databases.")
        .complexity("O(S) where S is the number of slots, regardless of their contents.")
        .args(&[Arg::integer("index1"), Arg::integer("index2")]),
    subcommands: &[],
    run,
};

const BAD_FIRST: CommandError = CommandError::new("ERR invalid first DB index");
const BAD_SECOND: CommandError = CommandError::new("ERR invalid second DB index");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let number =
        |index: usize| parse_i64_strict(args.at(index)).and_then(|number| i32::try_from(number).ok());
    let first = number(1).ok_or(BAD_FIRST)?;
    let second = number(2).ok_or(BAD_SECOND)?;
    let (first, second) = (ctx.db_index(first.into())?, ctx.db_index(second.into())?);
    ctx.data.swap(first, second);
    ctx.report.dirty += 1;
    Ok(reply.ok())
}
