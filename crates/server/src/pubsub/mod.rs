//! Listening: who is sent what is published, and how it gets there.
//!
//! ```text
//! PUBLISH ──► Hub: which threads have listeners? ──► one mail a thread ──► LocalSubscriptions: which connections? ──► their output
//! ```
//!
//! | file | has |
//! |---|---|
//! | `hub.rs` | what all threads share: for each name the threads that have listeners, and how many |
//! | `names.rs` | the tables of names: read without a lock |
//! | `local.rs` | what a thread has: its mail in order, and for each name its connections |
//! | `message.rs` | a message, framed once for all who get it |
//! | `events.rs` | keyspace events become messages |
//! | `invalidation.rs` | those who cache are told what is not valid any more |
//!
//! **Exact counts and order.** Audiences are read without a lock, so a message may be counted for an audience that is changing
//! just now. It bears the audience's stamp: whoever began to listen later has a later one, and does not get it. Whoever
//! ends waits a moment, until those are done who may have read the audience with it, and is given what they posted. So a
//! connection gets exactly the messages it was counted for, and those published before it stopped come before the answer
//! that it has. `sync::Passage` is what it waits at, and what is closed while a connection changes its thread.

mod events;
mod hub;
mod invalidation;
mod local;
mod message;
mod names;

pub use events::EventPublisher;
pub use hub::Hub;
pub use invalidation::{Broadcast, Invalidation, give_all};
pub use local::LocalSubscriptions;
pub use message::Message;
