//! Lua scripts and functions: the interpreter, its sandbox, its libraries, and the conversion of replies.
//!
//! Knows the protocol, but no keys, latches or connections: what a script asks of the server goes through [`Server`].
//! One [`Interpreter`] belongs to one thread. Start reading at [`Interpreter::run`].
//!
//! Invariant: no script can reach a value of the host other than through the functions of the API.

mod bit;
mod checked;
mod cjson;
mod cmsgpack;
mod conversion;
mod failure;
mod interpreter;
mod library;
mod loaded;
mod memory;
mod meter;
mod natives;
mod number;
mod pattern;
mod random;
mod source;
mod stack;
mod strings;
mod structure;

pub use self::conversion::ErrorReply;
pub use self::interpreter::{
    INTERVAL_MAX, Interpreter, InterpreterSettings, LogLevel, RunOutcome, Runnable, Server, Verdict, Version,
};
pub use self::library::{LibraryError, LibraryHeader};
pub use self::loaded::{LoadedFunction, LoadedLibrary};
pub use self::source::{
    Analysis, DigestMap, LibraryAnalysis, ScriptFlags, Shebang, ShebangError, analyse, analyse_library,
    sha1_hex,
};
