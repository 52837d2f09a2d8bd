//! Differential trials: several servers receive the same random commands and must send identical replies.
//!
//! A seed determines a `sequence` of requests, made from the `grammar` lines of a command family (`families`)
//! with the unusual words of `words`. Each server plays it (`player`), the replies are compared except for
//! legitimate differences (`normal`), and a mismatch is reduced to the fewest requests that still show it
//! (`comparison`). Several connections that block, subscribe, cache or have transactions are an ensemble
//! (`ensembles`, played by `stage`, compared by `published`). `command_table` compares the output of COMMAND
//! INFO. Valkey is the reference server. If a reply differs, that of Redis (the second peer) is reported, too.

pub mod command_table;
pub mod comparison;
pub mod ensembles;
pub mod families;
mod grammar;
pub mod normal;
mod player;
mod published;
mod script_texts;
pub mod sequence;
mod stage;
mod words;
