//! The connection of an attempt, used by one thread that waits for it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use os::clock::Uptime;
use reactor::{CloseMode, CloseReason, ConnectionId, Event, Reactor, Socket};
use tls::Progress;

/// The longest wait without a check whether the attempt is given up.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Output is encrypted in portions of this size, in bytes.
const PORTION_SIZE: usize = 64 << 10;

/// Why a connection can't be used any more.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The server ends, or has another role or primary.
    #[error("the attempt is given up")]
    GivenUp,
    /// Nothing has arrived for too long.
    #[error("timed out")]
    TimedOut,
    /// The connection.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// See the module documentation.
pub struct Wire<'a> {
    reactor: &'a mut Reactor,
    is_given_up: &'a dyn Fn() -> bool,
    id: ConnectionId,
    encryption: Option<Box<tls::Stream>>,
    /// Plain bytes that have arrived.
    pub input: Vec<u8>,
    is_connected: bool,
    /// Why it has ended: each further turn fails.
    ended: Option<io::Error>,
    detached: Option<(Socket, Vec<u8>)>,
    /// Returns after how long without input it times out.
    timeout: &'a dyn Fn() -> Duration,
    active_at: Uptime,
}

/// A connection without a thread that waits for it.
pub struct Parts {
    /// The connection.
    pub socket: Socket,
    /// Its TLS; `None`: its bytes are plain.
    pub encryption: Option<Box<tls::Stream>>,
    /// Plain bytes that have arrived.
    pub plain: Vec<u8>,
    /// Bytes after them, not decrypted.
    pub unread: Vec<u8>,
}

impl<'a> Wire<'a> {
    /// Connects to the first of these addresses that accepts it, from an address of the own machine, if one of the same family is
    /// given.
    ///
    /// # Errors
    /// Of the last address; it takes too long.
    pub fn connect(
        reactor: &'a mut Reactor,
        is_given_up: &'a dyn Fn() -> bool,
        addresses: &[SocketAddr],
        source: Option<IpAddr>,
        certificates: Option<&Arc<tls::Context>>,
        timeout: &'a dyn Fn() -> Duration,
    ) -> Result<Self, WireError> {
        let mut addresses = addresses.iter();
        let id = begin(reactor, &mut addresses, source)?;
        let mut wire = Self {
            reactor,
            is_given_up,
            id,
            encryption: None,
            input: Vec::new(),
            is_connected: false,
            ended: None,
            detached: None,
            timeout,
            active_at: Uptime::now(),
        };
        while !wire.is_connected {
            match wire.turn(CHECK_INTERVAL) {
                Err(WireError::Io(_)) if !addresses.as_slice().is_empty() => {
                    wire.id = begin(wire.reactor, &mut addresses, source)?;
                    (wire.ended, wire.active_at) = (None, Uptime::now());
                }
                turned => turned?,
            }
        }
        if let Some(certificates) = certificates {
            let stream =
                tls::Stream::to_server(certificates).map_err(|error| io::Error::other(error.to_string()))?;
            wire.encryption = Some(Box::new(stream));
            wire.decrypt(&mut [])?;
            while wire.encryption.as_ref().is_some_and(|stream| stream.is_handshaking()) {
                wire.turn(CHECK_INTERVAL)?;
            }
        }
        Ok(wire)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Of TLS.
    pub fn send(&mut self, bytes: Vec<u8>) -> Result<(), WireError> {
        match &mut self.encryption {
            None => self.reactor.send(self.id, bytes),
            Some(stream) => {
                stream.queue(bytes);
                let (mut scratch, mut out) = (Vec::new(), Vec::new());
                while stream.queued_size() > 0 && !stream.is_handshaking() {
                    let encrypted = stream.encrypt_queued(PORTION_SIZE, &mut scratch, &mut out);
                    encrypted.map_err(|error| io::Error::other(error.to_string()))?;
                    self.reactor.send(self.id, std::mem::take(&mut out));
                }
            }
        }
        Ok(())
    }

    /// Waits until input has arrived.
    ///
    /// # Errors
    /// The connection has ended, nothing arrives, or the attempt is given up.
    pub fn receive(&mut self) -> Result<(), WireError> {
        let before = self.input.len();
        while self.input.len() == before {
            self.turn(CHECK_INTERVAL)?;
        }
        Ok(())
    }

    /// After how long without input it times out.
    pub fn timeout(&self) -> Duration {
        (self.timeout)()
    }

    /// Waits for input, at most for this time.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_within(&mut self, time: Duration) -> Result<(), WireError> {
        self.turn(time)
    }

    /// Lets the kernel keep what arrives from now on.
    pub fn pause(&mut self) {
        self.reactor.pause_receive(self.id);
    }

    /// Receives again, after [`Self::pause`].
    pub fn resume(&mut self) {
        self.reactor.resume_receive(self.id);
    }

