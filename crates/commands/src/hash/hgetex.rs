//! `HGETEX`

use collections::{ExpiryChange, Hash};
use wire::request::Args;

use super::options::{FieldExpiryCommand, FieldExpiryOptions};
use super::{FIELDS, expirations, fields, log_expiry, log_fields, log_removed, write_item};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HGETEX key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time | PERSIST]
/// FIELDS numfields field [field ...]`
pub const COMMAND: Command = Command {
    name: "hgetex",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Hash, "9.0.0", "Returns the values of hash fields and can change their expiration.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0), Arg::one_of("expiration", EXPIRATIONS).optional(), FIELDS]),
    subcommands: &[],
    run,
};

const EXPIRATIONS: &[Arg] = &expirations(Arg::word("persist", "PERSIST"));

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let parse = |words| FieldExpiryOptions::parse(words, FieldExpiryCommand::Hgetex);
    let (options, fields) = fields::after_options(args, 0, 2, 1, parse)?;
    ctx.data.expire_if_due(key);
    let exists = ctx.find::<Hash>(key)?.is_some();
    let expiry = options.expiry(ctx)?;
    let expires_now = matches!(expiry, Some(ExpiryChange::At(at)) if ctx.expires_now(at));
    let (due, logs) = (ctx.data.due(), ctx.records_effects());
    let mut changed: Vec<&[u8]> = Vec::new();
    let mut out = reply.array(fields.len());
    if !exists {
        fields.iter().for_each(|_| out.null());
        return Ok(out.done());
    }
    let changes = ctx.edit(key, |hash: &mut Hash, alloc| {
        let mut changes = 0;
        for field in fields.iter() {
            let Some(found) = hash.find(alloc, field, due) else {
                out.null();
                continue;
            };
            write_item(&mut out, found.value);
            let was_volatile = found.expiry.is_some();
            let has_changed = match expiry {
                Some(ExpiryChange::At(_)) if expires_now => hash.remove(alloc, field, due),
                Some(ExpiryChange::At(at)) => hash.set_expiry(alloc, field, Some(at), due),
                Some(ExpiryChange::Clear) => was_volatile && hash.set_expiry(alloc, field, None, due),
                Some(ExpiryChange::Keep) | None => false,
            };
            changes += u64::from(has_changed);
            if logs && has_changed {
                changed.push(field);
            }
        }
        changes
    })?;
    let changes = changes.unwrap_or(0);
    if changes > 0 {
        if expires_now {
            ctx.data.counters.expired_fields.add(changes);
        }
        let event = match expiry {
            _ if expires_now => "hexpired",
            Some(ExpiryChange::At(_)) => "hexpire",
            _ => "hpersist",
        };
        ctx.changed(EventClass::Hash, event, key);
        ctx.report.dirty += changes - 1;
        match expiry {
            _ if expires_now => log_removed(ctx, key, &changed),
            Some(ExpiryChange::At(at)) => {
                log_expiry(ctx, key, at, &changed);
            }
            _ => log_fields(ctx, &["HPERSIST".into(), key.bytes.into()], &changed),
        }
        ctx.report_if_emptied(key);
    }
    Ok(out.done())
}
