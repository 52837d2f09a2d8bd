//! `HSETNX`

use collections::{ExpiryChange, FieldWas, Hash};
use wire::request::Args;

use super::{limits, log_set, note_expired};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HSETNX key field value`
pub const COMMAND: Command = Command {
    name: "hsetnx",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Sets the value of a hash field if the field does not exist.")
        .args(&[Arg::key("key", 0), Arg::string("field"), Arg::string("value")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let (field, value) = (args.at(2), args.at(3));
    let (limits, due) = (limits(ctx.config), ctx.data.due());
    let was = ctx.edit_or_new(key, |hash: &mut Hash, alloc| {
        if hash.find(alloc, field, due).is_some() {
            return FieldWas::Present;
        }
        hash.set(alloc, limits, field, value, ExpiryChange::Clear, due)
    })?;
    if was == FieldWas::Present {
        return Ok(reply.flag(false));
    }
    note_expired(ctx, usize::from(was == FieldWas::Expired), key);
    ctx.changed(EventClass::Hash, "hset", key);
    if was == FieldWas::Expired {
        log_set(ctx, key, field, value);
    }
    Ok(reply.flag(true))
}
