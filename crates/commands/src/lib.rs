//! Commands: their semantics, in one table and one file for each command or close family.
//!
//! | folder | holds |
//! |---|---|
//! | `string`, `bitmap`, `set`, `generic`, `connection`, `pubsub`, `transaction`, `server` | the commands of that family |
//! | [`table`], [`index`] | the list of all commands, and lookup by name |
//! | [`command`] | the definition of a command |
//! | [`context`] | the context of a handler |
//! | [`host`] | the interface that the server implements for commands |
//!
//! Depends on protocol and data, but neither on threads nor on files: a handler never accesses a latch, a
//! socket or the log. Start reading at [`command::Command`], then `string/get.rs`, then `string/set.rs`.

pub mod command;
pub mod context;
pub mod doc;
pub mod error;
pub mod help;
pub mod host;
pub mod identity;
pub mod index;
pub mod reply;
pub mod reply_buffers;
pub mod session;
pub mod subscriptions;
pub mod table;
pub mod timeout;
pub mod tracking;
pub mod walk;
pub mod word;

mod bitmap;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod pubsub;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transaction;
