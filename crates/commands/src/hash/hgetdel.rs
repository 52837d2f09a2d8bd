//! `HGETDEL`

use collections::Hash;
use wire::request::Args;

use super::{FIELDS, fields, log_removed, write_item};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HGETDEL key FIELDS numfields field [field ...]`
pub const COMMAND: Command = Command {
    name: "hgetdel",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::Hash, "9.1.0", "Returns the values of hash fields and deletes the fields.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0), FIELDS]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let fields = fields::after_key_or_error(args)?;
    let (due, logs) = (ctx.data.due(), ctx.records_effects());
    let mut removed: Vec<&[u8]> = Vec::new();
    let mut out = reply.array(fields.len());
    let deleted = ctx.edit(key, |hash: &mut Hash, alloc| {
        let mut deleted = 0;
        for field in fields.iter() {
            match hash.find(alloc, field, due) {
                None => out.null(),
                Some(found) => {
                    write_item(&mut out, found.value);
                    hash.remove(alloc, field, due);
                    if logs {
                        removed.push(field);
                    }
                    deleted += 1;
                }
            }
        }
        deleted
    })?;
    match deleted {
        None => fields.iter().for_each(|_| out.null()),
        Some(0) => {}
        Some(deleted) => {
            ctx.changed(EventClass::Hash, "hdel", key);
            ctx.report.dirty += deleted - 1;
            log_removed(ctx, key, &removed);
            ctx.report_if_emptied(key);
        }
    }
    Ok(out.done())
}
