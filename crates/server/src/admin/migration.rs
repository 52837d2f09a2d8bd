//! Transfers to other servers (`MIGRATE`): the protocol of a link, see `links.rs`.
//!
//! | the link | the session of the client |
//! |---|---|
//! | takes a cached connection, or connects | waits |
//! | waits for the requests | encodes the keys |
//! | sends the requests, reads the replies, keeps the connection | waits |
//! | ends | deletes the confirmed keys, replies |
//!
//! The session is notified of each step as by the end of a save, wherever it is by then. If the client is closed
//! meanwhile, keys that were sent exist on both servers. After an orderly end of its connection its requests are still served.
//!
//! The names of hosts are resolved on a thread, as that blocks.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, PoisonError};

use commands::error::CommandError;
use commands::host::{Transfer, TransferStep, TransferTarget};
use os::clock::Uptime;
use sync::Mutex;
use sync::atomic::{AtomicUsize, Ordering};
use wire::response::encode_command;

use crate::links::{
    self, LinkFailure, LinkInput, LinkMail, LinkOutput, LinkProtocol, LinkSocket, LinkStart, LinkStep,
    NewLink,
};
use crate::mail::Mail;
use crate::shared::Shared;
use crate::shared::migration_sockets::TargetSocket;

/// Maximum number of concurrent transfers.
const TRANSFER_COUNT_MAX: usize = 64;

/// Maximum size of a line of a reply, in bytes.
const LINE_SIZE_MAX: usize = 4096;

const TOO_MANY: CommandError = CommandError::new("ERR Too many MIGRATE commands are running");
const NO_THREAD: CommandError = CommandError::new("ERR Can't start a thread for MIGRATE");
const NO_CLIENT: CommandError = CommandError::new("ERR MIGRATE can't run from a file");
const NOT_CONNECTED: &str = "IOERR error or timeout connecting to the client";
const NOT_WRITTEN: &str = "IOERR error or timeout writing to target instance";
const NOT_READ: &str = "IOERR error or timeout reading to target instance";

/// The number of running transfers.
static TRANSFER_COUNT: AtomicUsize = AtomicUsize::new(0);

/// A place among the running transfers, until it is dropped. A thread that resolves a name for one keeps it, too: the thread
/// can't be ended, and their number must be bounded.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let place = (TRANSFER_COUNT.fetch_add(1, Ordering::Relaxed), Self);
        (place.0 < TRANSFER_COUNT_MAX).then_some(place.1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TRANSFER_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Requests to send, and their number.
struct Requests {
    bytes: Arc<Vec<u8>>,
    count: usize,
}

/// What the session and the link exchange.
#[derive(Default)]
struct Exchange {
    /// From the session.
    requests: Option<Requests>,
    /// Whether the session has ended the transfer, or has been closed.
    is_abandoned: bool,
    /// From the link.
    step: Option<TransferStep>,
}

/// A session's side of a transfer.
struct Handle {
    shared: &'static Shared,
    /// The worker of the link.
    thread: usize,
    link: u64,
    exchange: Arc<Mutex<Exchange>>,
}

impl Handle {
    fn change(&self, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.exchange.lock().unwrap_or_else(PoisonError::into_inner));
        // If the link has ended, it has published its last step.
        self.shared.workers.post(self.thread, Mail::Link(LinkMail::Notify(self.link)));
    }
}

impl Transfer for Handle {
    fn send(&mut self, bytes: Vec<u8>, count: usize) {
        let requests = Requests { bytes: Arc::new(bytes), count };
        self.change(|exchange| exchange.requests = Some(requests));
    }

    fn take_step(&mut self) -> Option<TransferStep> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).step.take()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.change(|exchange| exchange.is_abandoned = true);
    }
}

