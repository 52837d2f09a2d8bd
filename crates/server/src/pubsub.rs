//! Pub/sub: which connections get a published message, and how it is delivered.
//!
//! ```text
//! PUBLISH ──► Hub: which workers have subscribers? ──► one mail each ──► LocalSubscriptions: which connections? ──► their output
//! ```
//!
//! | file | has |
//! |---|---|
//! | `hub.rs` | shared by all workers: for each name the workers with subscribers, and how many |
//! | `channels.rs` | the tables of channels |
//! | `names.rs` | audiences, and the list of patterns, which is read without a lock |
//! | `local.rs` | of one worker: its mail in order, and for each name its connections |
//! | `subscribers.rs` | of one worker: the connections of each name |
//! | `events.rs` | keyspace events as messages |
//! | `invalidation.rs` | invalidations for client-side caching |
//!
//! Unread messages and invalidations are contents of mail: `mail/message.rs`, `mail/invalidation.rs`.
//!
//! **Exact counts and order.** Messages are posted after their audience was read, without a lock, so a message may be counted for an audience
//! that is just changing. It carries the audience's stamp: a later subscription has a later stamp, and does not
//! get the message. An unsubscription waits until the publishers that may have read the old audience are done,
//! and its connection gets their messages. So a connection gets exactly the messages it was counted for, and
//! those published before it unsubscribed precede the reply. `sync::Passage` implements this wait, and is
//! closed while a connection changes its worker.

mod channels;
mod events;
mod hub;
mod invalidation;
mod local;
mod names;
mod subscribers;

pub use events::EventPublisher;
pub use hub::Hub;
pub use invalidation::write_invalidation_of_all;
pub use local::LocalSubscriptions;
