//! `PERSIST`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PERSIST key`
pub const COMMAND: Command = Command {
    name: "persist",
    arity: 2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Generic, "2.2.0", "Makes a key persistent by removing its expiration time.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let is_volatile = ctx.data.find_for_write(key).is_some_and(|entry| entry.expiry().is_some());
    if is_volatile {
        ctx.data.set_expiry(key, None);
        ctx.changed(EventClass::Generic, "persist", key);
    }
    Ok(reply.flag(is_volatile))
}
