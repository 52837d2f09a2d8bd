//! The epoll backend: readiness turned into completions.
//!
//! - Connections are registered once, edge-triggered, for input and hang-up: no `epoll_ctl` per request, and
//!   the kernel need not poll a drained socket again. Output readiness is requested only while a socket is
//!   full.
//! - A receive that fills its buffer, or follows a hang-up, leaves the connection `readable`; it is read again
//!   next turn, after the others. A shorter receive proves the socket empty (epoll(7)), so no read ends in
//!   `EAGAIN`.
//! - Sends are written in `wait`, one call per connection.
//! - Listeners are level-triggered and exclusive, so that only one of several waiting threads wakes up.
//!
//! Invariants:
//! 1. A connection is in `ready` or `ready_later` at most once, if and only if `is_listed`.
//! 2. A connection with pending sends is either in `flush` or waits for `EPOLLOUT` (`is_full`), not both.

mod accept;
mod close;
mod connect;
mod receive;
mod send;

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use accept::Listeners;

use crate::connection_table::ConnectionTable;
use crate::receive_buffer::{Pool, SharedPool};
use crate::send_queue::SendQueue;
use crate::waker::WakeState;
use crate::yield_policy::YieldPolicy;
use crate::{ConnectionId, Event, ListenerToken, ReactorError, ReactorOptions, Socket, sys};

/// The contents of `epoll_event::u64`: a connection's bits, or one of these flags above a listener's token.
const DATA_LISTENER: u64 = 1 << ConnectionId::BITS;
const DATA_WAKER: u64 = 2 << ConnectionId::BITS;

const EVENTS_PER_WAIT_MAX: usize = 512;

const INPUT: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;

pub(crate) struct Epoll {
    epoll: OwnedFd,
    wake: Arc<WakeState>,
    yield_policy: YieldPolicy,
    connections: ConnectionTable<Connection>,
    listeners: Listeners,
    /// To accept from or read this turn.
    ready: VecDeque<Ready>,
    /// To accept from or read next turn.
    ready_later: VecDeque<Ready>,
    /// Connections with pending sends.
    flush: Vec<ConnectionId>,
    /// Completed events; they precede the events from `ready`.
    events: VecDeque<Event>,
    /// Events that do not end a wait; delivered with the next other events.
    quiet_events: VecDeque<Event>,
    kernel_events: Vec<libc::epoll_event>,
    pool: Rc<Pool>,
    options: ReactorOptions,
}

enum Ready {
    Connection(ConnectionId),
    Listener(ListenerToken),
}

struct Connection {
    socket: Socket,
    token: u64,
    sends: SendQueue,
    /// The kernel may have bytes, an end of file or an error.
    is_readable: bool,
    /// The kernel reported a hang-up: read until the end of file or error.
    is_hung_up: bool,
    is_listed: bool,
    is_paused: bool,
    is_at_eof: bool,
    /// Whether the peer's end was reported during a pause.
    has_reported_hang_up: bool,
    /// The socket is not connected yet, and has no room until then.
    is_connecting: bool,
    /// The socket is full; waits for `EPOLLOUT`.
    is_full: bool,
    /// Whether `EPOLLOUT` is registered.
    watches_room: bool,
    is_in_flush: bool,
    ending: Ending,
}

/// The action after the last send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    None,
    Shutdown,
    /// Already half-closed for writing.
    IsShut,
    Close,
}

impl Connection {
    fn new(socket: Socket, token: u64) -> Self {
        Self {
            socket,
            token,
            sends: SendQueue::default(),
            is_readable: false,
            is_hung_up: false,
            is_listed: false,
            is_paused: false,
            is_at_eof: false,
            has_reported_hang_up: false,
            is_connecting: false,
            is_full: false,
            watches_room: false,
            is_in_flush: false,
            ending: Ending::None,
        }
    }

    fn wants_bytes(&self) -> bool {
        !self.is_paused && !self.is_at_eof && self.ending != Ending::Close
    }
}

