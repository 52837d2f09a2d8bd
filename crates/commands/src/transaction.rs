//! Transactions: `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.
//!
//! The server queues requests in [`crate::session::Session::multi`] while a transaction is open. Before it
//! runs `EXEC`, it latches all slots of these requests and of the watched keys. Start reading at `exec.rs`.

pub mod exec;
pub mod multi;
pub mod watch;