    /// Waits for a while, and sends what is queued. Nothing times out.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn idle(&mut self, time: Duration) -> Result<(), WireError> {
        self.active_at = Uptime::now();
        match self.turn(time) {
            Err(WireError::GivenUp) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the connection out of the thread's reactor. One whose peer has closed it while receiving was paused can be taken, too.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn into_parts(mut self) -> Result<Parts, WireError> {
        // What is queued leaves before.
        while self.reactor.unsent_bytes(self.id) > 0 {
            self.turn(CHECK_INTERVAL)?;
        }
        self.reactor.detach(self.id);
        loop {
            if let Some((socket, unread)) = self.detached.take() {
                let (encryption, plain) = (self.encryption.take(), std::mem::take(&mut self.input));
                return Ok(Parts { socket, encryption, plain, unread });
            }
            self.turn(CHECK_INTERVAL)?;
        }
    }

    /// Waits for events, and handles them.
    fn turn(&mut self, time: Duration) -> Result<(), WireError> {
        if (self.is_given_up)() {
            return Err(WireError::GivenUp);
        }
        self.check_end()?;
        if Uptime::now() > self.active_at.plus(self.timeout()) {
            return Err(WireError::TimedOut);
        }
        self.reactor.wait(Some(time)).map_err(|error| io::Error::other(error.to_string()))?;
        while let Some(event) = self.reactor.next_event() {
            self.handle(event)?;
        }
        // What has arrived before the end is handled first.
        if self.input.is_empty() { self.check_end() } else { Ok(()) }
    }

    fn check_end(&mut self) -> Result<(), WireError> {
        let Some(error) = self.ended.take() else { return Ok(()) };
        self.ended = Some(error.kind().into());
        Err(error.into())
    }

    fn handle(&mut self, event: Event) -> Result<(), WireError> {
        match event {
            Event::Connected { connection, .. } if connection == self.id => {
                self.is_connected = true;
                self.active_at = Uptime::now();
            }
            Event::Received { connection, mut data, .. } if connection == self.id => {
                self.active_at = Uptime::now();
                match self.encryption.is_some() {
                    false => self.input.extend_from_slice(&data),
                    true => self.decrypt(&mut data)?,
                }
                self.reactor.recycle(data);
            }
            // After `HungUp`, bytes may be left: once receiving is resumed, they come, and then `Eof`.
            Event::Eof { connection, .. } if connection == self.id => {
                self.ended = Some(io::ErrorKind::UnexpectedEof.into());
            }
            Event::Closed { connection, reason, .. } if connection == self.id => {
                self.ended = Some(match reason {
                    CloseReason::Failed(error) | CloseReason::NotConnected(error) => error,
                    CloseReason::Requested => io::ErrorKind::ConnectionAborted.into(),
                });
            }
            Event::Detached { connection, socket, unread, .. } if connection == self.id => {
                self.detached = Some((socket, unread));
            }
            // `HungUp`, or of an earlier connection.
            _ => {}
        }
        Ok(())
    }

    fn decrypt(&mut self, data: &mut [u8]) -> Result<(), WireError> {
        let Some(stream) = &mut self.encryption else { return Ok(()) };
        let mut out = Vec::new();
        let progress = stream.receive(data, &mut self.input, &mut out);
        if !out.is_empty() {
            self.reactor.send(self.id, out);
        }
        match progress {
            Ok(Progress::Closed) => self.ended = Some(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()).into()),
        }
        Ok(())
    }
}

/// Begins to connect to the next address for which that is possible.
fn begin(
    reactor: &mut Reactor,
    addresses: &mut std::slice::Iter<'_, SocketAddr>,
    source: Option<IpAddr>,
) -> io::Result<ConnectionId> {
    let mut failed = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        let source = source.filter(|source| source.is_ipv4() == address.is_ipv4());
        match reactor.connect(*address, source, 0) {
            Ok(id) => return Ok(id),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        self.reactor.close(self.id, CloseMode::Now);
        // The next wait of the thread ends it.
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use reactor::{BackendChoice, ReactorOptions};

    use super::*;

    #[test]
    fn the_next_address_is_taken_if_one_refuses() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (listener, closed) = (listen(), listen());
        let addresses = [closed.local_addr().unwrap(), listener.local_addr().unwrap()];
        drop(closed);
        let (mut reactor, _) = Reactor::new(BackendChoice::Epoll, ReactorOptions::default()).unwrap();
        let (is_given_up, timeout) = (|| false, || Duration::from_secs(60));
        let mut connect = |addresses: &[SocketAddr]| {
            Wire::connect(&mut reactor, &is_given_up, addresses, None, None, &timeout).map(drop)
        };
        connect(&addresses).unwrap();
        listener.accept().unwrap();
        assert!(matches!(connect(&addresses[..1]), Err(WireError::Io(_))));
        assert!(matches!(connect(&[]), Err(WireError::Io(_))));
    }
}
