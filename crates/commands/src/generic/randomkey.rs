//! `RANDOMKEY`

use keyspace::DatabaseWalk;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `RANDOMKEY`
pub const COMMAND: Command = Command {
    name: "randomkey",
    arity: 1,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    access: Access::RandomKeys,
    keys: &[],
    tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
    doc: Doc::new(Group::Generic, "1.0.0", "Returns the name of a random key of the selected database."),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    let db = ctx.db();
    let mut found = DatabaseWalk::new(ctx.data, db).with_random_entry(|entry| out.bulk(entry.key()));
    // While expired keys are not deleted, an expired key is returned rather than none.
    if found.is_none() && (ctx.config.import_mode || ctx.host.is_expiry_paused()) {
        let sees_expired = std::mem::replace(&mut ctx.data.mode.sees_expired, true);
        found = DatabaseWalk::new(ctx.data, db).with_random_entry(|entry| out.bulk(entry.key()));
        ctx.data.mode.sees_expired = sees_expired;
    }
    if found.is_none() {
        out.null();
    }
    Ok(out.done())
}
