//! Commands that are expected to take long: before one runs, its connection leaves the worker if others would wait for it,
//! see `worker/scaling.rs`.

use commands::command::Access;
use commands::table::{CommandId, NUMBERED};

use super::Executor;
use super::plan::Plan;
use crate::connection::client::Client;

/// The time in nanoseconds from which on a command takes long.
pub const LONG_COMMAND_NS: u64 = 1_000_000;

/// A command that took long is suspected to for so many executions. One that takes long meanwhile is expected to for as many
/// more: a single one may have waited for its CPU.
const SUSPECTED_COUNT: u8 = 16;

/// The number of keys from which on a command that reads all of them takes long.
const KEY_COUNT_MIN: u64 = 20_000;

/// The commands that took long recently on this worker.
pub struct LongCommands {
    /// Whether connections leave before such commands.
    pub is_on: bool,
    /// For each command, how many executions it is suspected for, and expected for those above [`SUSPECTED_COUNT`].
    suspected: Box<[u8]>,
}

impl Default for LongCommands {
    fn default() -> Self {
        Self { is_on: false, suspected: vec![0; NUMBERED.len()].into() }
    }
}

impl LongCommands {
    /// Records how long a command took.
    #[inline]
    pub(super) fn note(&mut self, id: CommandId, ns: u64) {
        let suspected = &mut self.suspected[usize::from(id.0)];
        *suspected = match (ns >= LONG_COMMAND_NS, *suspected) {
            (true, 0) => SUSPECTED_COUNT,
            (true, _) => 2 * SUSPECTED_COUNT,
            (false, count) => count.saturating_sub(1),
        };
    }

    fn expects(&self, id: CommandId) -> bool {
        self.suspected[usize::from(id.0)] > SUSPECTED_COUNT
    }
}

impl Executor {
    /// Counts a command that has run.
    #[inline]
    pub(super) fn count(&mut self, id: CommandId, ns: u64) {
        self.statistics.ran(id, 1, ns);
        self.long_commands.note(id, ns);
    }

    /// Whether the connection leaves before a request, which it does at most once for each. Then processing ends at that
    /// request.
    #[inline]
    pub(super) fn leaves_before(&self, client: &mut Client, plan: &Plan) -> bool {
        self.long_commands.is_on && self.expects_long(client, plan)
    }

    fn expects_long(&self, client: &mut Client, plan: &Plan) -> bool {
        let Some(command) = plan.command else { return false };
        if std::mem::take(&mut client.attempt.was_expected_long) {
            // It runs here, wherever that is now.
            return false;
        }
        let may_leave = self.latching.holds_nothing()
            && client.session.multi.is_none()
            && client.forwarding.is_none()
            && client.attempt.parts_ns == 0;
        let is_long = || {
            self.long_commands.expects(plan.id)
                || command.access == Access::ReadAll && self.shared.keyspace.key_count() >= KEY_COUNT_MIN
        };
        let leaves = may_leave && is_long();
        client.attempt.was_expected_long = leaves;
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_took_long_twice_is_expected_to_for_some_executions() {
        let mut commands = LongCommands::default();
        let (slow, fast) = (CommandId(3), CommandId(4));
        commands.note(slow, LONG_COMMAND_NS);
        assert!(!commands.expects(slow));
        commands.note(slow, LONG_COMMAND_NS);
        for _ in 0..SUSPECTED_COUNT {
            assert!(commands.expects(slow) && !commands.expects(fast));
            commands.note(slow, LONG_COMMAND_NS - 1);
        }
        assert!(!commands.expects(slow));
    }
}
