//! The configuration: `redis.conf` text, command line and `CONFIG GET/SET/REWRITE`, compatible with Redis and
//! Valkey.
//!
//! Owns the one table of directives (`table.rs`) and the struct of plain fields generated from it, [`Config`].
//! The server publishes a `Config` as an immutable snapshot behind an `Arc`.
//!
//! Never does I/O outside [`disk`], starts a thread, or implements a directive's meaning. It reports which
//! fields changed; the code that reads a field applies the change.
//! Start reading at `table.rs`, then `load.rs`, `set.rs`, `get.rs`, `rewrite.rs`, `command_line.rs`.

mod admin_access;
mod checks;
mod choices;
mod command_line;
pub mod disk;
mod get;
mod load;
mod quote;
mod rewrite;
mod rule;
mod set;
mod setting;
mod table;
mod title;
mod values;

pub use choices::*;
pub use command_line::{CommandLine, Invocation, UsageError, usage};
pub use load::{
    CommandRename, Files, LinePlace, LoadError, Loaded, NoFiles, Source, UserLine, load, load_text,
};
pub use quote::{UnbalancedQuotes, quoted, split_arguments};
pub use rewrite::{rewrite, rewrite_everything};
pub use rule::Rule;
pub use set::{Change, SetCaller, SetError, is_sensitive};
pub use table::directive::{Directive, Marks, find};
pub use table::{Config, DIRECTIVES, Id};
pub use title::expand_title;
pub use values::*;
