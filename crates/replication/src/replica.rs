//! Being a replica, up to the stream: what is sent to the primary, and what its answers mean.

mod answers;
pub mod channel;
pub mod handshake;
pub mod lines;
pub mod snapshot;

pub use channel::{ChannelError, ChannelForm, ChannelHandshake, ChannelPosition, ChannelStep, StreamRequest};
pub use handshake::{Handshake, HandshakeError, HandshakeSettings, HandshakeStep, Request};
pub use snapshot::{SnapshotError, SnapshotFrame, SnapshotStep};
