//! `HPERSIST`

use collections::Hash;
use wire::request::Args;

use super::httl::{NO_EXPIRY, NO_FIELD};
use super::{FIELDS, fields, log_fields};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HPERSIST key FIELDS numfields field [field ...]`
pub const COMMAND: Command = Command {
    name: "hpersist",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Hash, "9.0.0", "Removes the expiration time of hash fields.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0), FIELDS]),
    subcommands: &[],
    run,
};

const PERSISTED: i64 = 1;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let fields = fields::after_key_or_error(args)?;
    let (due, logs) = (ctx.data.due(), ctx.records_effects());
    let mut changed: Vec<&[u8]> = Vec::new();
    let mut out = reply.array(fields.len());
    let changes = ctx.edit(key, |hash: &mut Hash, alloc| {
        let mut changes = 0;
        for field in fields.iter() {
            let result = match hash.find(alloc, field, due).map(|field| field.expiry) {
                None => NO_FIELD,
                Some(None) => NO_EXPIRY,
                Some(Some(_)) => {
                    hash.set_expiry(alloc, field, None, due);
                    changes += 1;
                    if logs {
                        changed.push(field);
                    }
                    PERSISTED
                }
            };
            out.integer(result);
        }
        changes
    })?;
    match changes {
        None => fields.iter().for_each(|_| out.integer(NO_FIELD)),
        Some(0) => {}
        Some(changes) => {
            ctx.changed(EventClass::Hash, "hpersist", key);
            ctx.report.dirty += changes - 1;
            // The request itself is not logged: replaying it would also persist fields that are expired but not deleted yet.
            log_fields(ctx, &["HPERSIST".into(), key.bytes.into()], &changed);
        }
    }
    Ok(out.done())
}
