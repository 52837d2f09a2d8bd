//! A client connection in the simulation: sends requests, receives complete replies, traces both.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use reactor::simulated::Peer;
use sync::simulation;
use trials::connection::encode;
use trials::reply::{self, Reply};

use crate::observer::Outstanding;

/// Virtual time after which a missing reply is a failure: longer than any stall, pause or blocking command.
const PATIENCE_US: u64 = 120_000_000;

/// A connection with its receive buffer.
pub struct Connection {
    peer: Peer,
    /// Name in the trace.
    name: String,
    pending: Vec<u8>,
    pushed: VecDeque<Vec<Reply>>,
    outstanding: Outstanding,
}

impl Connection {
    /// Connects to a server of the caller's simulation; waits while the server's accept queue is full.
    ///
    /// # Panics
    /// If no socket listens on `address`, or the queue stays full.
    #[must_use]
    pub fn open(address: SocketAddr, name: &str) -> Self {
        for _ in 0..1000 {
            match Self::try_open(address, name) {
                Ok(connection) => return connection,
                Err(error) => {
                    simulation::trace(|| format!("{name}: can't connect: {error}"));
                    simulation::sleep_us(10_000);
                }
            }
        }
        panic!("{name}: the server accepts no connection");
    }

    /// As [`Self::open`], if a server listens.
    ///
    /// # Errors
    /// No socket listens on `address`, or its queue is full.
    pub fn try_open(address: SocketAddr, name: &str) -> io::Result<Self> {
        let peer = Peer::connect(address)?;
        let (pending, pushed, outstanding) = (Vec::new(), VecDeque::new(), Outstanding::new());
        Ok(Self { peer, name: name.to_owned(), pending, pushed, outstanding })
    }

    /// Sends requests, each a list of words, in one write.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn send(&mut self, requests: &[Vec<String>]) -> io::Result<()> {
        simulation::trace(|| format!("{} > {}", self.name, shown(requests)));
        self.outstanding.sent(requests);
        let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
        self.peer.write_all(&bytes, now_us() + PATIENCE_US)
    }

    /// Returns the next reply. Pushes received before it are kept for [`Self::next_push`].
    ///
    /// # Errors
    /// If the connection is closed.
    ///
    /// # Panics
    /// If no reply arrives for a very long time.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let since = self.outstanding.begin_wait();
        loop {
            let (reply, size) = match reply::parse(&self.pending) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.read_more(PATIENCE_US)?;
                    continue;
                }
                Err(error) => panic!("{}: not a reply: {error:?}", self.name),
            };
            self.pending.drain(..size);
            simulation::trace(|| format!("{} < {}", self.name, shown_reply(&reply)));
            match reply {
                Reply::List(b'>', items) => self.pushed.push_back(items),
                reply => {
                    let error = if let Reply::Error(text) = &reply { Some(&text[..]) } else { None };
                    self.outstanding.received(&self.name, since, size, error);
                    return Ok(reply);
                }
            }
        }
    }

    /// Returns the next push message; waits for it.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn receive_push(&mut self) -> io::Result<Vec<Reply>> {
        loop {
            if let Some(push) = self.pushed.pop_front() {
                return Ok(push);
            }
            match reply::parse(&self.pending) {
                Ok(Some((Reply::List(b'>', items), size))) => {
                    self.pending.drain(..size);
                    simulation::trace(|| format!("{} < pushed {}", self.name, shown_replies(&items)));
                    self.pushed.push_back(items);
                }
                Ok(None) => self.read_more(PATIENCE_US)?,
                other => panic!("{}: not a push: {other:?}", self.name),
            }
        }
    }

    /// Returns a push message received before the last reply.
    pub fn next_push(&mut self) -> Option<Vec<Reply>> {
        self.pushed.pop_front()
    }

    /// Sends one request and receives its reply.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn try_call(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.send(&[words.iter().map(|word| (*word).to_owned()).collect()])?;
        self.receive()
    }

    /// Sends one request and receives its reply, on a connection that is never closed by the server.
    ///
    /// # Panics
    /// If the connection is closed.
    pub fn call(&mut self, words: &[&str]) -> Reply {
        let name = self.name.clone();
        self.try_call(words).unwrap_or_else(|error| panic!("{name}: {} fails: {error}", words.join(" ")))
    }

    /// Sends a request whose reply must be `OK`.
    ///
    /// # Panics
    /// If the reply differs.
    pub fn expect_ok(&mut self, words: &[&str]) {
        let reply = self.call(words);
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "{}: {}", self.name, words.join(" "));
    }

    /// Sends a request whose reply is a string.
    ///
    /// # Panics
    /// If the reply has another type.
    pub fn text(&mut self, words: &[&str]) -> String {
        match self.call(words) {
            Reply::Bulk(text) | Reply::Simple(text) | Reply::Number(text) => {
                String::from_utf8_lossy(&text).into_owned()
            }
            other => panic!("{}: {} gives {other:?}", self.name, words.join(" ")),
        }
    }

    /// Sends a request whose reply is a number.
    ///
    /// # Panics
    /// If the reply has another type.
    pub fn number(&mut self, words: &[&str]) -> i64 {
        match self.call(words) {
            Reply::Integer(number) => number,
            other => panic!("{}: {} gives {other:?}", self.name, words.join(" ")),
        }
    }

    /// Shuts down the sending direction.
    pub fn shut_write(&mut self) {
        self.peer.shut_write();
    }

    /// Resets the connection.
    pub fn reset(self) {
        simulation::trace(|| format!("{} resets", self.name));
        self.peer.reset();
    }

    fn read_more(&mut self, patience_us: u64) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match self.peer.read(&mut buffer, now_us() + patience_us) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(size) => {
                self.pending.extend_from_slice(&buffer[..size]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                panic!("{}: no reply arrived in time", self.name)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the virtual microseconds since the start.
#[must_use]
pub fn now_us() -> u64 {
    simulation::monotonic_ns().unwrap_or(0) / 1000
}

fn shown(requests: &[Vec<String>]) -> String {
    requests.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("; ")
}

/// Returns the text of a reply, if it has one.
#[must_use]
pub fn text_of(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bulk(text) | Reply::Simple(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Reply::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn shown_reply(reply: &Reply) -> String {
    match reply {
        Reply::List(_, items) => format!("[{}]", shown_replies(items)),
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Null => "nil".to_owned(),
        // `INFO` contains figures of the process, which is not simulated.
        Reply::Bulk(text) if text.starts_with(b"# ") => "(INFO)".to_owned(),
        other => text_of(other).map_or_else(|| format!("{other:?}"), |text| text.chars().take(200).collect()),
    }
}

fn shown_replies(replies: &[Reply]) -> String {
    replies.iter().map(shown_reply).collect::<Vec<_>>().join(", ")
}
