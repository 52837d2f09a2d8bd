//! Dialogues with the commands on keys and databases.

mod databases;
mod delete;
mod expire;
mod keys;
mod object;
mod rename;
mod sort;
mod words;
