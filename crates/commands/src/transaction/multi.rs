//! `MULTI` and `DISCARD`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;

/// `MULTI`
pub const MULTI: Command = Command {
    name: "multi",
    arity: 1,
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_MULTI)
        .union(Flags::ALLOW_BUSY),
    categories: Categories::TRANSACTION,
    access: Access::None,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Transactions, "1.2.0", "Starts a transaction: the following commands are queued."),
    subcommands: &[],
    run: multi,
};

/// `DISCARD`
pub const DISCARD: Command = Command {
    name: "discard",
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_QUEUE)
        .union(Flags::ALLOW_BUSY),
    doc: Doc::new(Group::Transactions, "2.0.0", "Discards the queued commands of a transaction.")
        .complexity("O(N) where N is the number of queued commands."),
    run: discard,
    ..MULTI
};

const NOT_BEGUN: CommandError = CommandError::new("ERR DISCARD without MULTI");

fn multi(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.session.multi = Some(ctx.report.spare_queue.take().unwrap_or_default());
    Ok(reply.ok())
}

fn discard(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let queue = ctx.session.multi.take().ok_or(NOT_BEGUN)?;
    ctx.reuse_queue(queue);
    ctx.session.flags.remove(SessionFlags::DIRTY_EXEC);
    ctx.unwatch();
    Ok(reply.ok())
}
