//! The links of a worker: connections that it opens to other servers, each with its protocol.
//!
//! | connection | event | then |
//! |---|---|---|
//! | none | [`LinkStep::Connect`], or the addresses that it waits for | connecting to the first address |
//! | none | no addresses in time | none; the link fails |
//! | connecting | connected, and with TLS the end of the handshake | open; the protocol is told |
//! | connecting | refused, or no answer in time | connecting to the next address; without one, the link fails |
//! | open | closed by the peer, failed, no progress in time, or [`LinkStep::Fail`] | none; the link fails |
//! | open | [`LinkStep::Detach`] | leaving |
//! | leaving | detached | none; the link ends |
//!
//! A link that fails may connect again: its protocol decides. Its TLS is handled where its bytes are: a handshake has a few
//! steps of about a millisecond, and the number of links is small, so they wait for no turn of their own.
//!
//! Invariants:
//! 1. The reactor's token of a link's connection has its number, and a bit that no client's token has.
//! 2. Events of an earlier connection of a link are ignored.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use os::clock::Uptime;
use reactor::{CloseMode, CloseReason, ConnectionId, Event, Reactor, Socket};
use tls::{Progress, StreamError};

use super::Worker;
use super::encryption::{ENCRYPTED_SIZE_MAX, PORTION_SIZE};
use crate::connection::token::Token;
use crate::links::{
    LinkFailure, LinkInput, LinkMail, LinkOutput, LinkProtocol, LinkSocket, LinkStart, LinkStep, NewLink,
};

/// The bit of a link's token: that of deferred serves, which have no connection in the reactor.
const LINK_BIT: u64 = Token::PLACE_MAX as u64 + 1;
const NUMBER_SHIFT: u32 = LINK_BIT.trailing_zeros() + 1;

/// How often in its time limit a connection that sends is checked for progress: a large buffer is reported only when all
/// of it is sent.
const CHECKS_PER_TIMEOUT: i64 = 8;

/// The time in which the last bytes of a connection with TLS must be sent, in milliseconds.
const CLOSING_MS_MAX: i64 = 1_000;

/// The links of a worker, by number.
#[derive(Default)]
pub(super) struct Links {
    all: BTreeMap<u64, Link>,
    /// Connections without a link that send their last bytes, and when they are closed at the latest; ascending.
    closing: VecDeque<(Uptime, ConnectionId)>,
}

struct Link {
    number: u64,
    protocol: Box<dyn LinkProtocol>,
    connection: Option<LinkConnection>,
    /// The certificates for connections with TLS; `None`: bytes are plain.
    certificates: Option<Arc<tls::Context>>,
    /// Whether it waits for addresses. It then has no connection.
    awaits_addresses: bool,
    /// Addresses to try if the current one can't be connected.
    addresses: VecDeque<SocketAddr>,
    /// The time to connect to an address.
    connect_timeout: Duration,
    /// The time without progress after which it fails.
    timeout: Option<Duration>,
    progressed_at: Uptime,
    /// When its progress is checked next.
    next_check: Option<Uptime>,
    /// Earlier connections that send their last bytes.
    closing: Vec<ConnectionId>,
}

/// The connection of a link.
struct LinkConnection {
    id: ConnectionId,
    stage: Stage,
    /// Its TLS; `None`: its bytes are plain.
    encryption: Option<Box<tls::Stream>>,
    /// Whether output was left to be sent at the last event or check.
    is_writing: bool,
    /// How much that was, in bytes.
    unsent_size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// Connected, with a handshake of TLS under way.
    Handshake,
    Open,
    /// Detaching from the reactor.
    Leaving,
}

/// Whether an event is one of a link, by its token.
pub(super) fn concerns_link(event: &Event) -> bool {
    let (Event::Connected { token, .. }
    | Event::Received { token, .. }
    | Event::Eof { token, .. }
    | Event::HungUp { token, .. }
    | Event::Sent { token, .. }
    | Event::Closed { token, .. }
    | Event::Detached { token, .. }) = event
    else {
        return false;
    };
    token & LINK_BIT != 0
}

impl Worker {
    pub(super) fn handle_link_event(&mut self, event: Event) {
        // Not that of the begin of the turn: requests before it may have taken long.
        let now = self.uptime();
        self.links.handle(event, &mut self.events.reactor, now);
    }

