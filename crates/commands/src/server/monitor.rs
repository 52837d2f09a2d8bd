//! `MONITOR`

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;

/// `MONITOR`
pub const COMMAND: Command = Command::keyless(
    "monitor",
    1,
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::SESSION),
    Doc::new(Group::Server, "1.0.0", "Streams every command that the server processes to this connection.")
        .complexity("O(1)"),
    run,
);

fn run(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if ctx.session.flags.contains(SessionFlags::IN_EXEC) {
        return Err(CommandError::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    // A repeated MONITOR gets no reply, as in Redis.
    if ctx.session.flags.contains(SessionFlags::MONITOR) {
        return Ok(reply.nothing());
    }
    ctx.session.flags.insert(SessionFlags::MONITOR);
    ctx.host.monitor(ctx.session, true);
    Ok(reply.ok())
}
