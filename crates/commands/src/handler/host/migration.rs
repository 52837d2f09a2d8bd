//! Sending keys to another server (`MIGRATE`).

use std::time::Duration;

use crate::error::CommandError;
use crate::session::Session;

/// Connections to other servers, to which keys are sent.
pub trait Migrations {
    /// Begins to connect to another server, without waiting for the network. Each step of the transfer ends the session's wait for [`BlockReason::Transfer`](crate::session::BlockReason::Transfer).
    ///
    /// # Errors
    /// If there are too many transfers, or no thread can be started.
    fn begin_transfer(
        &self,
        target: TransferTarget,
        session: &Session,
    ) -> Result<Box<dyn Transfer>, CommandError>;
}

/// The server that keys are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferTarget {
    /// Name or address.
    pub host: Vec<u8>,
    /// Port, as the client wrote it.
    pub port: Vec<u8>,
    /// The database there.
    pub db: i64,
    /// How long each network operation may take.
    pub timeout: Duration,
    /// The arguments of `AUTH`; empty: the connection is not authenticated.
    pub credentials: Vec<Vec<u8>>,
}

/// A transfer under way.
pub trait Transfer: Send {
    /// Sends requests in RESP, each of which has a reply of one line. Called once, after [`TransferStep::Connected`].
    fn send(&mut self, requests: Vec<u8>, count: usize);
    /// Returns the result of the current step, once; `None`: the step has not ended.
    fn take_step(&mut self) -> Option<TransferStep>;
}

/// The end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStep {
    /// The connection is established.
    Connected,
    /// The connection failed: the text of the error.
    NotConnected(String),
    /// The requests were sent.
    Sent {
        /// For each request, whether the server has confirmed it. Shorter if the connection ended.
        confirmed: Vec<bool>,
        /// The text of the first error.
        error: Option<String>,
    },
}
