//! The links of a worker: connections that it opens to other servers, each with its protocol.
//!
//! | connection | event | then |
//! |---|---|---|
//! | none | [`LinkStep::Connect`] | connecting to the first address |
//! | connecting | connected | open; the protocol is told |
//! | connecting | refused, or no answer in time | connecting to the next address; without one, the link fails |
//! | open | closed by the peer, failed, or no progress in time | none; the link fails |
//! | open | [`LinkStep::Detach`] | leaving |
//! | leaving | detached | none; the link ends |
//!
//! A link that fails may connect again: its protocol decides.
//!
//! Invariants:
//! 1. The reactor's token of a link's connection has its number, and a bit that no client's token has.
//! 2. Events of an earlier connection of a link are ignored.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use os::clock::Uptime;
use reactor::{CloseMode, CloseReason, ConnectionId, Event, Reactor};

use super::Worker;
use crate::connection::token::Token;
use crate::links::{
    LinkFailure, LinkMail, LinkOutput, LinkProtocol, LinkSocket, LinkStart, LinkStep, NewLink,
};

/// The bit of a link's token: that of deferred serves, which have no connection in the reactor.
const LINK_BIT: u64 = Token::PLACE_MAX as u64 + 1;
const NUMBER_SHIFT: u32 = LINK_BIT.trailing_zeros() + 1;

/// How often in its time limit a connection that sends is checked for progress: a large buffer is reported only when all
/// of it is sent.
const CHECKS_PER_TIMEOUT: i64 = 8;

/// The links of a worker, by number.
#[derive(Default)]
pub(super) struct Links {
    all: BTreeMap<u64, Link>,
}

struct Link {
    number: u64,
    protocol: Box<dyn LinkProtocol>,
    connection: Option<LinkConnection>,
    /// Addresses to try if the current one can't be connected.
    addresses: VecDeque<SocketAddr>,
    /// The time to connect to an address.
    connect_timeout: Duration,
    /// The time without progress after which it fails.
    timeout: Option<Duration>,
    progressed_at: Uptime,
    /// When its progress is checked next.
    next_check: Option<Uptime>,
}

