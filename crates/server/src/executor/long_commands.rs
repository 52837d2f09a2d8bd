//! Commands that are expected to take long: before one runs, its connection leaves the worker if others would wait for it,
//! see `worker/scaling.rs`.

use commands::command::Access;
use commands::table::{CommandId, NUMBERED};
use wire::request::Parser;

use super::Executor;
use super::plan::Plan;
use crate::connection::client::Client;

/// The time in nanoseconds from which on a command takes long.
pub const LONG_COMMAND_NS: u64 = 1_000_000;

/// After one that took long, so many executions of a command are expected to.
const EXPECTED_COUNT: u8 = 16;

/// The number of keys from which on a command that reads all of them takes long.
const KEY_COUNT_MIN: u64 = 20_000;

/// The commands that took long recently on this worker.
pub struct LongCommands {
    /// Whether connections leave before such commands.
    pub is_on: bool,
    /// For each command, how many executions are expected to take long.
    expected: Box<[u8]>,
}

impl Default for LongCommands {
    fn default() -> Self {
        Self { is_on: false, expected: vec![0; NUMBERED.len()].into() }
    }
}

impl LongCommands {
    /// Records how long a command took.
    #[inline]
    pub(super) fn note(&mut self, id: CommandId, ns: u64) {
        if ns >= LONG_COMMAND_NS {
            self.expected[usize::from(id.0)] = EXPECTED_COUNT;
        } else if self.expected[usize::from(id.0)] > 0 {
            self.expected[usize::from(id.0)] -= 1;
        }
    }

    fn expects(&self, id: CommandId) -> bool {
        self.expected[usize::from(id.0)] > 0
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
        let may_leave = !client.attempt.was_expected_long
            && self.latching.holds_nothing()
            && client.forwarding.is_none()
            && client.attempt.parts_ns == 0;
        let is_long = || {
            self.long_commands.expects(plan.id)
                || command.access == Access::ReadAll && self.shared.keyspace.key_count() >= KEY_COUNT_MIN
        };
        let leaves = may_leave && is_long();
        if leaves {
            client.attempt.was_expected_long = true;
            client.parser = Parser::new();
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_took_long_is_expected_to_for_some_executions() {
        let mut commands = LongCommands::default();
        let (slow, fast) = (CommandId(3), CommandId(4));
        assert!(!commands.expects(slow));
        commands.note(slow, LONG_COMMAND_NS);
        for _ in 0..EXPECTED_COUNT {
            assert!(commands.expects(slow) && !commands.expects(fast));
            commands.note(slow, LONG_COMMAND_NS - 1);
        }
        assert!(!commands.expects(slow));
    }
}
