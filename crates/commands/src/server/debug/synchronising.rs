//! Stopping the process in a full synchronisation: `DEBUG PAUSE-AFTER-FORK` of Valkey, `DEBUG REPL-PAUSE` of Redis.

use wire::request::Args;

use crate::context::Ctx;
use crate::doc::Arg;
use crate::error::CommandError;
use crate::help;
use crate::host::SyncPoint;
use crate::word::Word;

pub(super) const PAUSE_ARGS: &[Arg] = &[Arg::one_of(
    "point",
    &[
        Arg::word("clear", "CLEAR"),
        Arg::word("after-fork", "AFTER-FORK"),
        Arg::word("before-rdb-channel", "BEFORE-RDB-CHANNEL"),
        Arg::word("on-streaming-repl-buf", "ON-STREAMING-REPL-BUF"),
    ],
)];

/// The points of `DEBUG REPL-PAUSE`, and their words.
const POINTS: [(&str, SyncPoint); 3] = [
    ("after-fork", SyncPoint::Snapshot),
    ("before-rdb-channel", SyncPoint::ChannelRequest),
    ("on-streaming-repl-buf", SyncPoint::KeptStream),
];

/// Stops a primary after the beginning of a snapshot, and a replica before it requests the stream.
pub(super) fn pause_after_fork(ctx: &Ctx<'_>, enabled: bool) {
    ctx.host.stop_at(SyncPoint::Snapshot, enabled);
    ctx.host.stop_at(SyncPoint::StreamRequest, enabled);
}

/// Adds a point, or removes all.
pub(super) fn pause_at(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let word = args.at(2);
    if word.eq_token("clear") {
        POINTS.iter().for_each(|(_, point)| ctx.host.stop_at(*point, false));
        return Ok(());
    }
    let point = POINTS.iter().find(|(name, _)| word.eq_token(name));
    let (_, point) = point.ok_or_else(|| help::wrong_subcommand("DEBUG", args.at(1)))?;
    ctx.host.stop_at(*point, true);
    Ok(())
}
