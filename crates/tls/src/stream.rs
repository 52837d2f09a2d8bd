//! TLS of one connection, from the side of its server or of its client.
//!
//! | from | to | by |
//! |---|---|---|
//! | handshake | traffic | [`Stream::receive`], with the peer's last message of the handshake |
//! | traffic | closed by the peer | [`Stream::receive`], with its `close_notify` |
//! | any | failed | an error of [`Stream::receive`] or [`Stream::encrypt`] |
//!
//! Received records are decrypted in the buffer of the reactor. Only an incomplete record is kept.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};

use crate::certificate::Identity;
use crate::context::Context;
use crate::outgoing::Outgoing;

/// The largest plain part of a record, in bytes.
const RECORD_SIZE_MAX: usize = 16 << 10;

/// Maximum overhead of a record over its plain part, in bytes: header, nonce, type and tag; with a margin.
const RECORD_OVERHEAD_MAX: usize = 64;

/// TLS of a connection.
pub struct Stream {
    side: Side,
    /// Bytes that the library has read and not consumed: the beginning of a record or of a message of the handshake.
    /// Each call of the library must pass them again: it keeps offsets into them.
    incoming: Vec<u8>,
    /// Received bytes that wait for the next [`Stream::receive`].
    kept: Vec<u8>,
    outgoing: Outgoing,
    has_failed: bool,
}

/// The side of a connection.
enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Evaluates an expression with the connection of either side.
macro_rules! on_side {
    ($side:expr, $connection:ident => $result:expr) => {
        match $side {
            Side::Server($connection) => $result,
            Side::Client($connection) => $result,
        }
    };
}

/// What both sides have in common, in the library.
trait Connection {
    type Data;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Connection for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

impl Connection for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

/// The state after received bytes were handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake needs more input.
    Handshake,
    /// Plain bytes can be exchanged.
    Traffic,
    /// The peer sends no more.
    Closed,
}

/// The error that ends a connection.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StreamError(#[from] rustls::Error);

