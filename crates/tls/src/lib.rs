//! TLS of connections that clients open, and of those that the server opens, as bytes to bytes: rustls between the bytes of a
//! socket and those of RESP.
//!
//! - Owns: certificates and keys as read ([`Context`]), the state of each connection ([`Stream`]), the sessions that
//!   clients may resume.
//! - Touches: files of certificates and keys, only in [`Context::load`] and [`Context::fingerprint`].
//! - Never: sees a socket, a thread or a setting's text in a configuration file.
//! - Invariants: what a peer sends ends in plain bytes or one error; the memory of a connection is bounded, apart from
//!   plain bytes that its owner queues.
//! - Start reading at [`Stream`].

mod certificate;
mod ciphers;
mod context;
mod files;
mod outgoing;
mod peer_server;
mod sessions;
mod settings;
mod stream;

pub use certificate::{CertificateSummary, Identity};
pub use context::Context;
pub use files::LoadError;
pub use peer_server::PeerServer;
pub use settings::{ClientCertificates, Settings};
pub use stream::{Progress, Stream, StreamError};
