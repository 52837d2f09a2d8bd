//! Transfers to other servers (`MIGRATE`): a thread for each, as connecting, sending and receiving may take long.
//!
//! | the thread | the session of the client |
//! |---|---|
//! | takes a cached connection, or connects | waits |
//! | waits for the requests | encodes the keys |
//! | sends the requests, reads the replies, keeps the connection | waits |
//! | ends | deletes the confirmed keys, replies |
//!
//! The session is notified of each step as by the end of a save. If the client disconnects, the transfer ends: keys that
//! were sent then exist on both servers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, PoisonError};

use commands::error::CommandError;
use commands::host::{Transfer, TransferStep, TransferTarget};
use os::clock::Uptime;
use sync::Mutex;
use sync::atomic::{AtomicUsize, Ordering};
use sync::mpsc::{self, Receiver, Sender};

use crate::shared::Shared;
use crate::shared::migration_sockets::TargetSocket;

/// Maximum number of concurrent transfers.
const TRANSFER_COUNT_MAX: usize = 64;

/// Maximum size of a line of a reply, in bytes.
const LINE_SIZE_MAX: u64 = 4096;

const TOO_MANY: CommandError = CommandError::new("ERR Too many MIGRATE commands are running");
const NO_THREAD: CommandError = CommandError::new("ERR Can't start a thread for MIGRATE");
const NO_CLIENT: CommandError = CommandError::new("ERR MIGRATE can't run from a file");
const NOT_CONNECTED: &str = "IOERR error or timeout connecting to the client";
const NOT_WRITTEN: &str = "IOERR error or timeout writing to target instance";

/// The number of running transfers.
static TRANSFER_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Requests to send, and their number.
struct Requests {
    bytes: Vec<u8>,
    count: usize,
}

/// A session's side of a transfer.
struct Handle {
    requests: Sender<Requests>,
    step: Arc<Mutex<Option<TransferStep>>>,
}

impl Transfer for Handle {
    fn send(&mut self, bytes: Vec<u8>, count: usize) {
        // Fails if the thread has ended: then `take_step` returns its last step.
        let _ = self.requests.send(Requests { bytes, count });
    }

    fn take_step(&mut self) -> Option<TransferStep> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Begins a transfer for a client.
///
/// # Errors
/// The client has disconnected, too many transfers are running, or a thread can't be started.
pub fn begin(
    shared: &'static Shared,
    target: TransferTarget,
    client: u64,
) -> Result<Box<dyn Transfer>, CommandError> {
    if shared.clients.find(client).is_none() {
        return Err(NO_CLIENT);
    }
    if TRANSFER_COUNT.fetch_add(1, Ordering::Relaxed) >= TRANSFER_COUNT_MAX {
        TRANSFER_COUNT.fetch_sub(1, Ordering::Relaxed);
        return Err(TOO_MANY);
    }
    let (requests, received) = mpsc::channel();
    let step = Arc::new(Mutex::new(None));
    let transfer = TransferThread { shared, target, client, step: Arc::clone(&step) };
    let body = move || {
        transfer.run(&received);
        TRANSFER_COUNT.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(error) = sync::thread::Builder::new().name("migrate".to_owned()).spawn(body) {
        TRANSFER_COUNT.fetch_sub(1, Ordering::Relaxed);
        log::warn!("Can't start a thread for MIGRATE: {error}");
        return Err(NO_THREAD);
    }
    Ok(Box::new(Handle { requests, step }))
}

/// The thread's side of a transfer.
struct TransferThread {
    shared: &'static Shared,
    target: TransferTarget,
    client: u64,
    step: Arc<Mutex<Option<TransferStep>>>,
}

/// The error of a transfer over a connection, and its state at that time.
struct TransferError {
    error: io::Error,
    /// Whether it failed while sending.
    is_writing: bool,
    confirmed: Vec<bool>,
    /// The first error reply.
    first_error: Option<String>,
}

/// The reply if no connection could be opened. As in Valkey, which does not wait for the answer of the target before it
/// writes, a target that refuses is an error of writing.
fn refusal(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable => NOT_WRITTEN,
        _ => NOT_CONNECTED,
    }
}

impl TransferThread {
    fn run(&self, requests: &Receiver<Requests>) {
        let name = [&self.target.host, b":".as_slice(), &self.target.port].concat();
        let cached = self.shared.migration_sockets.take(&name);
        let is_cached = cached.is_some();
        let socket = match cached.map_or_else(|| self.connect(), Ok) {
            Ok(socket) => socket,
            Err(error) => {
                log::debug!("MIGRATE can't connect to {}: {error}", name.escape_ascii());
                return self.end_step(TransferStep::NotConnected(refusal(&error).to_owned()));
            }
        };
        self.end_step(TransferStep::Connected);
        let Ok(requests) = requests.recv() else {
            return self.shared.migration_sockets.keep(name, socket, Uptime::now());
        };
        let mut transferred = self.transfer(socket, &requests);
        // A cached connection may have been closed by the target. Nothing was confirmed, so no key is sent twice.
        if let Err(failure) = &transferred
            && is_cached
            && failure.confirmed.is_empty()
            && failure.first_error.is_none()
            && !is_timeout(&failure.error)
        {
            match self.connect() {
                Ok(socket) => transferred = self.transfer(socket, &requests),
                Err(error) => {
                    return self.end_step(TransferStep::Sent {
                        confirmed: Vec::new(),
                        error: Some(refusal(&error).to_owned()),
                    });
                }
            }
        }
        self.end_step(match transferred {
            Ok((socket, confirmed, first_error)) => {
                self.shared.migration_sockets.keep(name, socket, Uptime::now());
                TransferStep::Sent { confirmed, error: first_error }
            }
            Err(TransferError { error, is_writing, confirmed, first_error }) => {
                log::debug!("MIGRATE to {} failed: {error}", name.escape_ascii());
                let action = if is_writing { "writing" } else { "reading" };
                let failure = format!("IOERR error or timeout {action} to target instance");
                TransferStep::Sent { confirmed, error: first_error.or(Some(failure)) }
            }
        });
    }

