//! Dialogues with the commands about the connection itself.

mod client;
mod session;
