//! `FCALL`, `FCALL_RO`: run a function of a library.

use super::eval::{EVAL, READ_KEYS, READING, WRITING, WRITTEN_KEYS};
use crate::command::{Access, Command, ScriptSource};
use crate::doc::{Arg, Doc, Group};

const ARGS: &[Arg] = &[
    Arg::string("function"),
    Arg::integer("numkeys"),
    Arg::key("key", 0).optional().multiple(),
    Arg::string("arg").optional().multiple(),
];

/// `FCALL function numkeys [key ...] [arg ...]`
pub const FCALL: Command = Command {
    name: "fcall",
    flags: WRITING,
    access: Access::Script { source: ScriptSource::Function, reads_only: false },
    keys: &[WRITTEN_KEYS],
    doc: Doc::new(Group::Scripting, "7.0.0", "Runs a function.")
        .complexity("Depends on the function.")
        .args(ARGS),
    ..EVAL
};

/// `FCALL_RO function numkeys [key ...] [arg ...]`
pub const FCALL_RO: Command = Command {
    name: "fcall_ro",
    flags: READING,
    access: Access::Script { source: ScriptSource::Function, reads_only: true },
    keys: &[READ_KEYS],
    doc: Doc { summary: "Runs a function that only reads.", ..FCALL.doc },
    ..FCALL
};
