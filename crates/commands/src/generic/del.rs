//! `DEL` and `UNLINK`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DEL key [key ...]`
pub const DEL: Command = Command {
    name: "del",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RM.union(KeyFlags::DELETE))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    doc: Doc::new(Group::Generic, "1.0.0", "Deletes keys and their values.")
        .complexity("O(N) where N is the number of keys; for each that is no string O(M) for its M elements.")
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: del,
};

/// `UNLINK key [key ...]`
pub const UNLINK: Command = Command {
    name: "unlink",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RM.union(KeyFlags::DELETE))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    doc: Doc::new(
        Group::Generic,
        "4.0.0",
        "Deletes keys and frees the memory of large values asynchronously.",
    )
    .complexity("O(1) for each key; a background thread frees the memory of large values.")
    .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: unlink,
};

fn del(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    delete(ctx, ctx.config.lazyfree_lazy_user_del, reply)
}

fn unlink(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    delete(ctx, true, reply)
}

fn delete(ctx: &mut Ctx<'_>, in_background: bool, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut count = 0;
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        if ctx.data.expire_if_due(key) {
            continue;
        }
        let Some(removed) = ctx.data.remove(key) else { continue };
        if in_background && removed.is_costly_to_drop() {
            ctx.host.free_later(1, Box::new(move || drop(removed)));
        }
        ctx.changed(EventClass::Generic, "del", key);
        count += 1;
    }
    Ok(reply.integer(count))
}