    pub(super) fn handle_link_mail(&mut self, mail: LinkMail) {
        if !self.ending.is_stopping {
            let now = self.uptime();
            self.links.handle_mail(mail, &mut self.events.reactor, now);
        }
    }

    /// Ends the links that make no progress.
    pub(super) fn check_links(&mut self) {
        if self.links.next_check().is_some_and(|at| at <= self.clock.uptime) {
            self.links.check_progress(&mut self.events.reactor, self.clock.uptime);
        }
    }
}

impl Links {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Ends all links.
    pub(super) fn close_all(&mut self, reactor: &mut Reactor) {
        for (_, mut link) in std::mem::take(&mut self.all) {
            link.end_connection(Vec::new(), reactor);
        }
    }

    pub(super) fn handle_mail(&mut self, mail: LinkMail, reactor: &mut Reactor, now: Uptime) {
        match mail {
            LinkMail::Open(new) => {
                let (number, start) = (new.number, Link::new(*new, now));
                self.all.insert(number, start.0);
                self.update(number, reactor, now, |link, reactor| link.begin(start.1, reactor));
            }
            LinkMail::Addresses(number, addresses) => {
                self.update(number, reactor, now, |link, reactor| link.resolved(addresses, reactor));
            }
            LinkMail::Notify(number) => self.update(number, reactor, now, |link, reactor| {
                link.ask(reactor, |protocol, output| protocol.notified(output))
            }),
        }
    }

    /// Handles an event that [`concerns_link`].
    pub(super) fn handle(&mut self, event: Event, reactor: &mut Reactor, now: Uptime) {
        match event {
            Event::Connected { connection, token } => {
                self.react(connection, token, reactor, now, Link::connected);
            }
            Event::Received { connection, token, mut data } => {
                self.react(connection, token, reactor, now, |link, reactor| {
                    link.received(&mut data, reactor)
                });
                reactor.recycle(data);
            }
            Event::Sent { connection, token, .. } => {
                self.react(connection, token, reactor, now, Link::sent);
            }
            Event::Eof { connection, token } | Event::HungUp { connection, token } => {
                let error = io::ErrorKind::UnexpectedEof.into();
                self.react(connection, token, reactor, now, |link, reactor| link.fail(error, reactor));
            }
            Event::Closed { connection, token, reason } => {
                let error = match reason {
                    CloseReason::Failed(error) | CloseReason::NotConnected(error) => error,
                    CloseReason::Requested => io::ErrorKind::ConnectionAborted.into(),
                };
                self.react(connection, token, reactor, now, |link, reactor| link.fail(error, reactor));
            }
            Event::Detached { connection, token, socket, unsent, unread } => {
                self.react(connection, token, reactor, now, |link, _| {
                    link.detached(socket, &unread, unsent.is_empty());
                    LinkStep::Close
                });
            }
            Event::Accepted { .. } | Event::AcceptError { .. } | Event::Woken => {}
        }
    }

    /// When the next link is to be checked for progress.
    pub(super) fn next_check(&self) -> Option<Uptime> {
        let closing = self.closing.front().map(|(until, _)| *until);
        self.all.values().filter_map(|link| link.next_check).chain(closing).min()
    }

    /// Ends the connections that make no progress.
    pub(super) fn check_progress(&mut self, reactor: &mut Reactor, now: Uptime) {
        let is_due = |link: &&Link| link.next_check.is_some_and(|at| at <= now);
        let due: Vec<u64> = self.all.values().filter(is_due).map(|link| link.number).collect();
        for number in due {
            self.update(number, reactor, now, |link, reactor| link.check_progress(reactor, now));
        }
        while let Some((_, id)) = self.closing.front().copied().filter(|(until, _)| *until <= now) {
            // Normally it has ended.
            reactor.close(id, CloseMode::Now);
            self.closing.pop_front();
        }
    }

    /// Handles an event of a connection.
    fn react(
        &mut self,
        connection: ConnectionId,
        token: u64,
        reactor: &mut Reactor,
        now: Uptime,
        act: impl FnOnce(&mut Link, &mut Reactor) -> LinkStep,
    ) {
        self.update(token >> NUMBER_SHIFT, reactor, now, |link, reactor| {
            let Some(current) = link.connection.as_ref().filter(|current| current.id == connection) else {
                return LinkStep::Continue;
            };
            // A handshake has the time of one attempt to connect, however slowly its bytes arrive.
            if current.stage != Stage::Handshake {
                link.progressed_at = now;
            }
            act(link, reactor)
        });
    }

