//! `FLUSHDB` and `FLUSHALL`

use base::DbIndex;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::{Ctx, EffectArg};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{BlockReason, SessionFlags};
use crate::word::Word;

/// `FLUSHDB [ASYNC | SYNC]`
pub const FLUSHDB: Command = Command {
    name: "flushdb",
    arity: -1,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD),
    categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
    access: Access::WriteAll,
    keys: &[],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    doc: Doc::new(Group::Server, "1.0.0", "Deletes all keys of the selected database.")
        .complexity("O(N) where N is the number of keys of the database.")
        .history(HISTORY)
        .args(ARGS),
    subcommands: &[],
    run: |ctx, args, reply| flush(ctx, Some(ctx.db()), args, reply),
};

/// `FLUSHALL [ASYNC | SYNC]`
pub const FLUSHALL: Command = Command {
    name: "flushall",
    doc: Doc::new(Group::Server, "1.0.0", "Deletes all keys of all databases.")
        .complexity("O(N) where N is the number of keys of all databases.")
        .history(HISTORY)
        .args(ARGS),
    run: |ctx, args, reply| flush(ctx, None, args, reply),
    ..FLUSHDB
};

const HISTORY: &[(&str, &str)] = &[("4.0.0", "Added `ASYNC`."), ("6.2.0", "Added `SYNC`.")];

const ARGS: &[Arg] = &[Arg::one_of(
    "flush-type",
    &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
)
.optional()];

fn flush(
    ctx: &mut Ctx<'_>,
    db: Option<DbIndex>,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let in_background = match (args.get(1), args.len()) {
        (None, _) => ctx.config.lazyfree_lazy_user_flush,
        (Some(word), 2) if word.eq_token("async") => true,
        (Some(word), 2) if word.eq_token("sync") => false,
        _ => return Err(CommandError::SYNTAX),
    };
    let cleared = ctx.data.clear(db);
    ctx.host.invalidate_all();
    let key_count = cleared.key_count;
    ctx.report.dirty += key_count;
    let frees_now = !in_background && (key_count == 0 || ctx.session.flags.contains(SessionFlags::IN_EXEC));
    if frees_now {
        cleared.free();
    } else {
        // Not under the latches. Only `ASYNC` counts as lazy.
        let lazy_count = if in_background { key_count } else { 0 };
        ctx.host.free_later(lazy_count, Box::new(move || cleared.free()));
    }
    let awaits_freeing = !in_background && !frees_now;
    let saves = db.is_none() && ctx.host.flushed_all(ctx.data, ctx.session, awaits_freeing);
    // Logged even if the database was empty, as in Redis.
    let name = if db.is_some() { "FLUSHDB" } else { "FLUSHALL" };
    let arguments = args.tail(1).iter().map(EffectArg::from);
    ctx.record_effect(&[EffectArg::from(name)].into_iter().chain(arguments).collect::<Vec<_>>());
    if saves {
        ctx.block(None, BlockReason::Save);
    } else if awaits_freeing && ctx.host.reply_when_freed(ctx.session) {
        ctx.block(None, BlockReason::Free);
    } else {
        return Ok(reply.ok());
    }
    Ok(reply.nothing())
}
