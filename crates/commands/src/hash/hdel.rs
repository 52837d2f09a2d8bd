//! `HDEL`

use collections::Hash;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HDEL key field [field ...]`
pub const COMMAND: Command = Command {
    name: "hdel",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Deletes fields of a hash. The hash is deleted with its last field.")
        .complexity("O(N) where N is the number of fields to delete.")
        .history(&[("2.4.0", "Takes several fields.")])
        .args(&[Arg::key("key", 0), Arg::string("field").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let due = ctx.data.due();
    let deleted = ctx.edit(key, |hash: &mut Hash, alloc| {
        args.tail(2).iter().filter(|field| hash.remove(alloc, field, due)).count()
    })?;
    let deleted = deleted.unwrap_or(0);
    if deleted > 0 {
        ctx.changed(EventClass::Hash, "hdel", key);
        ctx.report.dirty += deleted as u64 - 1;
        ctx.report_if_emptied(key);
    }
    Ok(reply.integer(deleted as i64))
}
