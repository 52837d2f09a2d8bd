//! `SELECT`

use base::DbIndex;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SELECT index`
pub const COMMAND: Command = Command::keyless(
    "select",
    2,
    Flags::LOADING
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::ALLOW_BUSY)
        .union(Flags::SESSION)
        .union(Flags::SELECTS_DB),
    Doc::new(Group::Connection, "1.0.0", "Selects the database of the connection.")
        .args(&[Arg::integer("index")]),
    run,
)
.add_categories(Categories::CONNECTION);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let index = parse_i64_strict(args.at(1)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| CommandError::NOT_AN_I32)?;
    let index = u16::try_from(index)
        .ok()
        .filter(|index| u32::from(*index) < ctx.config.databases)
        .ok_or(CommandError::DB_OUT_OF_RANGE)?;
    ctx.session.db = DbIndex(index);
    Ok(reply.ok())
}
