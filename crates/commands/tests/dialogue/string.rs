//! Dialogues with the string commands.

mod delete;
mod get;
mod getex;
mod incr;
mod lcs;
mod many;
mod range;
mod set;
