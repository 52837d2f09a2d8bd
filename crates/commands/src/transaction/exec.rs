//! `EXEC`: runs the queued commands.
//!
//! Runs under the latches of all queued commands and watched keys, so the transaction is isolated. The error
//! of a failed command is its reply; the following commands still run. If a script pauses, the whole transaction pauses:
//! the handler writes nothing and runs again later, like that of an unfinished command.

use std::ops::ControlFlow;

use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::acl::{DenialContext, DenialEvent};
use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::host::QueuedCost;
use crate::reply::{Replied, Reply};
use crate::run::{self, RunFor};
use crate::session::{PausedExec, Queued, SessionFlags};

/// `EXEC`
pub const COMMAND: Command = Command {
    name: "exec",
    arity: 1,
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::NO_QUEUE)
        .union(Flags::SKIP_COMMANDLOG),
    categories: Categories::TRANSACTION,
    access: Access::Queued,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Transactions, "1.2.0", "Executes the queued commands of a transaction.")
        .complexity("Depends on the commands of the transaction."),
    subcommands: &[],
    run: run_exec,
};

const NOT_BEGUN: CommandError = CommandError::new("ERR EXEC without MULTI");
const REFUSED_BEFORE: CommandError =
    CommandError::new("EXECABORT Transaction discarded because of previous errors.");

fn run_exec(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if let Some(paused) = ctx.session.paused_exec.take() {
        return run_from(ctx, *paused, reply);
    }
    let queue = ctx.session.multi.take().ok_or(NOT_BEGUN)?;
    if ctx.session.flags.contains(SessionFlags::DIRTY_EXEC) {
        ctx.session.flags.remove(SessionFlags::DIRTY_EXEC);
        ctx.unwatch();
        return Err(REFUSED_BEFORE);
    }
    let has_changed = ctx.session.watching.as_ref().is_some_and(|watching| ctx.data.has_changed(watching));
    ctx.unwatch();
    if has_changed {
        return Ok(reply.null_array());
    }
    ctx.session.flags.insert(SessionFlags::IN_EXEC);
    if ctx.records_effects() {
        ctx.data.effects.begin_transaction();
    }
    let exec =
        PausedExec { queue, at: 0, written: Vec::new(), spent_ns: 0, needs_barrier: false, is_orphan: false };
    run_from(ctx, exec, reply)
}

/// Runs the commands of the transaction, from the command whose script has paused on. If a script pauses, nothing is
/// written, and the session keeps the transaction.
fn run_from(ctx: &mut Ctx<'_>, mut exec: PausedExec, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    let begin = out.mark();
    match exec.at {
        0 if exec.written.is_empty() => out.array(exec.queue.len()),
        _ => out.raw(&exec.written),
    }
    let shares = exec.queue.runs_scripts().then(|| ctx.report.shared_replies.accept(false));
    let mut started_ns = ctx.host.uptime_ns().saturating_sub(std::mem::take(&mut exec.spent_ns));
    let mut paused_at = None;
    for (nth, queued) in exec.queue.iter_from(exec.at).enumerate() {
        if exec.is_orphan && concerns_connection(queued) {
            continue;
        }
        if run_queued(ctx, queued, &mut out, &mut started_ns).is_break() {
            paused_at = Some(exec.at + nth);
            break;
        }
    }
    if let Some(shares) = shares {
        ctx.report.shared_replies.accept(shares);
    }
    // The commands of the transaction have recorded their effects.
    ctx.report.is_logged = ctx.records_effects();
    ctx.report.needs_barrier |= exec.needs_barrier;
    if let Some(at) = paused_at {
        exec.at = at;
        exec.written = out.written_since(begin).to_vec();
        exec.spent_ns = ctx.host.uptime_ns().saturating_sub(started_ns);
        exec.needs_barrier = std::mem::take(&mut ctx.report.needs_barrier);
        out.truncate(begin);
        ctx.session.paused_exec = Some(Box::new(exec));
        return Ok(out.done());
    }
    if ctx.data.effects.is_transaction() {
        ctx.data.effects.end_transaction();
    }
    ctx.session.flags.remove(SessionFlags::IN_EXEC);
    ctx.reuse_queue(exec.queue);
    Ok(out.done())
}

/// Whether a command changes nothing but its connection.
fn concerns_connection(queued: Queued<'_>) -> bool {
    let command = queued.found.command;
    command.categories.intersects(Categories::CONNECTION | Categories::PUBSUB)
        && !command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
        && !command.flags.contains(Flags::SELECTS_DB)
}

/// Runs one command of the transaction, and writes its reply. `started_ns` is its start, and is set to its end, which
/// is the start of the next command. `Break`: its script has paused.
fn run_queued(
    ctx: &mut Ctx<'_>,
    queued: Queued<'_>,
    out: &mut ReplyBuffer<'_>,
    started_ns: &mut u64,
) -> ControlFlow<()> {
    let mark = out.mark();
    if ctx.session.unfinished.is_none()
        && let Err(error) = check_queued(ctx, queued)
    {
        out.error(error.text());
        return ControlFlow::Continue(());
    }
    let mut inner = Ctx {
        data: &mut *ctx.data,
        session: &mut *ctx.session,
        config: ctx.config,
        host: ctx.host,
        command: queued.found.command,
        id: queued.found.id,
        planned: queued.keys,
        args: queued.args,
        report: &mut *ctx.report,
        hasher: ctx.hasher,
    };
    let result = run::run(&mut inner, out, RunFor::Part);
    if inner.session.unfinished.is_some() {
        return ControlFlow::Break(());
    }
    // A queued HELLO changes the protocol of the replies after it.
    out.set_protocol(ctx.session.protocol);
    let now_ns = ctx.host.uptime_ns();
    let cost = QueuedCost {
        ns: now_ns.saturating_sub(std::mem::replace(started_ns, now_ns)),
        reply_size: out.written_since(mark).len()
            + ctx.report.shared_replies.parts().size_since(mark.position()),
    };
    ctx.host.record_queued_call(ctx.session, ctx.config, queued, cost, result.as_ref().err());
    ControlFlow::Continue(())
}

/// Checks again that the user may run a command: the permissions, or the user itself, may have changed since it was queued,
/// even by an earlier command of this transaction.
fn check_queued(ctx: &mut Ctx<'_>, queued: Queued<'_>) -> Result<(), CommandError> {
    if ctx.session.login.users_version < ctx.host.users_version() {
        ctx.session.follow_users(&ctx.host.users());
    }
    // The user is deleted. The session has the default user since then, with whose permissions nothing was queued.
    if !ctx.session.login.is_authenticated && !queued.found.command.flags.contains(Flags::NO_AUTH) {
        ctx.host.record_queued_denial(&CommandError::NO_AUTH);
        return Err(CommandError::NO_AUTH);
    }
    let (id, args) = (queued.found.id, queued.args);
    let record = |event: &DenialEvent<'_>| ctx.host.record_denial(ctx.session, event);
    let place = (ctx.session.db, ctx.data.db_count());
    ctx.session.login.user.authorise(id, args, place, DenialContext::Multi, record).map_err(|denial| {
        let error = denial.error_in_exec();
        ctx.host.record_queued_denial(&error);
        error
    })
}
