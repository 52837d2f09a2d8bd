//! Dialogues with the hash commands.

mod change;
mod expiry;
mod pick;
mod read;
mod setex;
