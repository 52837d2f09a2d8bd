//! `HSET` and `HMSET`

use collections::{ExpiryChange, FieldWas, Hash};
use wire::request::Args;

use super::{limits, note_expired};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;

/// `HSET key field value [field value ...]`
pub const HSET: Command = Command {
    name: "hset",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Sets the values of hash fields. Missing fields are created.")
        .complexity("O(N) where N is the number of fields to set.")
        .history(&[("4.0.0", "Takes several fields.")])
        .args(DATA),
    subcommands: &[],
    run: |ctx, args, reply| {
        let added = set(ctx, args)?;
        Ok(reply.integer(added))
    },
};

/// `HMSET key field value [field value ...]`
pub const HMSET: Command = Command {
    name: "hmset",
    doc: Doc::new(Group::Hash, "2.0.0", "Sets the values of several hash fields.")
        .complexity("O(N) where N is the number of fields to set.")
        .args(DATA),
    run: |ctx, args, reply| {
        set(ctx, args)?;
        Ok(reply.ok())
    },
    ..HSET
};

const DATA: &[Arg] =
    &[Arg::key("key", 0), Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple()];

/// Sets the fields of a request. Returns the number of new fields.
fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<i64, CommandError> {
    if args.len() % 2 == 1 {
        return Err(CommandError::wrong_arity(ctx.command.name));
    }
    let key = ctx.key(0);
    let (limits, due) = (limits(ctx.config), ctx.data.due());
    let pair_count = (args.len() - 2) / 2;
    let mut added = 0;
    let mut expired = 0;
    ctx.edit_or_new(key, |hash: &mut Hash, alloc| {
        if pair_count > limits.entry_count_max {
            hash.report_as_hashtable();
        }
        let is_reserving = hash.len() == 0 && pair_count > 1;
        if is_reserving {
            hash.reserve(alloc.heap, args.tail(2).iter());
        }
        for index in (2..args.len()).step_by(2) {
            let (field, value) = (args.at(index), args.at(index + 1));
            match hash.set(alloc, limits, field, value, ExpiryChange::Clear, due) {
                FieldWas::Present => {}
                FieldWas::Absent => added += 1,
                FieldWas::Expired => {
                    added += 1;
                    expired += 1;
                }
            }
        }
        if is_reserving && (added as usize) < pair_count {
            hash.shrink_if_roomy();
        }
    })?;
    note_expired(ctx, expired, key);
    ctx.changed(EventClass::Hash, "hset", key);
    ctx.report.dirty += pair_count as u64 - 1;
    Ok(added)
}
