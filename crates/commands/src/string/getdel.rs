//! `GETDEL`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GETDEL key`
pub const COMMAND: Command = Command {
    name: "getdel",
    arity: 2,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::String, "6.2.0", "Returns the string value of a key and deletes the key.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    ctx.data.expire_if_due(key);
    let mut out = reply.parts();
    ctx.write_string(key, &mut out)?;
    if ctx.data.remove(key).is_some() {
        ctx.changed(EventClass::Generic, "del", key);
        ctx.record_deletion(key);
    }
    Ok(out.done())
}
