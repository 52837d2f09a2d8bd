//! `RENAME` and `RENAMENX`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const FROM: KeySpec = KeySpec::at(1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE));

/// `RENAME key newkey`
pub const RENAME: Command = Command {
    name: "rename",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[FROM, KeySpec::at(2, KeyFlags::OW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Generic, "1.0.0", "Renames a key. A key that has the new name is overwritten.")
        .args(&[Arg::key("key", 0), Arg::key("newkey", 1)]),
    subcommands: &[],
    run: rename,
};

/// `RENAMENX key newkey`
pub const RENAMENX: Command = Command {
    name: "renamenx",
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    keys: &[FROM, KeySpec::at(2, KeyFlags::OW.union(KeyFlags::INSERT))],
    doc: Doc::new(Group::Generic, "1.0.0", "Renames a key if no key has the new name.")
        .history(&[("3.2.0", "No error where both names are the same.")])
        .args(&[Arg::key("key", 0), Arg::key("newkey", 1)]),
    run: renamenx,
    ..RENAME
};

fn rename(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (from, to) = (ctx.key(0), ctx.key(1));
    ctx.data.find_for_write(from).ok_or(CommandError::NO_SUCH_KEY)?;
    if from.bytes != to.bytes {
        move_entry(ctx);
    }
    Ok(reply.ok())
}

fn renamenx(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (from, to) = (ctx.key(0), ctx.key(1));
    ctx.data.find_for_write(from).ok_or(CommandError::NO_SUCH_KEY)?;
    if from.bytes == to.bytes || ctx.data.find_for_write(to).is_some() {
        return Ok(reply.flag(false));
    }
    move_entry(ctx);
    Ok(reply.flag(true))
}

/// Moves the entry of the first key, which exists, to the second key's name.
fn move_entry(ctx: &mut Ctx<'_>) {
    let (from, to) = (ctx.key(0), ctx.key(1));
    ctx.data.expire_if_due(to);
    let Some(removed) = ctx.data.remove(from) else { return };
    let replaced = ctx.data.insert(to, removed);
    if let Some(replaced) =
        replaced.filter(|old| ctx.config.lazyfree_lazy_server_del && old.is_costly_to_drop())
    {
        ctx.host.free_later(1, Box::new(move || drop(replaced)));
    }
    ctx.changed(EventClass::Generic, "rename_from", from);
    ctx.also_changed(to);
    ctx.announce(EventClass::Generic, "rename_to", to);
}
