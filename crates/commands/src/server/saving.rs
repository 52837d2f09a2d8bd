//! `LASTSAVE`, `SAVE`, `BGSAVE`, `BGREWRITEAOF`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::BlockReason;

const WRITES_FILES: Flags = Flags::NO_ASYNC_LOADING.union(Flags::ADMIN).union(Flags::NOSCRIPT);

/// `LASTSAVE`
pub const LASTSAVE: Command = Command::keyless(
    "lastsave",
    1,
    Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    Doc::new(
        Group::Server,
        "1.0.0",
        "Returns the Unix time of the last successful save, or of the server start if there is none.",
    ),
    |ctx, _, reply| Ok(reply.integer(ctx.host.last_save())),
)
.add_categories(Categories::ADMIN.union(Categories::DANGEROUS))
.tips(&["nondeterministic_output"]);

/// `SAVE`
pub const SAVE: Command = Command {
    access: Access::ReadAll,
    ..Command::keyless(
        "save",
        1,
        WRITES_FILES.union(Flags::NO_MULTI),
        Doc::new(Group::Server, "1.0.0", "Saves the dataset to disk synchronously.")
            .complexity("O(N) where N is the number of keys"),
        save,
    )
};

/// `BGSAVE [FORK|FORKLESS] [SCHEDULE|CANCEL]`
pub const BGSAVE: Command = Command {
    access: Access::ReadAll,
    ..Command::keyless(
        "bgsave",
        -1,
        WRITES_FILES,
        Doc::new(Group::Server, "1.0.0", "Saves the dataset to disk in the background.")
            .history(&[("3.2.2", "Takes SCHEDULE."), ("8.1.0", "Takes CANCEL.")])
            .args(&[Arg::one_of(
                "operation",
                &[
                    Arg::word("schedule", "SCHEDULE").since("3.2.2"),
                    Arg::word("cancel", "CANCEL").since("8.1.0"),
                ],
            )
            .optional()]),
        bgsave,
    )
};

/// `BGREWRITEAOF`
pub const BGREWRITEAOF: Command = Command::keyless(
    "bgrewriteaof",
    1,
    WRITES_FILES,
    Doc::new(Group::Server, "1.0.0", "Rewrites the append-only file in the background."),
    |ctx, _, reply| Ok(reply.simple(ctx.host.rewrite_append_only(ctx.session)?)),
);

fn save(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.host.save(ctx.data, ctx.session)?;
    ctx.block(None, BlockReason::Save);
    Ok(reply.nothing())
}

fn bgsave(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (mut may_wait, mut has_method) = (false, false);
    for word in args.tail(1) {
        match word.to_ascii_lowercase().as_slice() {
            b"cancel" if args.len() == 2 => return Ok(reply.simple(ctx.host.cancel_saving()?)),
            b"schedule" if !may_wait => may_wait = true,
            // Both save without fork.
            b"fork" | b"forkless" if !has_method => has_method = true,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    let status = ctx.host.save_in_background(ctx.data, ctx.session, may_wait)?;
    Ok(reply.simple(status))
}
