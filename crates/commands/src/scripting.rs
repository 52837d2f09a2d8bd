//! Scripts and functions: `EVAL`, `EVALSHA`, `SCRIPT`, `FCALL`, `FUNCTION`.
//!
//! The host runs the interpreter ([`crate::host::Scripting`]); these files parse requests and write replies. Start
//! reading at `eval.rs`.

pub mod eval;
pub mod fcall;
pub mod function;
pub mod script;
