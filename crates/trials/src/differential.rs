//! Differential trials: the same random commands to several servers, whose replies must be the same bytes.
//!
//! A seed determines a `sequence` of requests, made from the `grammar` lines of a command family (`families`) with the
//! odd words of `words`. It is played to each server (`player`), the replies are compared after what legitimately
//! differs was taken out (`normal`), and a mismatch is cut down to the fewest requests that still show it (`contest`).
//! Several connections that wait, listen, cache or have transactions are an ensemble (`ensembles`, played by `stage`,
//! compared by `published`). `command_table` compares what COMMAND INFO says. Valkey is the judge; what Redis answers is shown beside it.

pub mod command_table;
pub mod contest;
pub mod ensembles;
pub mod families;
mod grammar;
pub mod normal;
mod player;
mod published;
pub mod sequence;
mod stage;
mod words;