    /// Changes a link, and follows the step that results.
    fn update(
        &mut self,
        number: u64,
        reactor: &mut Reactor,
        now: Uptime,
        act: impl FnOnce(&mut Link, &mut Reactor) -> LinkStep,
    ) {
        let Some(link) = self.all.get_mut(&number) else { return };
        let step = act(link, reactor);
        let continues = link.follow(step, reactor, now);
        let until = now.plus_ms(CLOSING_MS_MAX);
        self.closing.extend(link.closing.drain(..).map(|id| (until, id)));
        if continues {
            link.plan_check(now);
        } else {
            self.all.remove(&number);
        }
    }
}

impl Link {
    /// Returns a link without a connection, and its start.
    fn new(new: NewLink, now: Uptime) -> (Self, LinkStart) {
        let link = Self {
            number: new.number,
            protocol: new.protocol,
            connection: None,
            certificates: new.certificates,
            awaits_addresses: false,
            addresses: VecDeque::new(),
            connect_timeout: Duration::ZERO,
            timeout: None,
            progressed_at: now,
            next_check: None,
            closing: Vec::new(),
        };
        (link, new.start)
    }

    fn token(&self) -> u64 {
        self.number << NUMBER_SHIFT | LINK_BIT
    }

    fn begin(&mut self, start: LinkStart, reactor: &mut Reactor) -> LinkStep {
        match start {
            LinkStart::Open(step) => step,
            LinkStart::Existing(LinkSocket { socket, encryption }) => {
                let id = reactor.adopt(socket, self.token());
                self.connection = Some(LinkConnection { encryption, ..LinkConnection::new(id, Stage::Open) });
                self.ask(reactor, |protocol, output| protocol.connected(output))
            }
        }
    }

    /// Follows a step, and those that result from it. Returns whether the link continues.
    fn follow(&mut self, mut step: LinkStep, reactor: &mut Reactor, now: Uptime) -> bool {
        loop {
            step = match step {
                LinkStep::Continue => return true,
                LinkStep::Wait(timeout) => {
                    self.timeout = timeout;
                    self.progressed_at = now;
                    return true;
                }
                LinkStep::AwaitAddresses { connect_timeout, timeout } => {
                    self.awaits_addresses = true;
                    self.connect_timeout = connect_timeout;
                    self.timeout = timeout;
                    self.progressed_at = now;
                    return true;
                }
                LinkStep::Connect(addresses, connect_timeout) => {
                    self.addresses = addresses.into();
                    self.connect_timeout = connect_timeout;
                    self.connect_next(io::ErrorKind::AddrNotAvailable.into(), reactor)
                }
                LinkStep::Detach => {
                    let Some(connection) = &mut self.connection else { return false };
                    connection.stage = Stage::Leaving;
                    self.timeout = None;
                    reactor.detach(connection.id);
                    return true;
                }
                LinkStep::Fail(error) => self.fail(error, reactor),
                LinkStep::Close => {
                    self.end_connection(Vec::new(), reactor);
                    return false;
                }
            };
        }
    }

    fn resolved(&mut self, addresses: io::Result<Vec<SocketAddr>>, reactor: &mut Reactor) -> LinkStep {
        if !std::mem::take(&mut self.awaits_addresses) {
            return LinkStep::Continue;
        }
        match addresses {
            Ok(addresses) => LinkStep::Connect(addresses, self.connect_timeout),
            Err(error) => self.fail(error, reactor),
        }
    }

    /// Connects to the next address. Without one, the link fails with the error of the last.
    fn connect_next(&mut self, mut error: io::Error, reactor: &mut Reactor) -> LinkStep {
        debug_assert!(self.connection.is_none(), "the one before is closed");
        while let Some(address) = self.addresses.pop_front() {
            match reactor.connect(address, None, self.token()) {
                Ok(id) => {
                    self.connection = Some(LinkConnection::new(id, Stage::Connecting));
                    return LinkStep::Wait(Some(self.connect_timeout));
                }
                Err(failed) => error = failed,
            }
        }
        self.timeout = None;
        self.protocol.failed(&LinkFailure { error, is_writing: false })
    }