impl Stream {
    /// Returns the TLS of a connection that a client has opened.
    ///
    /// # Errors
    /// If the context can't be used; [`Context::load`] normally finds that first.
    pub fn new(context: &Context) -> Result<Self, StreamError> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&context.server))?;
        Ok(Self::of(Side::Server(connection)))
    }

    /// Returns the TLS of a connection that is opened to a server, whose certificate is checked. A first
    /// [`Self::receive`] without data begins the handshake.
    ///
    /// # Errors
    /// There are no authorities to check the server's certificate with.
    pub fn to_server(context: &Context) -> Result<Self, StreamError> {
        let Some(config) = &context.client else {
            let reason = "neither tls-ca-cert-file nor tls-ca-cert-dir has an authority";
            return Err(rustls::Error::General(reason.to_owned()).into());
        };
        // Neither sent nor compared.
        let name = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name)?;
        Ok(Self::of(Side::Client(connection)))
    }

    fn of(side: Side) -> Self {
        Self {
            side,
            incoming: Vec::new(),
            kept: Vec::new(),
            outgoing: Outgoing::default(),
            has_failed: false,
        }
    }

    /// Whether no plain bytes can be exchanged yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        on_side!(&self.side, connection => connection.is_handshaking())
    }

    /// Whether it has ended with an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether an earlier session was resumed.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        on_side!(&self.side, connection => connection.handshake_kind())
            == Some(rustls::HandshakeKind::Resumed)
    }

    /// The names in the peer's certificate; `None`: it has none.
    #[must_use]
    pub fn peer_identity(&self) -> Option<Identity> {
        on_side!(&self.side, connection => connection.peer_certificates())?.first().map(Identity::of)
    }

    /// Keeps received bytes for the next [`Self::receive`].
    pub fn keep(&mut self, data: &[u8]) {
        self.kept.extend_from_slice(data);
    }

    /// Bytes kept for the next [`Self::receive`].
    #[must_use]
    pub fn kept_size(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of memory that it uses, without queued output.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.incoming.capacity() + self.kept.capacity()
    }

    /// Handles received bytes: appends the plain ones to `plain`, and records to be sent to `out`. `out` must also be
    /// sent after an error: it holds the alert.
    ///
    /// # Errors
    /// If the peer violates the protocol, or is refused.
    pub fn receive(
        &mut self,
        data: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, StreamError> {
        if self.has_failed {
            return Err(rustls::Error::HandshakeNotComplete.into());
        }
        if self.incoming.is_empty() && self.kept.is_empty() {
            let (used, progress) = self.read(data, plain, out);
            let progress = progress?;
            self.incoming.extend_from_slice(&data[used..]);
            return Ok(progress);
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.append(&mut self.kept);
        incoming.extend_from_slice(data);
        self.kept = Vec::new();
        let (used, progress) = self.read(&mut incoming, plain, out);
        let progress = progress?;
        // Memory of a long input is not kept for an incomplete record.
        if used < incoming.len() {
            incoming.drain(..used);
            incoming.shrink_to(2 * RECORD_SIZE_MAX);
            self.incoming = incoming;
        }
        Ok(progress)
    }

    /// Handles the records at the beginning of `data`. Also returns the number of bytes consumed.
    fn read(
        &mut self,
        data: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> (usize, Result<Progress, StreamError>) {
        let (used, result) =
            on_side!(&mut self.side, connection => read_records(connection, data, plain, out));
        let progress = match result {
            Ok(is_closed) if is_closed => return (data.len(), Ok(Progress::Closed)),
            Ok(_) if self.is_handshaking() => Progress::Handshake,
            Ok(_) => Progress::Traffic,
            Err(error) => {
                self.has_failed = true;
                // Input that is not TLS gets no alert: its sender would not understand it.
                if !(matches!(error, rustls::Error::InvalidMessage(_)) && self.is_handshaking()) {
                    self.append_alert(&mut data[used..], out);
                }
                return (data.len(), Err(error.into()));
            }
        };
        (used, Ok(progress))
    }

    /// Appends the alert for an error. `data` is the input that is not consumed. It must not be parsed again: the library
    /// treats a second error as an internal one.
    fn append_alert(&mut self, data: &mut [u8], out: &mut Vec<u8>) {
        on_side!(&mut self.side, connection => while connection.wants_write() {
            match connection.process_tls_records(data).state {
                Ok(ConnectionState::EncodeTlsData(mut record)) => {
                    append(out, |room| encode(&mut record, room))
                }
                // Plain bytes before the error are lost with the connection.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
                _ => return,
            }
        });
    }

    /// Queues plain bytes to be sent.
    pub fn queue(&mut self, bytes: Vec<u8>) {
        self.outgoing.push(bytes);
    }

    /// Queues plain bytes to be sent, that may be shared.
    pub fn queue_shared(&mut self, bytes: Arc<Vec<u8>>) {
        self.outgoing.push_shared(bytes);
    }

    /// Plain bytes that are queued.
    #[must_use]
    pub fn queued_size(&self) -> usize {
        self.outgoing.size()
    }

    /// Drops the plain bytes that are queued.
    pub fn drop_queued(&mut self) {
        self.outgoing.clear();
    }

    /// Appends records with bytes from the queue to `out`, until that has `size_max` bytes or nothing is left. Small pieces
    /// are joined in `scratch`. Does nothing during the handshake.
    ///
    /// # Errors
    /// If the keys are used up, or the connection has failed.
    pub fn encrypt_queued(
        &mut self,
        size_max: usize,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), StreamError> {
        while out.len() < size_max && self.outgoing.size() > 0 && !self.is_handshaking() {
            let mut outgoing = std::mem::take(&mut self.outgoing);
            let result = outgoing.take(RECORD_SIZE_MAX, scratch, |bytes| self.encrypt(bytes, out));
            self.outgoing = outgoing;
            result.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Appends records with these bytes to `out`. The queue must be empty, and the handshake done.
    ///
    /// # Errors
    /// As [`Self::encrypt_queued`].
    pub fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), StreamError> {
        let size = plain.len() + plain.len().div_ceil(RECORD_SIZE_MAX) * RECORD_OVERHEAD_MAX;
        self.write(out, size, &Record::Plain(plain))
    }

    /// Appends the record that ends the connection, if the handshake is done.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.has_failed || self.is_handshaking() {
            return;
        }
        // On an error the record is missing, and the peer correctly detects a truncated stream.
        let _ = self.write(out, RECORD_OVERHEAD_MAX, &Record::End);
    }

    fn write(&mut self, out: &mut Vec<u8>, size: usize, record: &Record<'_>) -> Result<(), StreamError> {
        if self.has_failed {
            return Err(rustls::Error::HandshakeNotComplete.into());
        }
        let incoming = &mut self.incoming;
        on_side!(&mut self.side, connection => write_records(connection, incoming, out, size, record))
    }
}

/// What is written.
enum Record<'a> {
    /// Plain bytes, as one or more records.
    Plain(&'a [u8]),
    /// The end of the stream.
    End,
}

impl Record<'_> {
    fn write<Data>(
        &self,
        traffic: &mut WriteTraffic<'_, Data>,
        room: &mut [u8],
    ) -> Result<usize, EncryptError> {
        match self {
            Self::Plain(plain) => traffic.encrypt(plain, room),
            Self::End => traffic.queue_close_notify(room),
        }
    }
}

