//! Publish and subscribe: messages to the subscribers of channels. A channel exists as long as it has
//! subscribers.
//!
//! | file | holds |
//! |---|---|
//! | `subscribe.rs` | subscribing and unsubscribing |
//! | `publish.rs` | `PUBLISH`, `SPUBLISH` |
//! | `introspection.rs` | `PUBSUB` |

pub mod introspection;
pub mod publish;
pub mod subscribe;
