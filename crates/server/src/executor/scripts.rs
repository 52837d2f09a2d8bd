//! Requests that run a script: run again with other latches, continued after a pause, or without a connection.

use commands::command::{Access, Flags};
use commands::context::PlannedKey;
use commands::host::Host;
use commands::table::Found;
use keyspace::{Busy, Tries};
use os::clock::Ticks;
use wire::request::Args;

use super::plan::Plan;
use super::{CurrentRequest, Executor, Step};
use crate::connection::Connection;
use crate::scripts::ScriptLatches;
use crate::scripts::errors;
use crate::shared::modes::GlobalFlags;

impl Executor {
    /// Whether the script that has just run ended without a result, because it needs other latches.
    pub(super) fn must_run_script_again(&mut self, connection: &mut Connection) -> bool {
        match self.scripts.take_again() {
            Some(latches) => {
                connection.script_latches = latches;
                connection.session.command_count -= 1;
                true
            }
            None => {
                if connection.session.unfinished.is_none() {
                    connection.script_latches = ScriptLatches::Declared;
                }
                false
            }
        }
    }

    /// The flags of a request: those of its command, or those that its script declares.
    pub(super) fn flags_of(&self, found: Found, args: Args<'_>) -> Flags {
        match found.command.access {
            Access::Script { .. } => self.scripts.flags_of(found, args),
            _ => found.command.flags,
        }
    }

    /// Refuses a request whose latch is held by a script that runs too long.
    pub(super) fn refuse_if_busy(
        &mut self,
        connection: &mut Connection,
        found: Found,
        busy: Busy,
    ) -> Option<Step> {
        let threshold_ms = self.settings.config.busy_reply_threshold;
        let kind = self.shared.scripts.running.busy_in(busy.0, threshold_ms)?;
        self.latching.release();
        connection.tries = Tries::default();
        connection.latches_for_writing = false;
        connection.script_latches = ScriptLatches::Declared;
        self.reject(connection, found, &errors::busy(kind));
        Some(Step::Done)
    }

    /// Continues a script that has paused. Nothing refuses it, as it may have written; it waits for the end of a pause of
    /// all clients.
    #[cold]
    pub(super) fn continue_script(
        &mut self,
        connection: &mut Connection,
        plan: &Plan,
        (found, args, keys): (Found, Args<'_>, &[PlannedKey]),
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        if self.flags.is_set(GlobalFlags::ANY_PAUSE)
            && self.is_paused(connection, found, args, self.flags.load())
        {
            return self.wait_for_end_of_pause(connection);
        }
        let current = CurrentRequest { found, args, keys, size: plan.requests.size() };
        self.run(connection, current, started, host)
    }

    /// Continues a script whose connection is gone.
    #[cold]
    pub fn continue_orphan(&mut self, host: &dyn Host) {
        let Some(dirty) = self.scripts.continue_orphan(&mut self.latching) else { return };
        self.effects.dirty += dirty;
        if self.latching.has_ready() {
            self.serve_ready(host);
        }
        self.latching.release();
        self.count_changes();
    }
}