/// Begins a transfer for a client, over a link of this worker.
///
/// # Errors
/// The client has disconnected, too many transfers are running, or a thread can't be started.
pub fn begin(
    shared: &'static Shared,
    thread: usize,
    target: TransferTarget,
    client: u64,
) -> Result<Box<dyn Transfer>, CommandError> {
    if shared.clients.find(client).is_none() {
        return Err(NO_CLIENT);
    }
    let certificates = match shared.config.load().tls_cluster {
        false => None,
        true => Some(shared.certificates.context().ok_or(CommandError::new(NOT_CONNECTED))?),
    };
    let place = Arc::new(Place::take().ok_or(TOO_MANY)?);
    let exchange = Arc::new(Mutex::new(Exchange::default()));
    let number = links::next_number();
    let mut link = TransferLink {
        shared,
        thread,
        number,
        name: [target.host.as_slice(), b":", &target.port].concat(),
        target,
        client,
        exchange: Arc::clone(&exchange),
        state: State::Connecting,
        db: None,
        certificates: certificates.clone(),
        is_cached: false,
        is_announced: false,
        requests: None,
        place: Arc::clone(&place),
    };
    let address = literal_address(&link.target);
    let cached = shared.migration_sockets.take(&link.name, certificates.as_ref());
    let awaits_addresses = cached.is_none() && address.is_none();
    let (target, timeout) = (link.target.clone(), link.target.timeout);
    let start = match (cached, address) {
        (Some(cached), _) => {
            link.is_cached = true;
            link.db = cached.db;
            LinkStart::Existing(cached.socket)
        }
        (None, Some(address)) => LinkStart::Open(LinkStep::Connect(vec![address], timeout)),
        (None, None) => LinkStart::Open(LinkStep::AwaitAddresses { connect_timeout: timeout, timeout: None }),
    };
    let new = NewLink { number, protocol: Box::new(link), certificates, start };
    shared.workers.post(thread, Mail::Link(LinkMail::Open(Box::new(new))));
    let handle = Handle { shared, thread, link: number, exchange };
    if awaits_addresses && let Err(error) = resolve(shared, thread, number, &target, place) {
        log::warn!("Can't start a thread for MIGRATE: {error}");
        // The end of the handle ends the link.
        return Err(NO_THREAD);
    }
    Ok(Box::new(handle))
}

/// The address of the target, if it is not a name.
fn literal_address(target: &TransferTarget) -> Option<SocketAddr> {
    let host = std::str::from_utf8(&target.host).ok()?;
    let port = std::str::from_utf8(&target.port).ok()?;
    Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
}

/// Resolves the name of a target on a thread, which sends the addresses to the link.
fn resolve(
    shared: &'static Shared,
    thread: usize,
    link: u64,
    target: &TransferTarget,
    place: Arc<Place>,
) -> io::Result<()> {
    let (host, port) = (target.host.clone(), target.port.clone());
    run_on_thread(place, move || {
        let addresses = addresses_of(&host, &port);
        shared.workers.post(thread, Mail::Link(LinkMail::Addresses(link, addresses)));
    })
}

/// Runs `body` on a thread that keeps the place until its end.
fn run_on_thread(place: Arc<Place>, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body = move || {
        body();
        drop(place);
    };
    sync::thread::Builder::new().name("resolve".to_owned()).spawn(body).map(drop)
}

fn addresses_of(host: &[u8], port: &[u8]) -> io::Result<Vec<SocketAddr>> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let host = std::str::from_utf8(host).map_err(|_| invalid("the host is not text"))?;
    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse::<u16>().ok());
    let port = port.ok_or_else(|| invalid("the port is no number up to 65535"))?;
    Ok((host, port).to_socket_addrs()?.collect())
}

/// The link's side of a transfer.
struct TransferLink {
    shared: &'static Shared,
    thread: usize,
    number: u64,
    target: TransferTarget,
    /// The name of the target's cached connection.
    name: Vec<u8>,
    client: u64,
    exchange: Arc<Mutex<Exchange>>,
    state: State,
    /// The database that the connection has selected; `None`: unknown.
    db: Option<i64>,
    /// The certificates for its connections; `None`: without TLS.
    certificates: Option<Arc<tls::Context>>,
    /// Whether the connection was cached: the target may have closed it.
    is_cached: bool,
    /// Whether the session was notified of the connection.
    is_announced: bool,
    /// What the session has given to be sent.
    requests: Option<Requests>,
    place: Arc<Place>,
}

enum State {
    Connecting,
    /// Connected; waits for the requests.
    Idle,
    /// Sends the requests, and reads the replies.
    Exchanging(Replies),
    /// The connection has failed, with this error, before there were requests.
    Failed(&'static str),
    /// All replies are read. The session is notified of this step when the connection is cached.
    Done(TransferStep),
    /// The session has ended the transfer.
    Abandoned,
}

/// The replies read so far.
#[derive(Default)]
struct Replies {
    /// The beginning of the next line.
    line: Vec<u8>,
    /// Requests before those of the session whose replies are awaited.
    preface_count: usize,
    /// Whether such a request was refused.
    is_refused: bool,
    /// For each request of the session, whether the target has confirmed it.
    confirmed: Vec<bool>,
    /// The first error reply.
    first_error: Option<String>,
    /// Whether the target has sent more replies than there are requests.
    has_excess: bool,
}

impl LinkProtocol for TransferLink {
    fn connected(&mut self, output: &mut LinkOutput) -> LinkStep {
        self.state = State::Idle;
        if self.requests.is_some() {
            return self.send(output);
        }
        if !std::mem::replace(&mut self.is_announced, true) {
            self.end_step(TransferStep::Connected);
        }
        LinkStep::Wait(None)
    }

