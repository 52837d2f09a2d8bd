//! `ECHO`

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ECHO message`
pub const COMMAND: Command = Command::keyless(
    "echo",
    2,
    Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    Doc::new(Group::Connection, "1.0.0", "Returns the given message.").args(&[Arg::string("message")]),
    run,
)
.add_categories(Categories::CONNECTION);

fn run(_ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    Ok(reply.bulk(args.at(1)))
}
