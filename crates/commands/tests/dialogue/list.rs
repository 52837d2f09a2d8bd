//! Dialogues with the list commands.

mod blocking;
mod elements;
mod encoding;
mod ends;
mod moving;
