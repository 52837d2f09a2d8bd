//! Listening: who is sent what is published, and how it gets there.
//!
//! ```text
//! PUBLISH ──► Hub: which threads have listeners? ──► one mail a thread ──► Ears: which connections? ──► their output
//! ```
//!
//! | file | has |
//! |---|---|
//! | `hub.rs` | what all threads share: for each name the threads that have listeners, and how many |
//! | `ears.rs` | what a thread has: its mail in order, and for each name its connections |
//! | `message.rs` | a message, framed once for all who get it |
//! | `events.rs` | keyspace events become messages |
//! | `invalidation.rs` | those who cache are told what is not valid any more |
//!
//! **Exact counts and order.** A name is locked while somebody publishes to it, begins or ends to listen to it. Whoever
//! publishes posts its mail under that lock, and whoever begins or ends fetches its mail under it: so it knows of each
//! message whether it was published before or after. A connection gets exactly the messages it was counted for, and those
//! published before it stopped come before the answer that it has.

mod ears;
mod events;
mod hub;
mod invalidation;
mod message;

pub use ears::Ears;
pub use events::EventPublisher;
pub use hub::Hub;
pub use invalidation::{Broadcast, Invalidation, give_all};
pub use message::Message;
