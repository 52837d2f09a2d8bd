//! Dialogues with the commands about the server.

mod acl;
mod command;
mod config;
mod observed;