    fn received(&mut self, input: LinkInput<'_>, _: &mut LinkOutput) -> LinkStep {
        let count = self.requests.as_ref().map_or(0, |requests| requests.count);
        let is_complete = match &mut self.state {
            State::Exchanging(replies) => replies.read(input.bytes, count),
            _ => Err(io::Error::other("the target replies without a request")),
        };
        match is_complete {
            Ok(true) if input.is_writing => {
                return LinkStep::Fail(io::Error::other("the target replies before it has the requests"));
            }
            Ok(true) => {}
            Ok(false) => return LinkStep::Wait(Some(self.target.timeout)),
            Err(error) => return LinkStep::Fail(error),
        }
        if let State::Exchanging(replies) = std::mem::replace(&mut self.state, State::Connecting) {
            let Replies { confirmed, first_error, has_excess, .. } = replies;
            if first_error.is_none() {
                self.db = Some(self.target.db);
            }
            self.state = State::Done(TransferStep::Sent { confirmed, error: first_error });
            if has_excess {
                self.end_done();
                return LinkStep::Close;
            }
        }
        LinkStep::Detach
    }

    fn notified(&mut self, output: &mut LinkOutput) -> LinkStep {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let is_abandoned = exchange.is_abandoned;
        if let Some(requests) = exchange.requests.take() {
            self.requests = Some(requests);
        } else if !is_abandoned || self.requests.is_some() {
            return LinkStep::Continue;
        }
        drop(exchange);
        match &self.state {
            State::Idle if self.requests.is_some() => self.send(output),
            // The next transfer may use it.
            State::Idle => {
                self.state = State::Abandoned;
                LinkStep::Detach
            }
            State::Failed(error) => self.end_without_replies(error),
            State::Connecting if self.requests.is_none() => LinkStep::Close,
            _ => LinkStep::Continue,
        }
    }

    fn failed(&mut self, failure: &LinkFailure) -> LinkStep {
        let LinkFailure { error, is_writing } = failure;
        let state = std::mem::replace(&mut self.state, State::Connecting);
        // The reply does not tell why TLS has failed.
        let level = match &state {
            State::Connecting if self.certificates.is_some() => log::Level::Warn,
            _ => log::Level::Debug,
        };
        log::log!(level, "MIGRATE to {} failed: {error}", self.name.escape_ascii());
        let text = match &state {
            State::Connecting if self.certificates.is_some() => NOT_CONNECTED,
            State::Connecting => refusal(error),
            _ if *is_writing => NOT_WRITTEN,
            _ => NOT_READ,
        };
        // A cached connection may have been closed by the target. Nothing was confirmed, so no key is sent twice.
        let is_unused = match &state {
            State::Idle => true,
            State::Exchanging(replies) => replies.confirmed.is_empty() && replies.first_error.is_none(),
            _ => false,
        };
        if is_unused && std::mem::take(&mut self.is_cached) && error.kind() != io::ErrorKind::TimedOut {
            self.db = None;
            return match self.connect() {
                Ok(step) => step,
                Err(error) => self.failed(&LinkFailure { error, is_writing: false }),
            };
        }
        match state {
            State::Connecting if !self.is_announced => {
                self.end_step(TransferStep::NotConnected(text.to_owned()));
                LinkStep::Close
            }
            State::Exchanging(Replies { mut confirmed, first_error, .. }) => {
                // Replies count when all requests are sent. Earlier ones may be those of a server of another kind.
                if *is_writing {
                    confirmed.clear();
                }
                let error = first_error.or_else(|| Some(text.to_owned()));
                self.end_step(TransferStep::Sent { confirmed, error });
                LinkStep::Close
            }
            State::Done(step) => {
                self.end_step(step);
                LinkStep::Close
            }
            State::Abandoned => LinkStep::Close,
            State::Connecting | State::Idle | State::Failed(_) if self.requests.is_some() => {
                self.end_without_replies(text)
            }
            State::Connecting | State::Idle | State::Failed(_) => {
                self.state = State::Failed(text);
                LinkStep::Continue
            }
        }
    }

