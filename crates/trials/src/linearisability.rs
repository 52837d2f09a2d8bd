//! Linearisability trials: many clients at once, and a search for an order of their commands that explains every answer.
//!
//! Clients record what they asked and were told, with the times between which it must have happened (`recorder`).
//! `search` looks for an order that fits these times and the sequential store: of strings (`store`) or of `collections`. Commands of one key are searched key by
//! key, which allows long histories; commands of several keys together, in short ones. `invariants` runs much longer and
//! checks less: what must be true of every answer whatever the order; `expiries` are searched like strings. `transfers` and `queues` do so for transactions and
//! for commands that wait, of every type.

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
