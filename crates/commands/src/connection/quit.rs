//! `QUIT`

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;

/// `QUIT`
pub const COMMAND: Command = Command::keyless(
    "quit",
    -1,
    Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_AUTH)
        .union(Flags::NO_QUEUE)
        .union(Flags::ALLOW_BUSY)
        .union(Flags::SESSION)
        .union(Flags::FOR_SUBSCRIBERS),
    Doc::new(Group::Connection, "1.0.0", "Closes the connection after its pending replies are sent."),
    run,
)
.add_categories(Categories::CONNECTION);

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.session.flags.insert(SessionFlags::CLOSE_AFTER_REPLY);
    Ok(reply.ok())
}