    fn detached(&mut self, socket: LinkSocket) {
        let socket = TargetSocket { socket, db: self.db, certificates: self.certificates.take() };
        self.shared.migration_sockets.keep(std::mem::take(&mut self.name), socket, Uptime::now());
        self.end_done();
    }

    fn discarded(&mut self) {
        self.end_done();
    }
}

impl TransferLink {
    /// Returns the step that connects to the target again.
    ///
    /// # Errors
    /// The thread that resolves its name can't be started.
    fn connect(&self) -> io::Result<LinkStep> {
        let timeout = self.target.timeout;
        if let Some(address) = literal_address(&self.target) {
            return Ok(LinkStep::Connect(vec![address], timeout));
        }
        resolve(self.shared, self.thread, self.number, &self.target, Arc::clone(&self.place))?;
        // The session may keep latches meanwhile.
        Ok(LinkStep::AwaitAddresses { connect_timeout: timeout, timeout: Some(timeout) })
    }

    /// Sends the requests of the session, after those that the connection needs first.
    fn send(&mut self, output: &mut LinkOutput) -> LinkStep {
        let Some(requests) = &self.requests else { return LinkStep::Continue };
        let (preface, preface_count) = self.preface(self.db != Some(self.target.db));
        if preface_count > 0 {
            output.push(Arc::new(preface));
        }
        output.push(Arc::clone(&requests.bytes));
        // Until the replies are seen.
        self.db = None;
        self.state = State::Exchanging(Replies { preface_count, ..Replies::default() });
        LinkStep::Wait(Some(self.target.timeout))
    }

    /// Ends a transfer none of whose requests was replied to.
    fn end_without_replies(&self, error: &str) -> LinkStep {
        self.end_step(TransferStep::Sent { confirmed: Vec::new(), error: Some(error.to_owned()) });
        LinkStep::Close
    }

    /// Publishes the last step, if all replies are read.
    fn end_done(&mut self) {
        if let State::Done(step) = std::mem::replace(&mut self.state, State::Abandoned) {
            self.end_step(step);
        }
    }

    /// Publishes the end of a step, and wakes the client.
    fn end_step(&self, step: TransferStep) {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.step = Some(step);
        if !exchange.is_abandoned {
            drop(exchange);
            self.shared.workers.answer(&self.shared.clients, self.client, b"");
        }
    }

    /// The requests that precede the transfer, and their number.
    fn preface(&self, selects: bool) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut count = 0;
        if !self.target.credentials.is_empty() {
            let mut args = vec![b"AUTH".as_slice()];
            args.extend(self.target.credentials.iter().map(Vec::as_slice));
            encode_command(&args, &mut bytes);
            count += 1;
        }
        if selects {
            encode_command(&[b"SELECT", self.target.db.to_string().as_bytes()], &mut bytes);
            count += 1;
        }
        (bytes, count)
    }
}

impl Replies {
    /// Reads bytes of replies to the preface and to `count` requests. Returns whether they are complete.
    fn read(&mut self, bytes: &[u8], count: usize) -> io::Result<bool> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_complete(count) {
                self.has_excess = true;
                break;
            }
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_SIZE_MAX {
                return Err(io::Error::other("the reply is no line"));
            }
            if part.ends_with(b"\n") {
                let mut line = std::mem::take(&mut self.line);
                line.pop();
                line.pop_if(|last| *last == b'\r');
                self.read_line(&line);
            }
        }
        Ok(self.is_complete(count))
    }

    fn is_complete(&self, count: usize) -> bool {
        self.preface_count == 0 && self.confirmed.len() == count
    }

    fn read_line(&mut self, line: &[u8]) {
        record_error(line, &mut self.first_error);
        if self.preface_count > 0 {
            self.preface_count -= 1;
            self.is_refused = self.first_error.is_some();
        } else {
            self.confirmed.push(!self.is_refused && !line.starts_with(b"-"));
        }
    }
}

/// The reply if no connection could be opened, without TLS. As in Valkey, which does not wait for the answer of the target
/// before it writes, a target that refuses is an error of writing.
fn refusal(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable => NOT_WRITTEN,
        _ => NOT_CONNECTED,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_resolves_a_name_keeps_the_place() {
        let place = Arc::new(Place::take().expect("no other test transfers keys"));
        let place_before = Arc::downgrade(&place);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (tell, ended) = std::sync::mpsc::channel();
        let body = move || {
            // The resolver hangs.
            let _ = released.recv();
            tell.send(()).expect("the test waits");
        };
        run_on_thread(place, body).expect("a thread starts");
        assert!(place_before.upgrade().is_some());
        drop(release);
        ended.recv().expect("the thread ends");
    }
}
