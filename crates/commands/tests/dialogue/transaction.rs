//! Dialogues with transactions.

mod multi;
mod watch;