/// The connection of a link.
struct LinkConnection {
    id: ConnectionId,
    stage: Stage,
    /// Whether output was left to be sent at the last event or check.
    is_writing: bool,
    /// How much that was, in bytes.
    unsent_size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
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
        self.links.handle(event, &mut self.events.reactor, self.clock.uptime);
    }

    pub(super) fn handle_link_mail(&mut self, mail: LinkMail) {
        if !self.ending.is_stopping {
            self.links.handle_mail(mail, &mut self.events.reactor, self.clock.uptime);
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
            link.drop_connection(reactor);
        }
    }

    pub(super) fn handle_mail(&mut self, mail: LinkMail, reactor: &mut Reactor, now: Uptime) {
        match mail {
            LinkMail::Open(new) => {
                let (number, start) = (new.number, Link::new(*new, now));
                self.all.insert(number, start.0);
                self.update(number, reactor, now, |link, reactor| link.begin(start.1, reactor));
            }
            LinkMail::Addresses(number, Ok(addresses)) => {
                self.update(number, reactor, now, |link, _| {
                    LinkStep::Connect(addresses, link.connect_timeout)
                });
            }
            LinkMail::Addresses(number, Err(error)) => {
                self.update(number, reactor, now, |link, reactor| link.fail(error, reactor));
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
            Event::Received { connection, token, data } => {
                self.react(connection, token, reactor, now, |link, reactor| link.received(&data, reactor));
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
                    link.connection = None;
                    match unread.is_empty() && unsent.is_empty() {
                        true => link.protocol.detached(LinkSocket { socket }),
                        false => link.protocol.discarded(),
                    }
                    LinkStep::Close
                });
            }
            Event::Accepted { .. } | Event::AcceptError { .. } | Event::Woken => {}
        }
    }

    /// When the next link is to be checked for progress.
    pub(super) fn next_check(&self) -> Option<Uptime> {
        self.all.values().filter_map(|link| link.next_check).min()
    }

    /// Ends the connections that make no progress.
    pub(super) fn check_progress(&mut self, reactor: &mut Reactor, now: Uptime) {
        let is_due = |link: &&Link| link.next_check.is_some_and(|at| at <= now);
        let due: Vec<u64> = self.all.values().filter(is_due).map(|link| link.number).collect();
        for number in due {
            self.update(number, reactor, now, |link, reactor| link.check_progress(reactor, now));
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
            if link.connection.as_ref().is_none_or(|current| current.id != connection) {
                return LinkStep::Continue;
            }
            link.progressed_at = now;
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
        if link.follow(step, reactor, now) {
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
            addresses: VecDeque::new(),
            connect_timeout: Duration::ZERO,
            timeout: None,
            progressed_at: now,
            next_check: None,
        };
        (link, new.start)
    }

    fn token(&self) -> u64 {
        self.number << NUMBER_SHIFT | LINK_BIT
    }

    fn begin(&mut self, start: LinkStart, reactor: &mut Reactor) -> LinkStep {
        match start {
            LinkStart::Open(step) => step,
            LinkStart::Existing(LinkSocket { socket }) => {
                let id = reactor.adopt(socket, self.token());
                self.connection = Some(LinkConnection::new(id, Stage::Open));
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
                LinkStep::AwaitAddresses(connect_timeout) => {
                    self.connect_timeout = connect_timeout;
                    self.timeout = None;
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
                LinkStep::Close => {
                    self.drop_connection(reactor);
                    return false;
                }
            };
        }
    }

    /// Connects to the next address. Without one, the link fails with the error of the last.
    fn connect_next(&mut self, mut error: io::Error, reactor: &mut Reactor) -> LinkStep {
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

    fn drop_connection(&mut self, reactor: &mut Reactor) {
        if let Some(connection) = self.connection.take() {
            reactor.close(connection.id, CloseMode::Now);
        }
    }

    fn connected(&mut self, reactor: &mut Reactor) -> LinkStep {
        if let Some(connection) = &mut self.connection {
            connection.stage = Stage::Open;
            self.addresses.clear();
        }
        self.ask(reactor, |protocol, output| protocol.connected(output))
    }

    fn received(&mut self, data: &[u8], reactor: &mut Reactor) -> LinkStep {
        self.ask(reactor, |protocol, output| protocol.received(data, output))
    }

    fn sent(&mut self, reactor: &mut Reactor) -> LinkStep {
        if let Some(connection) = &mut self.connection {
            connection.note_unsent(reactor);
        }
        LinkStep::Continue
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
            reactor.send_shared(connection.id, bytes);
        }
        connection.note_unsent(reactor);
        step
    }

    /// Ends the connection. While it was connecting, the next address follows.
    fn fail(&mut self, error: io::Error, reactor: &mut Reactor) -> LinkStep {
        let connection = self.connection.take();
        if let Some(connection) = &connection {
            reactor.close(connection.id, CloseMode::Now);
        }
        match connection {
            Some(connection) if connection.stage != Stage::Connecting => {
                self.timeout = None;
                self.protocol.failed(&LinkFailure { error, is_writing: connection.is_writing })
            }
            _ => self.connect_next(error, reactor),
        }
    }

    fn check_progress(&mut self, reactor: &mut Reactor, now: Uptime) -> LinkStep {
        let (Some(connection), Some(timeout)) = (&mut self.connection, self.timeout) else {
            return LinkStep::Continue;
        };
        let unsent_before = connection.unsent_size;
        connection.note_unsent(reactor);
        if connection.unsent_size < unsent_before {
            self.progressed_at = now;
        }
        // One millisecond later, so that none ends early.
        if now > self.progressed_at.plus(timeout) {
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
        Self { id, stage, is_writing: false, unsent_size: 0 }
    }

    fn note_unsent(&mut self, reactor: &Reactor) {
        self.unsent_size = reactor.unsent_bytes(self.id);
        self.is_writing = self.unsent_size > 0;
    }
}
