//! A command of the table with its number, as the planner finds it.

use crate::command::{Access, Command, Flags, KeySpec};

/// Number of a command or subcommand: its position in the table, with subcommands after their containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u16);

/// A command with its number.
#[derive(Clone, Copy)]
pub struct ResolvedCommand {
    /// The line of the table.
    pub command: &'static Command,
    /// The number of the command.
    pub id: CommandId,
    /// How it is planned.
    pub plan_kind: PlanKind,
}

/// How much planning a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    /// Simple and brief, with one key, the first argument.
    OneKey,
    /// Simple and brief, with keys at positions determined by the number of arguments.
    Keys,
    /// Anything else.
    Other,
}

impl PlanKind {
    /// Returns the kind of a command.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        let is_brief = command.flags.intersects(Flags::FAST | Flags::BRIEF)
            && !command.flags.intersects(Flags::BLOCKING | Flags::SESSION);
        let latches_keys = matches!(command.access, Access::Read | Access::Write) && !command.keys.is_empty();
        match command.keys {
            _ if !is_brief || !latches_keys || !command.subcommands.is_empty() => Self::Other,
            [only] if only.is_first_only() => Self::OneKey,
            specs if specs.iter().all(KeySpec::is_by_count) => Self::Keys,
            _ => Self::Other,
        }
    }
}
