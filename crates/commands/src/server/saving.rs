//! `LASTSAVE`, `SAVE`, `BGSAVE`, `BGREWRITEAOF`: nothing is written to disk yet, and the replies say so.

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const WRITES_FILES: Flags = Flags::NO_ASYNC_LOADING.union(Flags::ADMIN).union(Flags::NOSCRIPT);

const NO_FILES: CommandError =
    CommandError::new("ERR This version of Broadloom keeps its data in memory only and can't save it");

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
    |ctx, _, reply| Ok(reply.integer(ctx.host.started_at().0 / 1000)),
)
.categories_too(Categories::ADMIN.union(Categories::DANGEROUS))
.tips(&["nondeterministic_output"]);

/// `SAVE`
pub const SAVE: Command = Command::keyless(
    "save",
    1,
    WRITES_FILES.union(Flags::NO_MULTI),
    Doc::new(Group::Server, "1.0.0", "Saves the dataset to disk synchronously.")
        .complexity("O(N) where N is the number of keys"),
    refuse,
);

/// `BGSAVE [SCHEDULE|CANCEL]`
pub const BGSAVE: Command = Command::keyless(
    "bgsave",
    -1,
    WRITES_FILES,
    Doc::new(Group::Server, "1.0.0", "Saves the dataset to disk in the background.")
        .history(&[("3.2.2", "Takes SCHEDULE."), ("8.1.0", "Takes CANCEL.")])
        .args(&[Arg::one_of(
            "operation",
            &[Arg::word("schedule", "SCHEDULE").since("3.2.2"), Arg::word("cancel", "CANCEL").since("8.1.0")],
        )
        .optional()]),
    refuse,
);

/// `BGREWRITEAOF`
pub const BGREWRITEAOF: Command = Command::keyless(
    "bgrewriteaof",
    1,
    WRITES_FILES,
    Doc::new(Group::Server, "1.0.0", "Rewrites the append-only file in the background."),
    refuse,
);

fn refuse(_: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(NO_FILES)
}
