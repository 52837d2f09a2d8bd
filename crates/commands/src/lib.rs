//! Commands: what each one means, in one table and a file for each command or close family.
//!
//! | folder | holds |
//! |---|---|
//! | `string`, `bitmap`, `set`, `generic`, `connection`, `pubsub`, `transaction`, `server` | the commands of that family |
//! | [`table`], [`index`] | the list of all commands, and finding one by its name |
//! | [`command`] | what a command says of itself |
//! | [`context`] | what a handler is given |
//! | [`host`] | what commands need from the server around them |
//!
//! Knows protocol and data, but neither threads nor files: a handler never touches a latch, a socket or the log.
//! Start reading at [`command::Command`], then `string/get.rs`, then `string/set.rs`.

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
