//! A blocking connection to a server: requests in pipelines, complete replies.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use wire::response::{Reply, encode_command};

use crate::address::ServerUrl;

/// Timeout of a connection attempt to each address of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without any byte after which a server counts as unreachable.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

const READ_SIZE: usize = 64 * 1024;

/// A connection, logged in.
pub struct Connection {
    socket: Socket,
    /// Received bytes; the first `used` of them are read.
    received: Vec<u8>,
    used: usize,
    /// The selected database.
    database: u32,
}

enum Socket {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
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
    pub fn open(url: &ServerUrl, encryption: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let tcp = connect(url)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(REPLY_TIMEOUT))?;
        tcp.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let socket = match encryption.filter(|_| url.is_encrypted) {
            None => Socket::Plain(tcp),
            Some(settings) => Socket::Encrypted(Box::new(handshake(url, Arc::clone(settings), tcp)?)),
        };
        let mut connection = Self { socket, received: Vec::new(), used: 0, database: 0 };
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

    /// Sends encoded requests.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.socket.write_all(requests)
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.parse()? {
                return Ok(reply);
            }
            self.read_more()?;
        }
    }

    /// Returns the next reply if it arrives before the time of [`Self::poll_at_most`] has passed.
    pub fn poll(&mut self) -> io::Result<Option<Reply>> {
        loop {
            if let Some(reply) = self.parse()? {
                return Ok(Some(reply));
            }
            match self.read_more() {
                Err(error) if is_timeout(&error) => return Ok(None),
                read => read?,
            }
        }
    }

    /// Sets the time that [`Self::poll`] waits.
    pub fn poll_at_most(&self, time: Duration) -> io::Result<()> {
        self.socket.tcp().set_read_timeout(Some(time))
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
            self.used = 0;
        }
        Ok(Some(reply))
    }

    fn read_more(&mut self) -> io::Result<()> {
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
            Err(error) => Err(error),
        }
    }
}

/// Whether a read ended because no byte has arrived in time.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn connect(url: &ServerUrl) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (url.address.host.as_str(), url.address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
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
