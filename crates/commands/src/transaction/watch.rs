//! `WATCH` and `UNWATCH`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `WATCH key [key ...]`
///
/// Takes write latches, because the list of watchers is stored in the slot.
pub const WATCH: Command = Command {
    name: "watch",
    arity: -2,
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_MULTI)
        .union(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    access: Access::Write,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(
        Group::Transactions,
        "2.2.0",
        "Watches keys: the next EXEC is aborted if one of them changes.",
    )
    .complexity("O(1) for every key.")
    .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: watch,
};

/// `UNWATCH`
pub const UNWATCH: Command = Command {
    name: "unwatch",
    arity: 1,
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    access: Access::None,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Transactions, "2.2.0", "Stops watching all watched keys of the connection."),
    subcommands: &[],
    run: unwatch,
};

fn watch(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut watching = ctx.session.watching.take().unwrap_or_default();
    // A detected change is final: further keys make no difference.
    if !watching.has_changed() {
        let mut keys = ctx.walk();
        while let Some(key) = keys.next(ctx.data) {
            ctx.data.watch(key, &mut watching);
        }
    }
    ctx.session.watching = Some(watching);
    Ok(reply.ok())
}

fn unwatch(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.unwatch();
    Ok(reply.ok())
}
