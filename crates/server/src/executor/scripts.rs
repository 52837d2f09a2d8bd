//! Requests that run a script: run again with other latches, continued after a pause, or without a client.

use std::sync::Arc;

use commands::command::Access;
use commands::context::PlannedKey;
use commands::host::Host;
use commands::index::PlanKind;
use commands::run::RunFor;
use commands::session::{Session, SessionFlags};
use commands::table::{NUMBERED, ResolvedCommand};
use keyspace::Busy;
use os::clock::Ticks;
use sync::simulation::planted;
use wire::request::{Args, ArgsBuf};

use super::handler::{context, run_handler};
use super::special_modes::wait_for_congestion;
use super::{CurrentRequest, Executor, Step};
use crate::connection::client::Client;
use crate::faults;
use crate::scripts::ScriptLatches;
use crate::scripts::errors;

impl Executor {
    /// Whether the script that has just run ended without a result, because it needs other latches.
    pub(super) fn must_run_script_again(&mut self, client: &mut Client) -> bool {
        match self.scripts.take_rerun_latches() {
            Some(latches) => {
                client.attempt.script_latches = latches;
                client.session.ran.count -= 1;
                true
            }
            None => {
                if client.session.unfinished.is_none() {
                    client.attempt.script_latches = ScriptLatches::Declared;
                }
                false
            }
        }
    }

    /// Refuses a request whose latch is held by a script that runs too long.
    pub(super) fn refuse_if_busy(
        &mut self,
        client: &mut Client,
        found: ResolvedCommand,
        busy: Busy,
    ) -> Option<Step> {
        let threshold_ms = match planted(faults::EARLY_BUSY) {
            true => 1,
            false => self.settings.config.busy_reply_threshold,
        };
        let kind = self.shared.scripts.running.busy_in(busy.0, threshold_ms)?;
        self.latching.release();
        self.reject(client, found, &errors::busy(kind));
        Some(Step::Done)
    }

    /// Continues a script that has paused, or holds a request that runs one up. `None`: the request is to begin now.
    pub(super) fn resume_or_hold(
        &mut self,
        client: &mut Client,
        request: (ResolvedCommand, Args<'_>, &[PlannedKey]),
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Option<Step> {
        if client.session.unfinished.is_some() {
            return Some(self.continue_script(client, request, started, host));
        }
        if self.scripts.is_full() { self.hold_script(client, request.0) } else { None }
    }

    /// Makes a request that runs a script wait while its worker can pause no further one. When all of the paused ones have run
    /// longer than `busy-reply-threshold`, it is refused. `None`: it runs no script now.
    #[cold]
    fn hold_script(&mut self, client: &mut Client, found: ResolvedCommand) -> Option<Step> {
        let session = &client.session;
        let runs_script = match found.command.access {
            Access::Queued => session.transaction().is_some_and(|queue| {
                queue.iter().any(|queued| matches!(queued.found.command.access, Access::Script { .. }))
            }),
            _ => !session.in_multi(),
        };
        if !runs_script || !self.latching.holds_nothing() || self.is_unauthenticated(client) {
            return None;
        }
        match self.scripts.busy_if_all(self.settings.config.busy_reply_threshold) {
            Some(kind) => {
                self.reject(client, found, &errors::busy(kind));
                Some(Step::Done)
            }
            None => Some(wait_for_congestion(client)),
        }
    }

    /// Whether scripts are paused that may write, alone or in a transaction.
    #[must_use]
    pub fn has_begun_writing_scripts(&self) -> bool {
        !self.orphans.is_empty() || self.scripts.has_begun_to_write()
    }

    /// Continues a script that has paused. Nothing refuses it, as it may have written. A pause of clients waits for its end.
    #[cold]
    fn continue_script(
        &mut self,
        client: &mut Client,
        (found, args, keys): (ResolvedCommand, Args<'_>, &[PlannedKey]),
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        self.subscriptions.exchange_late(&mut client.late_messages);
        let current = CurrentRequest { found, args, keys, size: args.wire_size(), raw: &[] };
        self.run(client, current, started, host)
    }

    /// Handles the end of a connection whose script is paused. A script that has written nothing ends; another one, and a
    /// transaction with a script, is continued.
    pub fn abandon_script(&mut self, session: &mut Session) {
        session.unfinished = None;
        let Some(mut exec) = session.paused_exec.take() else { return self.scripts.abandon(session.id) };
        exec.is_orphan = true;
        let users = self.shared.users.load_full();
        let mut orphan = Session::new(session.id, Arc::clone(&session.endpoints), &users);
        orphan.ran.last = session.ran.last;
        orphan.db = session.db;
        orphan.protocol = session.protocol;
        orphan.login.user = Arc::clone(&session.login.user);
        orphan.login.users_version = session.login.users_version;
        orphan.login.is_authenticated = session.login.is_authenticated;
        orphan.flags = session.flags & (SessionFlags::IN_EXEC | SessionFlags::NO_TOUCH);
        orphan.paused_exec = Some(exec);
        orphan.unfinished = Some(1);
        self.orphans.push(orphan);
    }

    /// Whether there are scripts whose connections are closed.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty() || self.scripts.has_orphans()
    }

    /// Continues scripts whose connections are closed.
    #[cold]
    pub fn continue_orphans(&mut self, host: &dyn Host) {
        if let Some(dirty) = self.scripts.continue_orphan(&mut self.latching) {
            self.effects.dirty += dirty;
            self.end_orphan(host);
        }
        for mut session in std::mem::take(&mut self.orphans) {
            self.continue_transaction(&mut session, host);
            match session.unfinished {
                Some(_) => self.orphans.push(session),
                None => self.end_orphan(host),
            }
        }
    }

    /// Continues a transaction without a client.
    fn continue_transaction(&mut self, session: &mut Session, host: &dyn Host) {
        let Some(id) = session.ran.last else { return session.unfinished = None };
        let found =
            ResolvedCommand { command: NUMBERED[usize::from(id.0)].1, id, plan_kind: PlanKind::Other };
        let mut request = ArgsBuf::new();
        request.push(b"exec");
        let current = CurrentRequest { found, args: request.args(), keys: &[], size: 0, raw: &[] };
        let (data, protocol) = ((&mut *self.latching, &mut self.effects), session.protocol);
        let mut ctx = context(data, session, &self.settings.config, host, self.shared, current);
        let out = (&mut Vec::new(), protocol);
        run_handler(&mut ctx, out, RunFor::Request, self.shared, self.statistics);
        self.effects.shared_replies.parts().truncate_to(0);
        self.effects.needs_barrier = false;
        self.subscriptions.deliver_after_transaction(&mut Vec::new());
    }

    /// Ends a request whose connection is closed: as [`Self::run`], without a reply.
    fn end_orphan(&mut self, host: &dyn Host) {
        if self.latching.has_ready() {
            self.serve_ready(host);
        }
        self.latching.release();
        self.count_changes();
    }
}
