//! Requests that run a script: run again with other latches, continued after a pause, or without a connection.

use std::sync::Arc;

use commands::command::{Access, Flags};
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
use super::{CurrentRequest, Executor, Step};
use crate::connection::Connection;
use crate::faults;
use crate::scripts::ScriptLatches;
use crate::scripts::errors;

impl Executor {
    /// Whether the script that has just run ended without a result, because it needs other latches.
    pub(super) fn must_run_script_again(&mut self, connection: &mut Connection) -> bool {
        match self.scripts.take_rerun_latches() {
            Some(latches) => {
                connection.attempt.script_latches = latches;
                connection.session.command_count -= 1;
                true
            }
            None => {
                if connection.session.unfinished.is_none() {
                    connection.attempt.script_latches = ScriptLatches::Declared;
                }
                false
            }
        }
    }

    /// The flags of a request: those of its command, or those that its script declares.
    pub(super) fn flags_of(&self, found: ResolvedCommand, args: Args<'_>) -> Flags {
        match found.command.access {
            Access::Script { .. } => self.scripts.flags_of(found, args),
            _ => found.command.flags,
        }
    }

    /// Refuses a request whose latch is held by a script that runs too long.
    pub(super) fn refuse_if_busy(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        busy: Busy,
    ) -> Option<Step> {
        let threshold_ms = match planted(faults::EARLY_BUSY) {
            true => 1,
            false => self.settings.config.busy_reply_threshold,
        };
        let kind = self.shared.scripts.running.busy_in(busy.0, threshold_ms)?;
        self.latching.release();
        self.reject(connection, found, &errors::busy(kind));
        Some(Step::Done)
    }

    /// Continues a script that has paused, or holds a request that runs one up. `None`: the request is to begin now.
    pub(super) fn resume_or_hold(
        &mut self,
        connection: &mut Connection,
        request: (ResolvedCommand, Args<'_>, &[PlannedKey]),
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Option<Step> {
        if connection.session.unfinished.is_some() {
            return Some(self.continue_script(connection, request, started, host));
        }
        if self.scripts.is_full() { self.hold_script(connection, request.0) } else { None }
    }

    /// Makes a request that runs a script wait while its worker can pause no further one. When all of the paused ones have run
    /// longer than `busy-reply-threshold`, it is refused. `None`: it runs no script now.
    #[cold]
    fn hold_script(&mut self, connection: &mut Connection, found: ResolvedCommand) -> Option<Step> {
        let session = &connection.session;
        let runs_script = match found.command.access {
            Access::Queued => session.transaction().is_some_and(|queue| {
                queue.iter().any(|queued| matches!(queued.found.command.access, Access::Script { .. }))
            }),
            _ => !session.in_multi(),
        };
        if !runs_script || !self.latching.holds_nothing() || self.is_unauthenticated(connection) {
            return None;
        }
        match self.scripts.busy_if_all(self.settings.config.busy_reply_threshold) {
            Some(kind) => {
                self.reject(connection, found, &errors::busy(kind));
                Some(Step::Done)
            }
            None => Some(self.wait_for_congestion(connection)),
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
        connection: &mut Connection,
        (found, args, keys): (ResolvedCommand, Args<'_>, &[PlannedKey]),
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        self.subscriptions.exchange_late(&mut connection.late_messages);
        let current = CurrentRequest { found, args, keys, size: args.wire_size() };
        self.run(connection, current, started, host)
    }

    /// Handles the end of a connection whose script is paused. A script that has written nothing ends; another one, and a
    /// transaction with a script, is continued.
    pub fn abandon_script(&mut self, session: &mut Session) {
        session.unfinished = None;
        let Some(mut exec) = session.paused_exec.take() else { return self.scripts.abandon(session.id) };
        exec.is_orphan = true;
        let users = self.shared.access.users();
        let (peer, local) = (session.peer.clone(), session.local.clone());
        let mut orphan = Session::new(session.id, peer, local, session.connected_at, &users);
        orphan.last_command = session.last_command;
        orphan.db = session.db;
        orphan.protocol = session.protocol;
        orphan.user = Arc::clone(&session.user);
        orphan.users_version = session.users_version;
        orphan.authenticated = session.authenticated;
        orphan.flags = session.flags & (SessionFlags::IN_EXEC | SessionFlags::NO_TOUCH);
        orphan.paused_exec = Some(exec);
        orphan.unfinished = Some(1);
        self.orphans.push(orphan);
    }

    /// Frees what scripts no longer need.
    pub fn tick_scripts(&self) {
        self.scripts.tick();
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

    /// Continues a transaction without a connection.
    fn continue_transaction(&mut self, session: &mut Session, host: &dyn Host) {
        let Some(id) = session.last_command else { return session.unfinished = None };
        let found =
            ResolvedCommand { command: NUMBERED[usize::from(id.0)].1, id, plan_kind: PlanKind::Other };
        let mut request = ArgsBuf::new();
        request.push(b"exec");
        let current = CurrentRequest { found, args: request.args(), keys: &[], size: 0 };
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
