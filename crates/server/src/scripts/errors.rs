//! The errors of scripts, in the words of Valkey.

use commands::error::CommandError;
use commands::host::ScriptKind;

/// A refusal of a command or a script.
pub const UNKNOWN_COMMAND: &str = "ERR Unknown command called from script";
/// A refusal of a command or a script.
pub const WRONG_ARITY: &str = "ERR Wrong number of args calling command from script";
/// A refusal of a command or a script.
pub const NOT_IN_SCRIPTS: &str = "ERR This Valkey command is not allowed from script";
/// A refusal of a command or a script.
pub const NOT_IN_SCRIPTS_OF_REDIS: &str = "ERR This Redis command is not allowed from script";
/// A refusal of a command or a script.
pub const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";
/// A refusal of a command or a script.
pub const FUNCTION_NOT_FOUND: CommandError = CommandError::new("ERR Function not found");
/// A refusal of a command or a script.
pub const NO_SCRIPT: CommandError = CommandError::new("NOSCRIPT No matching script.");
/// A refusal of a command or a script.
pub const WRITES: CommandError =
    CommandError::new("ERR Can not execute a script with write flag using *_ro command.");

/// Other scripts run too long.
#[must_use]
pub fn busy(kind: ScriptKind) -> CommandError {
    CommandError::owned(format!(
        "BUSY Valkey is busy running a script. You can only call {} or SHUTDOWN NOSAVE.",
        super::kill_command(kind)
    ))
}

/// The script was killed; `place`: where it was ([`script::RunOutcome::Killed`]).
#[must_use]
pub fn killed(kind: ScriptKind, place: &str) -> CommandError {
    CommandError::owned(format!("ERR Script killed by user with {}.{place}", super::kill_command(kind)))
}
