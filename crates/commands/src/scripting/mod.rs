//! Scripts and functions: `EVAL`, `EVALSHA`, `SCRIPT`, `FCALL`, `FUNCTION`.
//!
//! The interpreter is the server's ([`crate::host::Scripting`]); these files hold the grammar and the replies. Start
//! reading at `eval.rs`.

pub mod eval;
pub mod fcall;
pub mod function;
pub mod script;
