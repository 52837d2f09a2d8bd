//! `MOVE`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `MOVE key db`
pub const COMMAND: Command = Command {
    name: "move",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Generic, "1.0.0", "Moves a key to another database.")
        .args(&[Arg::key("key", 0), Arg::integer("db")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let from = ctx.key(0);
    let db = ctx.parse_db_index(args.at(2))?;
    if db == from.db {
        return Err(CommandError::SAME_OBJECT);
    }
    let to = from.in_db(db);
    if ctx.data.find_for_write(from).is_none() || ctx.data.find_for_write(to).is_some() {
        return Ok(reply.flag(false));
    }
    if let Some(removed) = ctx.data.remove(from) {
        ctx.data.insert(to, removed);
    }
    ctx.changed(EventClass::Generic, "move_from", from);
    ctx.also_changed(to);
    ctx.announce(EventClass::Generic, "move_to", to);
    Ok(reply.flag(true))
}
