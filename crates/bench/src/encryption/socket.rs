//! The stream below a connection: a socket, with or without TLS; blocking or not.
//!
//! Invariants of an encrypted socket:
//! 1. A write encrypts new bytes only when all earlier records are sent, so at most one write is buffered.
//! 2. Reads never wait for writes: a server that sends before it receives can't stop both directions.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Returns a socket without TLS.
    #[must_use]
    pub const fn plain(tcp: TcpStream) -> Self {
        Self { tcp, tls: None }
    }

    /// Does the handshake on a blocking socket.
    pub fn encrypted(mut tcp: TcpStream, client: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::from(tcp.peer_addr()?.ip());
        let mut tls = Box::new(ClientConnection::new(client, name).map_err(io::Error::other)?);
        while tls.is_handshaking() {
            if tls.complete_io(&mut tcp)? == (0, 0) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Self { tcp, tls: Some(tls) })
    }

    /// Returns the socket itself, for its options and for event queues.
    #[must_use]
    pub const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether the socket has TLS. Then a short read does not mean that no input is left.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.tcp.read(buffer),
            Some(tls) => read_plain(tls, &mut self.tcp, buffer),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.tcp.write(bytes),
            Some(tls) => write_plain(tls, &mut self.tcp, bytes),
        }
    }

    /// Sends records that the socket has not accepted before.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => send_records(tls, &mut self.tcp),
        }
    }
}

fn read_plain(tls: &mut ClientConnection, tcp: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            // Everything that was received is read.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The end without a `close_notify`, which servers that crash do not send.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        tls.read_tls(tcp)?;
        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}

fn write_plain(tls: &mut ClientConnection, tcp: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_records(tls, tcp)?;
    let size = tls.writer().write(bytes)?;
    match send_records(tls, tcp) {
        // The bytes are accepted; the rest of their records follows with the next write or flush.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(size),
        sent => sent.map(|()| size),
    }
}

fn send_records(tls: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(tcp) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
