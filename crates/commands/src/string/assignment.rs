//! Conditionally setting a string key, with or without an expiry: shared by `SET`, its older variants and
//! `MSETEX`.

use collections::{ExpiryChange, NewValue};
use keyspace::Key;

use super::options::Condition;
use crate::context::{Ctx, EventClass};
use crate::error::CommandError;

/// A conditional assignment to a key.
pub(super) struct Assignment<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Its new value.
    pub value: &'a [u8],
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

/// Logs an assignment with its expiry as a Unix time: the request may give it relative to the current time.
pub(super) fn log_assignment(ctx: &mut Ctx<'_>, assignment: &Assignment<'_>) {
    let Assignment { key, value, expiry, .. } = *assignment;
    if let ExpiryChange::At(at) = expiry
        && !ctx.expires_now(at)
    {
        ctx.log(&["SET".into(), key.bytes.into(), value.into(), "PXAT".into(), at.into()]);
    }
}

/// Sets value and expiry of a key, even if the expiry is in the past.
pub(super) fn put(ctx: &mut Ctx<'_>, key: Key<'_>, value: &[u8], expiry: ExpiryChange) {
    if expiry == ExpiryChange::Keep {
        ctx.data.expire_if_due(key);
    }
    ctx.data.set(key, NewValue::Auto(value), expiry);
    ctx.changed(EventClass::String, "set", key);
    if matches!(expiry, ExpiryChange::At(_)) {
        ctx.announce(EventClass::Generic, "expire", key);
    }
}
