//! `DBSIZE`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DBSIZE`
pub const COMMAND: Command = Command {
    name: "dbsize",
    arity: 1,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::KeyCount,
    keys: &[],
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    doc: Doc::new(Group::Server, "1.0.0", "Returns the number of keys in the selected database."),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let count = ctx.data.key_count(ctx.db());
    ctx.data.note_all_changes();
    Ok(reply.integer(count as i64))
}
