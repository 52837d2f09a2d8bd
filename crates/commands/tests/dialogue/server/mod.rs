//! Dialogues with the commands about the server.

mod command;
mod config;
mod observed;
