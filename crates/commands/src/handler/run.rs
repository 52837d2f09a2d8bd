//! Running the handler of a command: for requests of clients, alone and in transactions, for waiters that are served, and for
//! scripts.

use wire::reply::ReplyBuffer;

use crate::command::Access;
use crate::context::Ctx;
use crate::error::CommandError;
use crate::reply::Reply;

/// What a command is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFor {
    /// A request, which releases its latches afterwards.
    Request,
    /// A transaction or a script, which keeps them. Expired keys that the command has read are deleted at once.
    Part,
}

/// Runs the handler of the request of the context, and records what it has read and changed. An error replaces all of its
/// output. The script of a part may pause: then nothing is recorded yet, and the session is unfinished.
///
/// # Errors
/// The error of the handler, which is also written.
#[inline(always)]
pub fn run(ctx: &mut Ctx<'_>, out: &mut ReplyBuffer<'_>, run_for: RunFor) -> Result<(), CommandError> {
    let mark = out.mark();
    ctx.report.has_emptied = false;
    let (command, args, db, dirty_before) = (ctx.command, ctx.args, ctx.session.db, ctx.report.dirty);
    let result = (command.run)(ctx, args, Reply::new(out.reborrow()));
    // The commands of a script record themselves what they read, and its own keys may not be latched.
    let runs_script = || matches!(command.access, Access::Script { .. });
    if run_for == RunFor::Part && ctx.session.unfinished.is_some() && runs_script() {
        return Ok(());
    }
    if ctx.session.tracking.is_some() && !runs_script() {
        ctx.record_reads();
    }
    if run_for == RunFor::Part {
        ctx.delete_expired_at_once();
    }
    let own_name = ctx.own_name();
    ctx.report.log_request(ctx.data, (command, own_name), args, db, dirty_before);
    if let Err(error) = &result {
        ctx.report.shared_replies.parts().truncate_to(mark.position());
        out.truncate(mark);
        out.error(error.text());
    }
    result.map(drop)
}