    /// Closes the connection, and returns what it was. With TLS, `alert` is sent before, or the end of the stream, if no
    /// other bytes wait to be sent: then the kernel normally takes these few at once.
    fn end_connection(&mut self, alert: Vec<u8>, reactor: &mut Reactor) -> Option<LinkConnection> {
        let mut connection = self.connection.take()?;
        let mut last = alert;
        if let Some(stream) = connection.encryption.as_mut().filter(|stream| stream.queued_size() == 0) {
            stream.close(&mut last);
        }
        if last.is_empty() || connection.stage == Stage::Leaving || reactor.unsent_bytes(connection.id) > 0 {
            reactor.close(connection.id, CloseMode::Now);
        } else {
            reactor.send(connection.id, last);
            reactor.close(connection.id, CloseMode::AfterSends);
            self.closing.push(connection.id);
        }
        Some(connection)
    }

    fn connected(&mut self, reactor: &mut Reactor) -> LinkStep {
        self.addresses.clear();
        let Some(connection) = &mut self.connection else { return LinkStep::Continue };
        let Some(certificates) = &self.certificates else {
            connection.stage = Stage::Open;
            return self.ask(reactor, |protocol, output| protocol.connected(output));
        };
        connection.stage = Stage::Handshake;
        match tls::Stream::to_server(certificates) {
            Ok(stream) => connection.encryption = Some(Box::new(stream)),
            Err(error) => return self.fail(invalid(error), reactor),
        }
        self.decrypt(&mut [], reactor)
    }

    fn received(&mut self, data: &mut [u8], reactor: &mut Reactor) -> LinkStep {
        if self.connection.as_ref().is_some_and(|connection| connection.encryption.is_some()) {
            return self.decrypt(data, reactor);
        }
        self.deliver(data, 0, reactor)
    }

    /// Passes plain bytes to the protocol. `response_size` bytes to be sent are not its output, but a response of TLS.
    fn deliver(&mut self, bytes: &[u8], response_size: usize, reactor: &mut Reactor) -> LinkStep {
        let Some(connection) = &mut self.connection else { return LinkStep::Continue };
        connection.note_unsent(reactor);
        let input = LinkInput { bytes, is_writing: connection.unsent_size > response_size };
        self.ask(reactor, |protocol, output| protocol.received(input, output))
    }

    /// Handles received bytes of a connection with TLS.
    fn decrypt(&mut self, data: &mut [u8], reactor: &mut Reactor) -> LinkStep {
        let Some(connection) = &mut self.connection else { return LinkStep::Continue };
        let Some(stream) = &mut connection.encryption else { return LinkStep::Continue };
        if connection.stage == Stage::Leaving {
            // A response to it could not be sent.
            stream.keep(data);
            return LinkStep::Continue;
        }
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let progress = stream.receive(data, &mut plain, &mut out);
        let is_established = connection.stage == Stage::Handshake && !stream.is_handshaking();
        let progress = match progress {
            Ok(progress) => progress,
            Err(error) => return self.fail_with_alert(invalid(error), out, reactor),
        };
        let response_size = out.len();
        if response_size > 0 {
            reactor.send(connection.id, out);
        }
        let mut step = LinkStep::Continue;
        if is_established {
            connection.stage = Stage::Open;
            step = self.ask(reactor, |protocol, output| protocol.connected(output));
        }
        if !plain.is_empty() && matches!(step, LinkStep::Continue | LinkStep::Wait(_)) {
            step = match self.deliver(&plain, response_size, reactor) {
                LinkStep::Continue => step,
                later => later,
            };
        }
        let continues = matches!(step, LinkStep::Continue | LinkStep::Wait(_) | LinkStep::Detach);
        if progress == Progress::Closed && continues {
            return self.fail(io::ErrorKind::UnexpectedEof.into(), reactor);
        }
        step
    }

    fn sent(&mut self, reactor: &mut Reactor) -> LinkStep {
        let Some(connection) = &mut self.connection else { return LinkStep::Continue };
        match connection.encrypt(reactor) {
            Ok(()) => LinkStep::Continue,
            Err(error) => self.fail(invalid(error), reactor),
        }
    }

    /// Passes an event to the protocol, and sends its output.
    fn ask(
        &mut self,
        reactor: &mut Reactor,
        call: impl FnOnce(&mut dyn LinkProtocol, &mut LinkOutput) -> LinkStep,
    ) -> LinkStep {
        let mut output = LinkOutput::new();
        let step = call(&mut *self.protocol, &mut output);
        let Some(connection) = &mut self.connection else { return step };
        for bytes in output {
            match &mut connection.encryption {
                Some(stream) => stream.queue_shared(bytes),
                None => reactor.send_shared(connection.id, bytes),
            }
        }
        match connection.encrypt(reactor) {
            Ok(()) => step,
            Err(error) => self.fail(invalid(error), reactor),
        }
    }

