//! Running the requests of clients: the context of the handler, and its error. Alone, among plain requests, in a plain
//! transaction, and again for a waiter.

use commands::context::{CommandReport, Ctx};
use commands::host::Host;
use commands::run::{self, RunFor};
use commands::session::Session;
use config::Config;
use keyspace::Latched;
use wire::reply::{Protocol, ReplyBuffer};

use super::CurrentRequest;
use crate::monitoring::statistics::WorkerStatistics;
use crate::shared::Shared;

/// Returns the context for the handler of a request.
#[inline(always)]
pub(super) fn context<'a>(
    (data, effects): (&'a mut Latched<'static>, &'a mut CommandReport),
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
        report: effects,
        hasher: shared.keyspace.hasher(),
    }
}

/// Runs the request of the context and counts its error. Returns whether it failed.
#[inline(always)]
pub(super) fn run_handler(
    ctx: &mut Ctx<'_>,
    (out, protocol): (&mut Vec<u8>, Protocol),
    run_for: RunFor,
    shared: &'static Shared,
    statistics: &WorkerStatistics,
) -> bool {
    let result = run::run(ctx, &mut ReplyBuffer::new(out, protocol), run_for);
    if let Err(error) = &result {
        shared.monitoring.count_failed(statistics, ctx.id, error);
    }
    result.is_err()
}
