//! `PING`

use wire::reply::Protocol;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PING [message]`
pub const COMMAND: Command = Command {
    name: "ping",
    arity: -1,
    flags: Flags::FAST.union(Flags::SHOWS_HEALTH).union(Flags::FOR_SUBSCRIBERS),
    categories: Categories::CONNECTION,
    access: Access::None,
    keys: &[],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    doc: Doc::new(Group::Connection, "1.0.0", "Returns PONG, or the given message.")
        .args(&[Arg::string("message").optional()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    match args.len() {
        // In subscribed mode, the reply has the format of a message.
        1 | 2 if ctx.session.in_subscribed_mode() && ctx.session.protocol == Protocol::Resp2 => {
            let mut out = reply.array(2);
            out.bulk(b"pong");
            out.bulk(args.get(1).unwrap_or_default());
            Ok(out.done())
        }
        1 => Ok(reply.simple("PONG")),
        2 => Ok(reply.bulk(args.at(1))),
        _ => Err(CommandError::wrong_arity("ping")),
    }
}
