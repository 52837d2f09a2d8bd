//! `HTTL`, `HPTTL`, `HEXPIRETIME` and `HPEXPIRETIME`

use collections::Hash;
use wire::request::Args;

use super::{FIELDS, fields};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HTTL key FIELDS numfields field [field ...]`
pub const HTTL: Command = Command {
    name: "httl",
    arity: -5,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: doc("Returns the remaining time to live of hash fields in seconds."),
    subcommands: &[],
    run: |ctx, args, reply| {
        let now = ctx.now().0;
        answer(ctx, args, reply, |at| ((at - now).max(0) + 500) / 1000)
    },
};

/// `HPTTL key FIELDS numfields field [field ...]`
pub const HPTTL: Command = Command {
    name: "hpttl",
    doc: doc("Returns the remaining time to live of hash fields in milliseconds."),
    run: |ctx, args, reply| {
        let now = ctx.now().0;
        answer(ctx, args, reply, |at| (at - now).max(0))
    },
    ..HTTL
};

/// `HEXPIRETIME key FIELDS numfields field [field ...]`
pub const HEXPIRETIME: Command = Command {
    name: "hexpiretime",
    doc: doc("Returns the expiration times of hash fields as Unix timestamps in seconds."),
    run: |ctx, args, reply| answer(ctx, args, reply, |at| at.saturating_add(500) / 1000),
    ..HTTL
};

/// `HPEXPIRETIME key FIELDS numfields field [field ...]`
pub const HPEXPIRETIME: Command = Command {
    name: "hpexpiretime",
    doc: doc("Returns the expiration times of hash fields as Unix timestamps in milliseconds."),
    run: |ctx, args, reply| answer(ctx, args, reply, |at| at),
    ..HTTL
};

const ARGS: &[Arg] = &[Arg::key("key", 0), FIELDS];

const fn doc(summary: &'static str) -> Doc {
    Doc::new(Group::Hash, "9.0.0", summary).complexity("O(N) where N is the number of fields.").args(ARGS)
}

/// The reply for a missing field.
pub(super) const NO_FIELD: i64 = -2;

/// The reply for a field without expiry.
pub(super) const NO_EXPIRY: i64 = -1;

fn answer(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    show: impl Fn(i64) -> i64,
) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let fields = fields::after_key(args, CommandError::SYNTAX)?;
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let hash = ctx.find::<Hash>(key)?;
    let mut out = reply.array(fields.len());
    for field in fields.iter() {
        let found = hash.and_then(|hash| hash.find(alloc, field, due));
        out.integer(found.map_or(NO_FIELD, |field| field.expiry.map_or(NO_EXPIRY, &show)));
    }
    Ok(out.done())
}