/// Handles the records at the beginning of `data`. Returns the number of bytes consumed, and whether the peer has closed
/// the stream.
fn read_records<C: Connection>(
    connection: &mut C,
    data: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> (usize, Result<bool, rustls::Error>) {
    let mut used = 0;
    loop {
        let UnbufferedStatus { discard, state, .. } = connection.process(&mut data[used..]);
        let done = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    plain.extend_from_slice(record.payload);
                }
                None
            }
            Ok(ConnectionState::EncodeTlsData(mut record)) => {
                append(out, |room| encode(&mut record, room));
                None
            }
            Ok(ConnectionState::TransmitTlsData(sent)) => {
                sent.done();
                None
            }
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Some(Ok(true)),
            Ok(_) => Some(Ok(false)),
            Err(error) => Some(Err(error)),
        };
        used += discard;
        if let Some(done) = done {
            return (used, done);
        }
    }
}

/// Writes records. `incoming` is the input that is not consumed.
fn write_records<C: Connection>(
    connection: &mut C,
    incoming: &mut Vec<u8>,
    out: &mut Vec<u8>,
    size: usize,
    record: &Record<'_>,
) -> Result<(), StreamError> {
    let mut is_exhausted = false;
    loop {
        let UnbufferedStatus { discard, state, .. } = connection.process(incoming);
        let is_done = match state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                append_sized(out, size, |room| match record.write(&mut traffic, room) {
                    Ok(size) => Ok(size),
                    Err(EncryptError::InsufficientSize(error)) => Err(error.required_size),
                    Err(EncryptError::EncryptExhausted) => {
                        is_exhausted = true;
                        Ok(0)
                    }
                });
                true
            }
            ConnectionState::EncodeTlsData(mut record) => {
                append(out, |room| encode(&mut record, room));
                false
            }
            ConnectionState::TransmitTlsData(sent) => {
                sent.done();
                false
            }
            // The peer's end of input leads to the state for writing, in the next round.
            ConnectionState::PeerClosed => false,
            _ => return Err(rustls::Error::HandshakeNotComplete.into()),
        };
        incoming.drain(..discard);
        if is_done {
            break;
        }
    }
    if is_exhausted { Err(rustls::Error::EncryptError.into()) } else { Ok(()) }
}

/// Writes a record of the protocol itself. `Err`: the size that it needs.
fn encode<Data>(record: &mut EncodeTlsData<'_, Data>, room: &mut [u8]) -> Result<usize, usize> {
    match record.encode(room) {
        Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
        Ok(size) => Ok(size),
        // The record was already encoded.
        Err(_) => Ok(0),
    }
}

/// Appends the bytes that `write` stores in the slice that it receives. `Err`: the size that it needs.
fn append(out: &mut Vec<u8>, write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    append_sized(out, 0, write);
}

/// As [`append`], beginning with a slice of `size` bytes.
fn append_sized(
    out: &mut Vec<u8>,
    mut size: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
) {
    let start = out.len();
    // The second slice has the requested size; a third one is never needed.
    for _ in 0..3 {
        out.resize(start + size, 0);
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return;
            }
            Err(needed) => size = needed,
        }
    }
    out.truncate(start);
}
