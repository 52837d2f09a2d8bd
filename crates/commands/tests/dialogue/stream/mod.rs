//! Dialogues with the stream commands.

mod add;
mod group;
mod range;