impl Epoll {
    pub(crate) fn new(wake: Arc<WakeState>, options: ReactorOptions) -> Result<Self, ReactorError> {
        assert!(options.shared_buffer_size > 0 && options.accept_count_max > 0, "sizes are positive");
        let epoll = sys::epoll_create().map_err(ReactorError::system("epoll_create1"))?;
        let events = libc::EPOLLIN | libc::EPOLLET;
        sys::epoll_control(&epoll, libc::EPOLL_CTL_ADD, wake.eventfd(), events, DATA_WAKER)
            .map_err(ReactorError::system("epoll_ctl"))?;
        Ok(Self {
            epoll,
            wake,
            yield_policy: YieldPolicy::default(),
            connections: ConnectionTable::new(),
            listeners: Listeners::default(),
            ready: VecDeque::new(),
            ready_later: VecDeque::new(),
            flush: Vec::new(),
            events: VecDeque::new(),
            quiet_events: VecDeque::new(),
            kernel_events: Vec::with_capacity(EVENTS_PER_WAIT_MAX),
            pool: Rc::new(Pool::Shared(SharedPool::new(options.shared_buffer_size))),
            options,
        })
    }

    pub(crate) fn adopt(&mut self, socket: Socket, token: u64) -> ConnectionId {
        let id = self.connections.insert(Connection::new(socket, token));
        if let Err(error) = self.watch_connection(id, INPUT) {
            self.fail(id, error);
        }
        id
    }

    /// Starts to watch a connection's socket for these events.
    fn watch_connection(&mut self, id: ConnectionId, events: i32) -> std::io::Result<()> {
        let Some(connection) = self.connections.lookup(id) else { return Ok(()) };
        let fd = connection.socket.as_raw_fd();
        sys::epoll_control(&self.epoll, libc::EPOLL_CTL_ADD, fd, events, id.to_bits())
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn socket(&self, id: ConnectionId) -> Option<&Socket> {
        Some(&self.connections.lookup(id)?.socket)
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<(), ReactorError> {
        self.flush_sends();
        self.ready.append(&mut self.ready_later);
        let mut timeout = self.end_expired_backoffs(timeout);
        let has_work = !self.events.is_empty() || !self.ready.is_empty() || !self.flush.is_empty();
        let may_block = !has_work && timeout != Some(Duration::ZERO);
        if may_block && self.yield_policy.is_due() {
            timeout = self.yield_policy.yield_once(timeout);
        }
        let blocks = may_block && self.wake.try_sleep();
        let timeout = if blocks { timeout } else { Some(Duration::ZERO) };
        let waited = sys::epoll_wait(&self.epoll, &mut self.kernel_events, timeout);
        if self.wake.finish_wait() {
            self.events.push_back(Event::Woken);
        }
        match waited {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReactorError::System { call: "epoll_wait", source: error }),
        }
        for index in 0..self.kernel_events.len() {
            let libc::epoll_event { events, u64: data } = self.kernel_events[index];
            self.note_readiness(events as i32, data);
        }
        self.events.append(&mut self.quiet_events);
        Ok(())
    }

    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let event = match self.ready.pop_front()? {
                Ready::Connection(id) => self.receive(id),
                Ready::Listener(token) => self.accept(token),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn note_readiness(&mut self, events: i32, data: u64) {
        if data == DATA_WAKER {
            return;
        }
        if data & DATA_LISTENER != 0 {
            return self.list_listener(ListenerToken(data as u32));
        }
        let id = ConnectionId::from_bits(data);
        let Some(connection) = self.connections.lookup(id) else { return };
        if connection.is_connecting && !self.end_connecting(id, events) {
            return;
        }
        let Some(connection) = self.connections.lookup(id) else { return };
        if events & libc::EPOLLOUT != 0 && connection.is_full {
            self.resume_sends(id);
        }
        if events & !libc::EPOLLOUT != 0 {
            let Some(connection) = self.connections.lookup_mut(id) else { return };
            connection.is_readable = true;
            connection.is_hung_up |= events & !(libc::EPOLLOUT | libc::EPOLLIN) != 0;
            self.list_if_readable(id);
            self.report_hang_up(id);
        }
    }

    /// Adds a connection to the read list, if it is readable, not paused and not yet listed.
    fn list_if_readable(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.is_readable && !connection.is_listed && connection.wants_bytes() {
            connection.is_listed = true;
            self.ready.push_back(Ready::Connection(id));
        }
    }
}
