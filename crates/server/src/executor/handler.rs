//! Running a command's handler: its context, and the reply of a handler that fails. Used for all requests:
//! alone, among plain requests, in a transaction, and again for a waiter.

use commands::context::{Ctx, Effects};
use commands::error::CommandError;
use commands::host::Host;
use commands::reply::Reply;
use commands::session::Session;
use config::Config;
use keyspace::Latched;
use wire::reply::{Protocol, ReplyBuffer};

use super::CurrentRequest;
use crate::shared::Shared;

/// Returns the context for the handler of a request.
#[inline(always)]
pub(super) fn context<'a>(
    (data, effects): (&'a mut Latched<'static>, &'a mut Effects),
    session: &'a mut Session,
    config: &'a Config,
    host: &'a dyn Host,
    shared: &'static Shared,
    current: CurrentRequest<'a>,
) -> Ctx<'a> {
    Ctx {
        data,
        session,
        config,
        host,
        command: current.found.command,
        id: current.found.id,
        planned: current.keys,
        args: current.args,
        effects,
        hasher: shared.keyspace.hasher(),
    }
}

/// Runs the handler of the request in the context, and records its effects. An error replaces all of its output, and is
/// counted by its code. Returns whether it failed.
#[inline(always)]
pub(super) fn run_handler(
    ctx: &mut Ctx<'_>,
    out: &mut Vec<u8>,
    protocol: Protocol,
    shared: &'static Shared,
) -> bool {
    let mark = out.len();
    ctx.effects.has_emptied = false;
    let (command, args, db, dirty_before) = (ctx.command, ctx.args, ctx.session.db, ctx.effects.dirty);
    let result = (command.run)(ctx, args, Reply::new(ReplyBuffer::new(out, protocol)));
    ctx.effects.log_request(ctx.data, command, args, db, dirty_before);
    let Err(error) = result else { return false };
    ctx.effects.shared_replies.parts().truncate_to(mark);
    out.truncate(mark);
    ReplyBuffer::new(out, protocol).error(error.text());
    shared.monitoring.errors.count(CommandError::code(&error));
    true
}
