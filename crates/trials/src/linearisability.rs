//! Linearisability trials: many concurrent clients, and a search for an order of their commands that explains
//! every reply.
//!
//! Clients record commands and replies, with the interval in which each takes effect (`recorder`). `search`
//! searches for an order that fits these intervals and a sequential store: of strings (`store`) or of
//! `collections`. Commands on one key are searched key by key, which allows long histories; commands on
//! several keys are searched together, in short ones. `expiries` are searched like strings. `invariants` runs
//! much longer and checks less: conditions that hold for every reply in any order. `transfers` and `queues`
//! check invariants of transactions and of blocking commands, for every type.

pub mod collections;
pub mod expiries;
pub mod invariants;
pub mod queues;
pub mod recorder;
pub mod search;
#[cfg(test)]
mod simulation;
pub mod store;
pub mod transfers;
