//! Dialogues with the stream commands.

mod add;
mod deletion;
mod group;
mod range;
