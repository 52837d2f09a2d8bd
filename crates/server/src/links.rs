//! Links: connections that the server opens to other servers. A worker owns the connection (`worker/links.rs`); a
//! [`LinkProtocol`] decides what is sent, from what happens on it.
//!
//! Other threads reach a link by mail to its worker, with its number. A link stays on its worker, also if the client for
//! which it was opened moves to another one.
//!
//! Touches no socket: events go in, bytes and steps come out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::Socket;
use sync::atomic::{AtomicU64, Ordering};

/// Buffers to be sent, in order.
pub type LinkOutput = Vec<Arc<Vec<u8>>>;

/// Plain bytes that have arrived.
pub struct LinkInput<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether output was left to be sent then.
    pub is_writing: bool,
}

/// What is sent over a link, and what follows from the answers.
pub trait LinkProtocol: Send {
    /// The connection is established, with its TLS.
    fn connected(&mut self, output: &mut LinkOutput) -> LinkStep;
    /// Plain bytes have arrived.
    fn received(&mut self, input: LinkInput<'_>, output: &mut LinkOutput) -> LinkStep;
    /// Another thread has sent [`LinkMail::Notify`].
    fn notified(&mut self, output: &mut LinkOutput) -> LinkStep;
    /// The connection could not be established, has ended or made no progress. It is closed.
    fn failed(&mut self, failure: &LinkFailure) -> LinkStep;
    /// The connection has left the worker, after [`LinkStep::Detach`]. The link has ended.
    fn detached(&mut self, socket: LinkSocket);
    /// As [`Self::detached`], but the peer has sent bytes that the protocol has not seen, so the connection is closed.
    fn discarded(&mut self);
}

/// How a link continues.
#[derive(Debug)]
pub enum LinkStep {
    /// As before.
    Continue,
    /// It waits for events. If nothing is sent or received for the time given, it fails.
    Wait(Option<Duration>),
    /// It waits for [`LinkMail::Addresses`], and then connects, as with [`Self::Connect`].
    AwaitAddresses {
        /// The time to connect to an address.
        connect_timeout: Duration,
        /// The time after which it fails without addresses.
        timeout: Option<Duration>,
    },
    /// It connects to the first of these addresses that accepts within the time given, for each.
    Connect(Vec<SocketAddr>, Duration),
    /// Its connection leaves the worker. Nothing may be left to be sent.
    Detach,
    /// The peer violates the protocol: the connection is closed, and [`LinkProtocol::failed`] decides.
    Fail(io::Error),
    /// It ends, and drops what is not sent.
    Close,
}

/// Why a connection can't be used.
#[derive(Debug)]
pub struct LinkFailure {
    /// The error; `TimedOut` if there was no progress.
    pub error: io::Error,
    /// Whether output was left to be sent.
    pub is_writing: bool,
}

/// An established connection that belongs to no worker.
pub struct LinkSocket {
    /// The connection.
    pub socket: Socket,
    /// Its TLS; `None`: its bytes are plain.
    pub encryption: Option<Box<tls::Stream>>,
}

/// A link to be opened.
pub struct NewLink {
    /// Its number, from [`next_number`].
    pub number: u64,
    /// Its protocol.
    pub protocol: Box<dyn LinkProtocol>,
    /// The certificates for connections that it opens; `None`: their bytes are plain.
    pub certificates: Option<Arc<tls::Context>>,
    /// Its connection.
    pub start: LinkStart,
}

/// How a link gets its connection.
pub enum LinkStart {
    /// It continues an established one.
    Existing(LinkSocket),
    /// It opens one: [`LinkStep::Connect`] or [`LinkStep::AwaitAddresses`].
    Open(LinkStep),
}

/// A message to the worker of a link.
pub enum LinkMail {
    /// Opens a link.
    Open(Box<NewLink>),
    /// The addresses that the link waits for. Ignored if it does not.
    Addresses(u64, io::Result<Vec<SocketAddr>>),
    /// The protocol is to look at what it shares with the sender.
    Notify(u64),
}

/// Returns a number that no other link has.
#[must_use]
pub fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
