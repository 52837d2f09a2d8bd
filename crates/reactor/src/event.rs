//! What a reactor tells its caller.

use std::io;

use crate::{ConnectionId, ListenerToken, PeerAddress, RecvBuffer, Socket};

/// One thing that happened, from [`Reactor::next_event`](crate::Reactor::next_event). `token` is always the
/// one that the caller gave when the connection was adopted.
#[derive(Debug)]
pub enum Event {
    /// A client connected. The socket belongs to no reactor until one adopts it; dropping it hangs up.
    Accepted {
        /// The listener it came in by.
        listener: ListenerToken,
        /// Non-blocking, closed on exec, with the options inherited from the listener.
        socket: Socket,
        /// The client's address.
        peer: PeerAddress,
    },
    /// Accepting failed, typically for want of file descriptors. The listener rests until a connection closes or
    /// a tenth of a second has passed, then accepts again by itself.
    AcceptError {
        /// The listener concerned.
        listener: ListenerToken,
        /// What the kernel said.
        error: io::Error,
    },
    /// Bytes arrived. Never empty. Comes in stream order, and not while receiving is paused.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// The bytes, to be recycled or dropped soon: buffers are few.
        data: RecvBuffer,
    },
    /// The peer will send no more; it may still read. Comes once, after all received bytes.
    Eof {
        /// The connection, which stays open until it is closed.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
    },
    /// A buffer given to [`Reactor::send`](crate::Reactor::send) is wholly with the kernel.
    ///
    /// Where at most 16 KiB were pending and receiving is not paused, this does not end a wait: it comes with the next event
    /// of another kind, or when the wait times out. So a turn costs one system call. Larger sends report promptly, and can
    /// be used to pace what follows.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// That buffer, emptied, with its capacity, to be used again; without any if it was shared.
        buffer: Vec<u8>,
    },
    /// The connection is gone, with what it had not sent yet.
    Closed {
        /// Names nothing any more.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// Who ended it.
        reason: CloseReason,
    },
    /// The socket is out of this reactor and may be adopted by another one.
    Detached {
        /// Names nothing any more.
        connection: ConnectionId,
        /// The caller's token.
        token: u64,
        /// The live socket.
        socket: Socket,
        /// What was to be sent and is not, in order; the first may be a part of the buffer given.
        unsent: Vec<Vec<u8>>,
        /// What was received and not delivered as [`Event::Received`].
        unread: Vec<u8>,
    },
    /// A [`Waker`](crate::Waker) was used since the last turn.
    Woken,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The caller closed it.
    Requested,
    /// The kernel reported an error: reset by the peer, broken pipe, timed out by keepalive.
    Failed(io::Error),
}
