//! `HSETEX`

use collections::{ExpiryChange, FieldWas, Hash};
use keyspace::Key;
use wire::request::Args;

use super::options::{FieldExpiryCommand, FieldExpiryOptions};
use super::{expirations, fields, limits, log_expiry, log_kept_expiries, log_removed, note_expired};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HSETEX key [NX | XX] [FNX | FXX]
/// [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time | KEEPTTL]
/// FIELDS numfields field value [field value ...]`
pub const COMMAND: Command = Command {
    name: "hsetex",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::Hash, "9.0.0", "Sets the values of hash fields and optionally their expiration.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[
            Arg::key("key", 0),
            Arg::one_of("key-condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional(),
            Arg::one_of("fields-condition", &[Arg::word("fnx", "FNX"), Arg::word("fxx", "FXX")]).optional(),
            Arg::one_of("expiration", EXPIRATIONS).optional(),
            Arg::block("fields", FIELDS_AND_VALUES).token("FIELDS"),
        ]),
    subcommands: &[],
    run,
};

const EXPIRATIONS: &[Arg] = &expirations(Arg::word("keepttl", "KEEPTTL"));

const FIELDS_AND_VALUES: &[Arg] = &[
    Arg::integer("numfields").of_key(0),
    Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple(),
];

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let parse = |words| FieldExpiryOptions::parse(words, FieldExpiryCommand::Hsetex);
    let (options, pairs) = fields::after_options(args, 0, 2, 2, parse)?;
    let exists = ctx.find_for_write::<Hash>(key)?.is_some();
    if options.key_exists.is_some_and(|wanted| wanted != exists) {
        return Ok(reply.flag(false));
    }
    let expiry = options.expiry(ctx)?;
    if !fields_meet_condition(ctx, key, pairs, options)? {
        return Ok(reply.flag(false));
    }
    match expiry {
        Some(ExpiryChange::At(at)) if ctx.expires_now(at) => {
            if !exists {
                ctx.announce(EventClass::New, "new", key);
            }
            delete(ctx, key, pairs)?;
        }
        _ => set(ctx, key, pairs, expiry)?,
    }
    Ok(reply.flag(true))
}

fn fields_meet_condition(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    pairs: Args<'_>,
    options: FieldExpiryOptions<'_>,
) -> Result<bool, CommandError> {
    let Some(wanted) = options.fields_exist else { return Ok(true) };
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let hash = ctx.find_for_write::<Hash>(key)?;
    let exists = |field: &[u8]| hash.is_some_and(|hash| hash.find(alloc, field, due).is_some());
    Ok(pairs.iter().step_by(2).all(|field| exists(field) == wanted))
}

fn set(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    pairs: Args<'_>,
    expiry: Option<ExpiryChange>,
) -> Result<(), CommandError> {
    let (limits, due) = (limits(ctx.config), ctx.data.due());
    let change = expiry.unwrap_or(ExpiryChange::Clear);
    let expired = ctx.edit_or_new(key, |hash: &mut Hash, alloc| {
        let was_expired = |index: &usize| {
            let (field, value) = (pairs.at(*index), pairs.at(*index + 1));
            hash.set(alloc, limits, field, value, change, due) == FieldWas::Expired
        };
        (0..pairs.len()).step_by(2).filter(was_expired).count()
    })?;
    note_expired(ctx, expired, key);
    log_assignments(ctx, key, pairs, change);
    ctx.changed(EventClass::Hash, "hset", key);
    ctx.report.dirty += (pairs.len() / 2) as u64 - 1;
    if matches!(expiry, Some(ExpiryChange::At(_))) {
        ctx.announce(EventClass::Hash, "hexpire", key);
    }
    Ok(())
}

/// Records assignments that were made, in commands that Redis 7.4 and Valkey 9.0 know: the values, then the expiries.
fn log_assignments(ctx: &mut Ctx<'_>, key: Key<'_>, pairs: Args<'_>, change: ExpiryChange) {
    if !ctx.records_effects() {
        return;
    }
    let args =
        [EffectArg::from("HSET"), key.bytes.into()].into_iter().chain(pairs.iter().map(EffectArg::from));
    ctx.record_effect(&args.collect::<Vec<_>>());
    let fields: Vec<&[u8]> = pairs.iter().step_by(2).collect();
    match change {
        ExpiryChange::Clear => {}
        ExpiryChange::At(at) => log_expiry(ctx, key, at, &fields),
        ExpiryChange::Keep => log_kept_expiries(ctx, key, &fields),
    }
}

/// Deletes the fields, for an expiry in the past: as if they had been set and had expired.
fn delete(ctx: &mut Ctx<'_>, key: Key<'_>, pairs: Args<'_>) -> Result<(), CommandError> {
    let deleted = ctx.edit(key, |hash: &mut Hash, alloc| {
        // Includes fields that expired before, so that they do not reappear.
        pairs.iter().step_by(2).filter(|field| hash.remove(alloc, field, i64::MIN)).count()
    })?;
    ctx.data.counters.expired_fields.add((pairs.len() / 2) as u64);
    match deleted.unwrap_or(0) {
        0 => ctx.announce(EventClass::Hash, "hset", key),
        deleted => {
            ctx.changed(EventClass::Hash, "hset", key);
            ctx.report.dirty += deleted as u64 - 1;
            log_removed(ctx, key, &pairs.iter().step_by(2).collect::<Vec<_>>());
        }
    }
    ctx.announce(EventClass::Hash, "hexpire", key);
    ctx.announce(EventClass::Hash, "hexpired", key);
    if ctx.data.peek(key).is_none() {
        ctx.announce(EventClass::Generic, "del", key);
    }
    Ok(())
}