    /// Passes on a connection that has left the reactor. Bytes that the protocol has not seen make it useless, other than
    /// encrypted ones, which may concern TLS itself.
    fn detached(&mut self, socket: Socket, unread: &[u8], is_sent: bool) {
        let encryption = self.connection.take().and_then(|connection| connection.encryption);
        let is_usable = match &encryption {
            Some(stream) => is_sent && stream.queued_size() == 0,
            None => is_sent && unread.is_empty(),
        };
        if !is_usable {
            return self.protocol.discarded();
        }
        let encryption = encryption.map(|mut stream| {
            stream.keep(unread);
            stream
        });
        self.protocol.detached(LinkSocket { socket, encryption });
    }

    /// Ends the connection. While it was connecting, the next address follows.
    fn fail(&mut self, error: io::Error, reactor: &mut Reactor) -> LinkStep {
        self.fail_with_alert(error, Vec::new(), reactor)
    }

    /// As [`Self::fail`], with the alert that tells the peer of a violation of TLS.
    fn fail_with_alert(&mut self, error: io::Error, alert: Vec<u8>, reactor: &mut Reactor) -> LinkStep {
        match self.end_connection(alert, reactor) {
            Some(connection) if connection.stage != Stage::Connecting => {
                self.timeout = None;
                self.protocol.failed(&LinkFailure { error, is_writing: connection.is_writing })
            }
            _ => self.connect_next(error, reactor),
        }
    }

    fn check_progress(&mut self, reactor: &mut Reactor, now: Uptime) -> LinkStep {
        let Some(timeout) = self.timeout else { return LinkStep::Continue };
        if let Some(connection) = &mut self.connection {
            let unsent_before = connection.unsent_size;
            connection.note_unsent(reactor);
            if connection.unsent_size < unsent_before {
                self.progressed_at = now;
            }
        }
        // One millisecond later, so that none ends early.
        if now > self.progressed_at.plus(timeout) {
            self.awaits_addresses = false;
            return self.fail(io::ErrorKind::TimedOut.into(), reactor);
        }
        LinkStep::Continue
    }

    /// Plans the next check for progress.
    fn plan_check(&mut self, now: Uptime) {
        let is_writing = self.connection.as_ref().is_some_and(|connection| connection.is_writing);
        self.next_check = self.timeout.map(|timeout| {
            let end = self.progressed_at.plus(timeout).plus_ms(1);
            let interval_ms = end.ms_since(self.progressed_at) / CHECKS_PER_TIMEOUT;
            if is_writing { end.min(now.plus_ms(interval_ms.max(1))) } else { end }
        });
    }
}

impl LinkConnection {
    fn new(id: ConnectionId, stage: Stage) -> Self {
        Self { id, stage, encryption: None, is_writing: false, unsent_size: 0 }
    }

    /// Encrypts queued output while there is little in the reactor, and notes how much is left to be sent. The reactor takes
    /// nothing from a connection that leaves or has ended.
    fn encrypt(&mut self, reactor: &mut Reactor) -> Result<(), StreamError> {
        let mut result = Ok(());
        if let Some(stream) = &mut self.encryption {
            let mut scratch = Vec::new();
            let mut is_taken = self.stage != Stage::Leaving;
            while result.is_ok()
                && is_taken
                && stream.queued_size() > 0
                && !stream.is_handshaking()
                && reactor.pending_send_bytes(self.id) < ENCRYPTED_SIZE_MAX
            {
                let (mut out, pending_before) = (Vec::new(), reactor.pending_send_bytes(self.id));
                result = stream.encrypt_queued(PORTION_SIZE, &mut scratch, &mut out);
                reactor.send(self.id, out);
                is_taken = reactor.pending_send_bytes(self.id) > pending_before;
            }
        }
        self.note_unsent(reactor);
        result
    }

    fn note_unsent(&mut self, reactor: &Reactor) {
        let queued_size = self.encryption.as_ref().map_or(0, |stream| stream.queued_size());
        self.unsent_size = reactor.unsent_bytes(self.id) + queued_size;
        self.is_writing = self.unsent_size > 0;
    }
}

/// The error of a connection whose TLS has failed.
fn invalid(error: StreamError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
