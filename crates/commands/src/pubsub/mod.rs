//! Publish and subscribe: messages to whoever listens, on channels that exist as long as somebody does.
//!
//! | file | has |
//! |---|---|
//! | `subscribe.rs` | the commands that begin and end listening |
//! | `publish.rs` | `PUBLISH`, `SPUBLISH` |
//! | `introspection.rs` | `PUBSUB` |

pub mod introspection;
pub mod publish;
pub mod subscribe;