    /// Publishes the end of a step, and wakes the client.
    fn end_step(&self, step: TransferStep) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
        self.shared.workers.answer(&self.shared.clients, self.client, b"");
    }

    fn connect(&self) -> io::Result<TargetSocket> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let host = std::str::from_utf8(&self.target.host).map_err(|_| invalid("the host is not text"))?;
        let port = std::str::from_utf8(&self.target.port).ok().and_then(|port| port.parse::<u16>().ok());
        let port = port.ok_or_else(|| invalid("the port is no number up to 65535"))?;
        let mut last = invalid("the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.target.timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(TargetSocket { stream, db: None });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends the requests, and reads a reply for each. Returns which ones are confirmed, and the first error.
    fn transfer(
        &self,
        mut socket: TargetSocket,
        requests: &Requests,
    ) -> Result<(TargetSocket, Vec<bool>, Option<String>), TransferError> {
        let mut confirmed = Vec::new();
        let mut first_error = None;
        let mut is_writing = true;
        let mut exchange = || {
            socket.stream.set_write_timeout(Some(self.target.timeout))?;
            socket.stream.set_read_timeout(Some(self.target.timeout))?;
            let selects = socket.db != Some(self.target.db);
            let (preface, preface_count) = self.preface(selects);
            socket.stream.write_all(&preface)?;
            socket.stream.write_all(&requests.bytes)?;
            is_writing = false;
            // Until the replies are seen.
            socket.db = None;
            let mut reader = BufReader::new(&socket.stream);
            for _ in 0..preface_count {
                record_error(&read_line(&mut reader)?, &mut first_error);
            }
            let is_refused = first_error.is_some();
            for _ in 0..requests.count {
                let line = read_line(&mut reader)?;
                record_error(&line, &mut first_error);
                confirmed.push(!is_refused && !line.starts_with(b"-"));
            }
            Ok(())
        };
        match exchange() {
            Ok(()) => {
                if first_error.is_none() {
                    socket.db = Some(self.target.db);
                }
                Ok((socket, confirmed, first_error))
            }
            Err(error) => Err(TransferError { error, is_writing, confirmed, first_error }),
        }
    }

    /// The requests that precede the transfer, and their number.
    fn preface(&self, selects: bool) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut count = 0;
        if !self.target.credentials.is_empty() {
            let mut args = vec![b"AUTH".as_slice()];
            args.extend(self.target.credentials.iter().map(Vec::as_slice));
            push_request(&args, &mut bytes);
            count += 1;
        }
        if selects {
            push_request(&[b"SELECT", self.target.db.to_string().as_bytes()], &mut bytes);
            count += 1;
        }
        (bytes, count)
    }
}

fn push_request(args: &[&[u8]], bytes: &mut Vec<u8>) {
    bytes.extend(format!("*{}\r\n", args.len()).into_bytes());
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Reads the line of a reply, without its end.
fn read_line(reader: &mut BufReader<&TcpStream>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.by_ref().take(LINE_SIZE_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(b'\n') => {
            line.pop_if(|last| *last == b'\r');
            Ok(line)
        }
        Some(_) => Err(io::Error::other("the reply is no line")),
    }
}

/// Records the first error reply.
fn record_error(line: &[u8], first_error: &mut Option<String>) {
    if let Some(text) = line.strip_prefix(b"-") {
        first_error.get_or_insert_with(|| {
            format!("ERR Target instance replied with error: {}", String::from_utf8_lossy(text))
        });
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
