//! The errors of scripts, in the words of Valkey.

use commands::error::CommandError;
use commands::host::ScriptKind;

pub(super) const UNKNOWN_COMMAND: &str = "ERR Unknown command called from script";
pub(super) const WRONG_ARITY: &str = "ERR Wrong number of args calling command from script";
pub(super) const NOT_IN_SCRIPTS: &str = "ERR This Valkey command is not allowed from script";
pub(super) const NOT_IN_SCRIPTS_OF_REDIS: &str = "ERR This Redis command is not allowed from script";
pub(super) const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";
pub(super) const FUNCTION_NOT_FOUND: CommandError = CommandError::new("ERR Function not found");
pub(super) const NO_SCRIPT: CommandError = CommandError::new("NOSCRIPT No matching script.");
pub(super) const WRITES: CommandError =
    CommandError::new("ERR Can not execute a script with write flag using *_ro command.");
pub(super) const OUT_OF_MEMORY: CommandError = CommandError::new(
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
);

/// Other scripts run too long.
#[must_use]
pub fn busy(kind: ScriptKind) -> CommandError {
    CommandError::owned(format!(
        "BUSY Valkey is busy running a script. You can only call {} or SHUTDOWN NOSAVE.",
        super::kill_command(kind)
    ))
}

/// The script was killed.
pub(super) fn killed(kind: ScriptKind) -> CommandError {
    CommandError::owned(format!("ERR Script killed by user with {}.", super::kill_command(kind)))
}
