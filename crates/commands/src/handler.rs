//! The interface of handlers: the definition of a command, its context with session and
//! server, and its reply.
//!
//! The lowest layer of the crate: depends on no table and no folder of commands. The command `ACL` is in `acl`, beside the users
//! and permissions that sessions refer to.

pub mod acl;
pub mod command;
pub mod context;
pub mod declared_replica;
pub mod doc;
pub mod error;
pub mod expiry;
pub mod help;
pub mod host;
pub mod identity;
pub mod key_spec;
pub mod migration;
pub mod peer_names;
pub mod reply;
pub mod reply_buffers;
pub mod resolved_command;
pub mod run;
pub mod session;
pub mod subscriptions;
pub mod timeout;
pub mod tracking;
pub mod walk;
pub mod word;
