//! A blocking connection to a server: sends requests, receives complete replies with their exact bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::reply::{self, Reply};

/// Maximum time of a reply in a trial; a server that is silent for longer counts as hung.
const REPLY_TIME_MAX: Duration = Duration::from_secs(20);

/// One reply: its exact bytes and its parsed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawReply {
    /// The received bytes.
    pub bytes: Vec<u8>,
    /// The parsed reply.
    pub reply: Reply,
}

/// A connection with its unconsumed input.
pub struct Connection {
    stream: TcpStream,
    pending: Vec<u8>,
    wait_time_max: Duration,
}

impl Connection {
    /// Connects, with Nagle's algorithm disabled.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
        stream.set_write_timeout(Some(REPLY_TIME_MAX))?;
        Ok(Connection { stream, pending: Vec::new(), wait_time_max: REPLY_TIME_MAX })
    }

    /// Sets the time after which a silent server counts as hung.
    pub fn wait_at_most(&mut self, wait_time_max: Duration) -> io::Result<()> {
        self.wait_time_max = wait_time_max;
        self.stream.set_read_timeout(Some(wait_time_max))
    }

    /// Whether a reply, as opposed to a push, arrives within `time`. Consumes nothing.
    pub fn has_answer(&mut self, time: Duration) -> io::Result<bool> {
        loop {
            let mut rest = self.pending.as_slice();
            while let Ok(Some((reply, length))) = reply::parse(rest) {
                if !matches!(reply, Reply::List(b'>', _)) {
                    return Ok(true);
                }
                rest = &rest[length..];
            }
            self.stream.set_read_timeout(Some(time))?;
            let more = self.read_more();
            self.stream.set_read_timeout(Some(self.wait_time_max))?;
            match more {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(false);
                }
                more => more?,
            }
        }
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for the next complete reply.
    pub fn receive(&mut self) -> io::Result<RawReply> {
        loop {
            let parsed = reply::parse(&self.pending);
            match parsed.map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed.0))? {
                Some((reply, length)) => {
                    let rest = self.pending.split_off(length);
                    let bytes = std::mem::replace(&mut self.pending, rest);
                    return Ok(RawReply { bytes, reply });
                }
                None => self.read_more()?,
            }
        }
    }

    /// Sends one request and waits for its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<RawReply> {
        self.send(&encode(arguments))?;
        self.receive()
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            length => {
                self.pending.extend_from_slice(&chunk[..length]);
                Ok(())
            }
        }
    }
}

/// Encodes a request as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
