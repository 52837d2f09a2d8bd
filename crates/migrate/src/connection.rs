//! A blocking connection to a server: requests in pipelines, complete replies.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use wire::response::{Reply, encode_command};

use crate::address::ServerUrl;
use crate::error::in_seconds;

/// Timeout of a connection attempt to each address of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const READ_SIZE: usize = 64 * 1024;

/// Capacity for received bytes that is kept after a long reply.
const RECEIVED_SIZE_KEPT: usize = 1024 * 1024;

/// How long a connection waits for a server.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimit {
    /// Time without any byte after which a server counts as unreachable.
    pub reply_time_max: Duration,
    /// The end of all waits, while clients of a server are held back.
    pub deadline: Option<Instant>,
}

/// A connection, logged in.
pub struct Connection {
    socket: Socket,
    /// Received bytes; the first `used` of them are read.
    received: Vec<u8>,
    used: usize,
    /// The selected database.
    database: u32,
    wait_limit: WaitLimit,
    /// The timeouts that the socket has.
    read_timeout: Duration,
    write_timeout: Duration,
}

enum Socket {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl WaitLimit {
    /// Returns `time`, or less if the deadline is earlier.
    pub fn at_most(&self, time: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(time, |left| left.min(time))
    }

    /// Returns the maximum time of the next read or write.
    fn left(&self) -> io::Result<Duration> {
        let left = self.at_most(self.reply_time_max);
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "no time is left to wait for its reply"));
        }
        Ok(left)
    }
}

impl Socket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Encrypted(stream) => &stream.sock,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.write_all(bytes),
            Self::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

impl Connection {
    /// Connects and logs in. `encryption` is needed if the URL asks for it.
    ///
    /// # Errors
    /// A refused login has the kind `PermissionDenied` and the server's words.
    pub fn open(
        url: &ServerUrl,
        encryption: Option<&Arc<ClientConfig>>,
        wait_limit: WaitLimit,
    ) -> io::Result<Self> {
        let time = wait_limit.left()?;
        let tcp = connect(url, time.min(CONNECT_TIMEOUT))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(time))?;
        tcp.set_write_timeout(Some(time))?;
        let socket = match encryption.filter(|_| url.is_encrypted) {
            None => Socket::Plain(tcp),
            Some(settings) => {
                let stream = handshake(url, Arc::clone(settings), tcp);
                Socket::Encrypted(Box::new(stream.map_err(|error| timed(error, time))?))
            }
        };
        let mut connection = Self {
            socket,
            received: Vec::new(),
            used: 0,
            database: 0,
            wait_limit,
            read_timeout: time,
            write_timeout: time,
        };
        if url.user.is_some() || url.password.is_some() {
            let password = url.password.as_deref().unwrap_or_default();
            let words = ["AUTH"].into_iter().chain(url.user.as_deref()).chain([password]);
            if let Reply::Error(text) = connection.call(&words.collect::<Vec<_>>())? {
                let text = String::from_utf8_lossy(&text).into_owned();
                return Err(io::Error::new(ErrorKind::PermissionDenied, text));
            }
        }
        Ok(connection)
    }

    /// Sends one request and waits for its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        let mut request = Vec::new();
        encode_command(words, &mut request);
        self.send(&request)?;
        self.receive()
    }

    /// Sets how long later calls wait.
    pub fn limit_waits(&mut self, wait_limit: WaitLimit) {
        self.wait_limit = wait_limit;
    }

    /// Sends encoded requests.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        let time = self.wait_limit.left()?;
        if time != self.write_timeout {
            self.socket.tcp().set_write_timeout(Some(time))?;
            self.write_timeout = time;
        }
        self.socket.write_all(requests).map_err(|error| timed(error, time))
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.parse()? {
                return Ok(reply);
            }
            self.read_more(self.wait_limit.left()?)?;
        }
    }

    /// Returns the next reply if no time of `time` passes without a byte of it.
    pub fn poll(&mut self, time: Duration) -> io::Result<Option<Reply>> {
        loop {
            if let Some(reply) = self.parse()? {
                return Ok(Some(reply));
            }
            match self.read_more(time) {
                Err(error) if is_timeout(&error) => return Ok(None),
                read => read?,
            }
        }
    }

    /// Selects a database, unless it is selected.
    pub fn select(&mut self, database: u32) -> io::Result<()> {
        if self.database == database {
            return Ok(());
        }
        if let Reply::Error(text) = self.call(&["SELECT", &database.to_string()])? {
            return Err(io::Error::other(format!("SELECT {database}: {}", String::from_utf8_lossy(&text))));
        }
        self.database = database;
        Ok(())
    }

    fn parse(&mut self) -> io::Result<Option<Reply>> {
        let parsed = Reply::parse(&self.received[self.used..]);
        let parsed = parsed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let Some((reply, size)) = parsed else { return Ok(None) };
        self.used += size;
        if self.used == self.received.len() {
            self.received.clear();
            self.received.shrink_to(RECEIVED_SIZE_KEPT);
            self.used = 0;
        }
        Ok(Some(reply))
    }

    /// Reads what arrives within this time.
    fn read_more(&mut self, time: Duration) -> io::Result<()> {
        if time != self.read_timeout {
            self.socket.tcp().set_read_timeout(Some(time))?;
            self.read_timeout = time;
        }
        self.received.drain(..self.used);
        self.used = 0;
        let size = self.received.len();
        // A long reply is read in pieces that grow with it.
        self.received.resize(size + READ_SIZE.max(size / 2), 0);
        let read = self.socket.read(&mut self.received[size..]);
        self.received.truncate(size + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(timed(error, time)),
        }
    }
}

/// Names the time in an error of a socket whose timeout has passed.
fn timed(error: io::Error, time: Duration) -> io::Error {
    if error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    io::Error::new(ErrorKind::TimedOut, format!("no reply within {}", in_seconds(time)))
}

/// Whether a wait ended because no byte has arrived in time.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn connect(url: &ServerUrl, time_max: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (url.address.host.as_str(), url.address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time_max) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn handshake(
    url: &ServerUrl,
    settings: Arc<ClientConfig>,
    mut tcp: TcpStream,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let invalid = |error| io::Error::new(ErrorKind::InvalidInput, error);
    let name = ServerName::try_from(url.address.host.clone()).map_err(invalid)?;
    let mut tls = ClientConnection::new(settings, name).map_err(io::Error::other)?;
    while tls.is_handshaking() {
        if tls.complete_io(&mut tcp)? == (0, 0) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(StreamOwned::new(tls, tcp))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_silent_server_is_given_up_in_time() {
        // The kernel accepts the connection.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let url: ServerUrl = format!("redis://{address}").parse().expect("valid");
        let in_ms = Duration::from_millis;
        let limit = WaitLimit { reply_time_max: in_ms(200), deadline: None };
        let mut connection = Connection::open(&url, None, limit).expect("accepted");
        let mut refusal = |limit: WaitLimit| {
            connection.limit_waits(limit);
            let error = connection.call(&["PING"]).expect_err("no reply");
            assert!(is_timeout(&error));
            error.to_string()
        };
        assert_eq!(refusal(limit), "no reply within 0.2 s");
        let long = Duration::from_secs(1000);
        let until = |deadline: Instant| WaitLimit { reply_time_max: long, deadline: Some(deadline) };
        assert!(refusal(until(Instant::now() + in_ms(100))).starts_with("no reply within 0."));
        assert_eq!(refusal(until(Instant::now())), "no time is left to wait for its reply");
    }
}
