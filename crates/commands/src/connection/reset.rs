//! `RESET`

use wire::reply::{Protocol, ReplyBuffer};
use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;
use crate::subscriptions::SUBSCRIPTION_KINDS;

/// `RESET`
pub const COMMAND: Command = Command::keyless(
    "reset",
    1,
    Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_AUTH)
        .union(Flags::NO_QUEUE)
        .union(Flags::ALLOW_BUSY)
        .union(Flags::SESSION)
        .union(Flags::FOR_SUBSCRIBERS),
    Doc::new(Group::Connection, "6.2.0", "Resets the connection to the state of a new one."),
    run,
)
.add_categories(Categories::CONNECTION);

/// Unsubscribes from everything without replies. First writes the messages that were published before.
fn end_subscriptions(ctx: &mut Ctx<'_>, out: &mut ReplyBuffer<'_>) {
    for kind in SUBSCRIPTION_KINDS {
        for name in ctx.session.names_of(kind) {
            ctx.host.unsubscribe(ctx.session, kind, &name, out);
        }
    }
}

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if ctx.session.flags.contains(SessionFlags::REPLICA) {
        return Err(CommandError::new("ERR can only reset normal connections"));
    }
    if ctx.session.flags.contains(SessionFlags::MONITOR) {
        ctx.host.monitor(ctx.session, false);
    }
    let mut reply = reply.parts();
    end_subscriptions(ctx, &mut reply);
    let redirects = ctx.session.redirects();
    ctx.session.reset(&ctx.host.users());
    if redirects {
        ctx.host.redirect(ctx.session, None);
    }
    ctx.host.publish(ctx.session);
    reply.set_protocol(Protocol::Resp2);
    reply.simple("RESET");
    Ok(reply.done())
}
