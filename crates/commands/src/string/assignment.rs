//! Conditionally setting a string key, with or without an expiry: shared by `SET`, its older variants and
//! `MSETEX`.

use collections::{ExpiryChange, NewValue};
use keyspace::Key;
use wire::request::Argument;

use super::options::Condition;
use crate::context::{Ctx, EffectArg, EventClass};
use crate::error::CommandError;

/// A conditional assignment to a key.
pub(super) struct Assignment<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Its new value.
    pub value: Argument<'a>,
    /// The condition for setting it.
    pub condition: Condition<'a>,
    /// The change of its expiry. An expiry in the past deletes the key instead.
    pub expiry: ExpiryChange,
}

/// Performs an assignment. Returns whether its condition held.
pub(super) fn assign(ctx: &mut Ctx<'_>, assignment: &Assignment<'_>) -> Result<bool, CommandError> {
    let Assignment { key, value, condition, expiry } = *assignment;
    if !condition.holds(ctx, key)? {
        return Ok(false);
    }
    match expiry {
        ExpiryChange::At(at) if ctx.expires_now(at) => {
            ctx.delete_as_expired(key);
        }
        _ => put(ctx, key, value, expiry),
    }
    Ok(true)
}

/// Logs an assignment that was made, where its request would not repeat it: with its expiry as a Unix time, because the
/// request may give it relative to the current time, and without a comparison, which older servers do not know.
pub(super) fn log_assignment(ctx: &mut Ctx<'_>, assignment: &Assignment<'_>) {
    let Assignment { key, value, condition, expiry } = *assignment;
    let set = [EffectArg::from("SET"), key.bytes.into(), value.bytes().into()];
    match expiry {
        // Logged as a deletion.
        ExpiryChange::At(at) if ctx.expires_now(at) => {}
        ExpiryChange::At(at) => ctx.record_effect(&[set[0], set[1], set[2], "PXAT".into(), at.into()]),
        _ if !matches!(condition, Condition::Compared(_)) => {}
        ExpiryChange::Keep => ctx.record_effect(&[set[0], set[1], set[2], "KEEPTTL".into()]),
        ExpiryChange::Clear => ctx.record_effect(&set),
    }
}

/// Returns an argument as the value of a string. A detached one is stored without a copy.
#[inline]
pub(super) fn string_of(argument: Argument<'_>) -> NewValue<'_> {
    match argument {
        Argument::Bytes(bytes) => NewValue::Auto(bytes),
        // Longer than the text of an integer.
        Argument::Detached(buffer) => NewValue::Shared(buffer),
    }
}

/// Sets value and expiry of a key, even if the expiry is in the past.
pub(super) fn put(ctx: &mut Ctx<'_>, key: Key<'_>, value: Argument<'_>, expiry: ExpiryChange) {
    if expiry == ExpiryChange::Keep {
        ctx.data.expire_if_due(key);
    }
    ctx.data.set(key, string_of(value), expiry);
    ctx.changed(EventClass::String, "set", key);
    if matches!(expiry, ExpiryChange::At(_)) {
        ctx.announce(EventClass::Generic, "expire", key);
    }
}
