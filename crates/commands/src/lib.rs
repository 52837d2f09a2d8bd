//! Commands: their semantics, in one table and one file for each command or close family.
//!
//! | folder | holds |
//! |---|---|
//! | `string`, `bitmap`, `hyperloglog`, `list`, `set`, `hash`, `sorted_set`, `geo`, `stream` | the commands on that data type |
//! | `generic`, `serialization`, `connection`, `pubsub`, `transaction`, `scripting`, `server` | the commands of that family |
//! | [`table`] | the list of all commands, lookup by name, and the commands that describe the table |
//! | `handler` | the definition of a command, the context of a handler, and the interface that the server implements |
//! | [`acl`] (in `handler`) | users, permissions and the command `ACL` |
//!
//! Depends on protocol and data, but neither on threads nor on files: a handler never accesses a latch, a
//! socket or a file. Start reading at [`command::Command`], then `string/get.rs`, then `string/set.rs`.

mod handler;
pub mod table;

mod bitmap;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod pubsub;
mod scripting;
mod serialization;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transaction;

pub use handler::{
    acl, command, context, declared_replica, doc, error, help, host, identity, migration, reply,
    reply_buffers, resolved_command, run, session, subscriptions, timeout, tracking, walk, word,
};
use handler::{expiry, key_spec, peer_names};
pub use serialization::value_limits;
pub use table::index;
