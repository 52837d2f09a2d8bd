//! One connection of the load generator: unsent requests and the parser position in the replies.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::encryption::socket::Socket;
use crate::reply::{ReplySkipper, Tally};

/// A nonblocking connection. The event loop calls [`Connection::flush`] and [`Connection::receive`].
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    outbox: Vec<u8>,
    sent: usize,
    skipper: ReplySkipper,
    /// The beginning of a line whose end hasn't arrived.
    partial: Vec<u8>,
    /// Requests without a reply so far.
    awaited: u64,
}

/// Result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Complete replies.
    pub replies: u64,
    /// Whether the socket has no more input for now.
    pub drained: bool,
}

impl Connection {
    /// Wraps a connected socket.
    pub fn new(socket: Socket) -> io::Result<Self> {
        socket.tcp().set_nodelay(true)?;
        socket.tcp().set_nonblocking(true)?;
        Ok(Self {
            socket,
            outbox: Vec::new(),
            sent: 0,
            skipper: ReplySkipper::default(),
            partial: Vec::new(),
            awaited: 0,
        })
    }

    /// Creates a subscribed connection, which receives messages without requests.
    pub fn listening(socket: Socket) -> io::Result<Self> {
        Ok(Self { awaited: u64::MAX, ..Self::new(socket)? })
    }

    /// Returns the socket, for registration with an event queue.
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        self.socket.tcp()
    }

    /// Returns the number of requests rendered or sent, and not yet answered.
    #[must_use]
    pub const fn awaited(&self) -> u64 {
        self.awaited
    }

    /// Lets `render` append requests to the output of the next [`Connection::flush`]; `render` returns
    /// their number.
    #[inline]
    pub fn enqueue(&mut self, render: impl FnOnce(&mut Vec<u8>) -> u64) -> u64 {
        let count = render(&mut self.outbox);
        self.awaited += count;
        count
    }

    /// Sends as much as the socket accepts; the rest is sent when the socket is writable again.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match self.socket.write(&self.outbox[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => self.sent += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        match self.socket.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    /// Reads once and skips the replies. `inbox` is scratch space, larger than any line.
    #[inline]
    pub fn receive(&mut self, inbox: &mut [u8], tally: &mut Tally) -> io::Result<Received> {
        let before = self.partial.len();
        inbox[..before].copy_from_slice(&self.partial);
        let size = match self.socket.read(&mut inbox[before..]) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received { replies: 0, drained: true });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Received { replies: 0, drained: false });
            }
            Err(error) => return Err(error),
        };
        let input = &inbox[..before + size];
        let replies_before = tally.replies;
        let done = self.skipper.skip(input, tally).map_err(invalid_data)?;
        self.partial.clear();
        self.partial.extend_from_slice(&input[done..]);

        let replies = tally.replies - replies_before;
        self.awaited =
            self.awaited.checked_sub(replies).ok_or_else(|| invalid_data("more replies than requests"))?;
        // A short read of a stream socket means that no input is left; later input triggers a new edge. With TLS it may
        // be the end of a record.
        let drained = before + size < inbox.len() && !self.socket.is_encrypted();
        Ok(Received { replies, drained })
    }
}

fn invalid_data(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
