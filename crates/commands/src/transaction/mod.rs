//! Transactions: `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.
//!
//! The server queues requests in [`crate::session::Session::multi`] while a transaction is open, and latches all that
//! they need, and all that is watched, before it calls `EXEC`. Start reading at `exec.rs`.

pub mod exec;
pub mod multi;
pub mod watch;
