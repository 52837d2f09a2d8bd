//! The events that a reactor reports, and the identifiers and choices of its caller.

use std::io;

use crate::{ConnectionId, PeerAddress, RecvBuffer, Socket};

/// The caller's id for a listener; unique within a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerToken(pub u32);

/// The treatment of queued sends when a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// They are sent first, however long that takes.
    AfterSends,
    /// They are dropped.
    Now,
}

/// One event from [`Reactor::next_event`](crate::Reactor::next_event). `token` is always the value given when
/// the connection was adopted or its connecting began.
#[derive(Debug)]
pub enum Event {
    /// A client connected. The socket belongs to no reactor until it is adopted; dropping it closes the
    /// connection.
    Accepted {
        /// The accepting listener.
        listener: ListenerToken,
        /// Non-blocking, closed on exec, with the options inherited from the listener.
        socket: Socket,
        /// The client's address.
        peer: PeerAddress,
    },
    /// Accepting failed, typically because the process is out of file descriptors. The listener backs off until a
    /// connection closes or a tenth of a second has passed, then resumes.
    AcceptError {
        /// The listener concerned.
        listener: ListenerToken,
        /// The kernel's error.
        error: io::Error,
    },
    /// A connection from [`Reactor::connect`](crate::Reactor::connect) is established.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
    },
    /// Bytes arrived. Never empty. Reported in stream order, and not while receiving is paused.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// The bytes, to be recycled or dropped soon: buffers are scarce.
        data: RecvBuffer,
    },
    /// The peer will send no more data; it may still read. Reported once, after all received bytes.
    Eof {
        /// The connection, which stays open until it is closed.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
    },
    /// The peer has closed the connection, or will send no more data, while receiving is paused. Bytes that it sent
    /// before may be left; once receiving is resumed, they and `Eof` are reported. Reported at most once. A failed
    /// connection has `Closed` instead.
    HungUp {
        /// The connection, which stays open until it is closed.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
    },
    /// The kernel has taken all of a buffer given to [`Reactor::send`](crate::Reactor::send).
    ///
    /// If at most 16 KiB were pending and receiving is not paused, this event does not end a wait: it is
    /// reported with the next event of another kind, or when the wait times out. So a turn costs one system
    /// call. Larger sends report promptly, which lets the caller pace further sends.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// The buffer, cleared, for reuse; without capacity if it was shared.
        buffer: Vec<u8>,
    },
    /// The connection has ended; unsent data is dropped.
    Closed {
        /// No longer refers to a connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// Why it ended.
        reason: CloseReason,
    },
    /// The socket has left this reactor, and another one may adopt it.
    Detached {
        /// No longer refers to a connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// The live socket.
        socket: Socket,
        /// Unsent buffers, in order; the first may be the rest of a partly sent one.
        unsent: Vec<Vec<u8>>,
        /// Bytes received but not delivered as [`Event::Received`].
        unread: Vec<u8>,
    },
    /// A [`Waker`](crate::Waker) was used since the last turn.
    Woken,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// Requested by the caller.
    Requested,
    /// It could not be established: refused, unreachable, or the kernel's own time limit has passed.
    NotConnected(io::Error),
    /// A kernel error: reset by the peer, broken pipe, or keepalive timeout.
    Failed(io::Error),
}
