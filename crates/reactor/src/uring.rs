//! The io_uring backend: one system call per turn.
//!
//! - Receives and accepts are armed once and complete many times (multishot). Receives use the buffers of
//!   `buffer_ring`, which the kernel picks.
//! - Sends are submitted together with the wait. A small one is **quiet**: it may not block (`MSG_DONTWAIT`),
//!   so it has ended when it is submitted, and it posts a completion only if not all is sent
//!   (`CQE_SKIP_SUCCESS` with `MSG_WAITALL`). So it neither ends the wait nor costs a completion. Larger sends
//!   always complete, but don't block either: the rest after a full socket is sent once a poll has found room.
//!   A blocking send might be passed to a kernel worker thread, which may hold on to the socket after the
//!   completion.
//! - Connecting is likewise a call that does not block, and a poll for room.
//! - All requests are made in [`Uring::wait`]; other methods change the desired state and list the connection
//!   in `changed`.
//! - Completions are taken from the queue in `wait` and handled one by one in `next_event`, so that the
//!   caller's reaction to one event applies to the next.
//!
//! A connection's entry lives until its last request has completed, so each completion finds it.
//!
//! | from | event | to |
//! |---|---|---|
//! | No | the caller closes, or a send or receive fails [`Uring::leave`] | Closing |
//! | No | the caller detaches [`Uring::detach`] | Detaching |
//! | Detaching | the connection is closed or fails [`Uring::leave`] | Closing |
//! | Closing, Detaching | no request is in flight any more [`Uring::leave_if_quiet`] | removed, with its last event |
//!
//! Invariants:
//! 1. `in_flight_count` requests will post a completion without `MORE`.
//! 2. A connection is in `changed` once if `is_changed`, in `flush` once if `is_in_flush`, in `starved` once if
//!    `is_starved`.
//! 3. Bytes in `held` precede all bytes still to complete.

mod accept;
mod close;
mod connect;
mod hang_up;
mod kernel;
mod probe;
mod receive;
mod request;
mod ring;
mod send;
#[cfg(feature = "simulation")]
mod simulated;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use accept::Listeners;
use request::{Completion, Operation, Request};
use ring::Ring;
use send::MessageArena;

use crate::connection_table::ConnectionTable;
use crate::receive_buffer::Pool;
use crate::receive_buffer::buffer_ring::{BufferRing, GROUP};
use crate::send_queue::SendQueue;
use crate::waker::WakeState;
use crate::yield_policy::YieldPolicy;
use crate::{CloseReason, ConnectionId, Event, ReactorError, ReactorOptions, Socket};

/// The top byte of a request's user data; below it are a connection's bits or a listener's token.
const KIND_RECEIVE: u64 = 1 << ConnectionId::BITS;
const KIND_SEND: u64 = 2 << ConnectionId::BITS;
const KIND_ACCEPT: u64 = 3 << ConnectionId::BITS;
const KIND_WAKE: u64 = 4 << ConnectionId::BITS;
const KIND_HANG_UP: u64 = 5 << ConnectionId::BITS;
/// Flag in the kind of a request that cancels the request with the rest of the user data.
const KIND_CANCEL: u64 = 0x80 << ConnectionId::BITS;
const KIND_MASK: u64 = 0xff << ConnectionId::BITS;

pub(crate) struct Uring {
    /// Dropped first, and after all requests have ended; see `drop`.
    ring: ManuallyDrop<Ring>,
    pool: ManuallyDrop<Rc<Pool>>,
    connections: ManuallyDrop<ConnectionTable<Connection>>,
    messages: ManuallyDrop<MessageArena>,
    wake: Arc<WakeState>,
    is_wake_armed: bool,
    yield_policy: YieldPolicy,
    listeners: Listeners,
    in_flight_count: usize,
    /// Completions of this turn; those before `completion_index` are handled.
    completions: Vec<Completion>,
    completion_index: usize,
    /// Connections that may need requests made or cancelled.
    changed: Vec<ConnectionId>,
    /// Connections with pending sends.
    flush: Vec<ConnectionId>,
    /// Connections whose quiet sends are being submitted.
    quiet: Vec<ConnectionId>,
    /// Connections without a receive buffer, in the order to serve them.
    starved: VecDeque<ConnectionId>,
    /// Connections resumed with bytes in `held`.
    resumed: VecDeque<ConnectionId>,
    /// Completed events, delivered first.
    events: VecDeque<Event>,
}

struct Connection {
    socket: Socket,
    token: u64,
    sends: SendQueue,
    receiving: Receiving,
    sending: Sending,
    watching: Watching,
    /// Bytes received while paused or detaching.
    held: Vec<u8>,
    /// Whether end of file was received but not reported yet.
    holds_eof: bool,
    is_paused: bool,
    is_at_eof: bool,
    /// Whether the peer's end was reported during a pause.
    has_hung_up: bool,
    /// The socket is not connected yet, and has no room until then.
    is_connecting: bool,
    /// The socket took less than was offered: wait for room before the next send.
    is_full: bool,
    is_changed: bool,
    is_in_flush: bool,
    is_starved: bool,
    ending: Ending,
    leaving: Leaving,
}

/// The receive request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Idle,
    Armed,
    /// Armed, and being cancelled.
    Cancelled,
}

/// The poll for the peer's end while receiving is paused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watching {
    Idle,
    Armed,
    /// Armed, and being cancelled.
    Cancelled,
}

/// The send request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Idle,
    /// A send that posts no completion if all `size` bytes are sent.
    Quiet {
        size: usize,
    },
    /// A send of `size` bytes that completes as soon as it is submitted.
    Prompt {
        size: usize,
    },
    /// A poll that completes when the socket has room again.
    AwaitingRoom,
    /// A poll for room that is being cancelled.
    Cancelled,
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

/// How the connection leaves the reactor once no request is in flight.
enum Leaving {
    No,
    Closing(CloseReason),
    Detaching,
}

impl Connection {
    fn new(socket: Socket, token: u64) -> Self {
        Self {
            socket,
            token,
            sends: SendQueue::default(),
            receiving: Receiving::Idle,
            sending: Sending::Idle,
            watching: Watching::Idle,
            held: Vec::new(),
            holds_eof: false,
            is_paused: false,
            is_at_eof: false,
            has_hung_up: false,
            is_connecting: false,
            is_full: false,
            is_changed: false,
            is_in_flush: false,
            is_starved: false,
            ending: Ending::None,
            leaving: Leaving::No,
        }
    }

    fn is_leaving(&self) -> bool {
        !matches!(self.leaving, Leaving::No)
    }

    fn wants_bytes(&self) -> bool {
        !self.is_paused && !self.is_leaving() && self.ending != Ending::Close
    }

    fn wants_receive(&self) -> bool {
        self.wants_bytes() && !self.is_connecting && !self.is_at_eof && !self.holds_eof
    }
}

impl Uring {
    pub(crate) fn new(wake: Arc<WakeState>, options: ReactorOptions) -> Result<Self, ReactorError> {
        #[cfg(feature = "simulation")]
        let options = crate::simulated::Network::current().map_or(options, |network| network.adjust(options));
        assert!(options.recv_buffer_size > 0 && options.recv_buffer_count > 0, "sizes are positive");
        let at = |step| move |source| ReactorError::Uring { step, source };
        let mut ring = Ring::new(options.entries).map_err(at("io_uring_setup"))?;
        if !ring.has_features() {
            let source = io::Error::new(io::ErrorKind::Unsupported, "the kernel is too old");
            return Err(ReactorError::Uring { step: "features", source });
        }
        let register = |start, entry_count| {
            // SAFETY: (1) the array is page-aligned and zeroed and lives as long as the pool: `Uring` keeps the pool, and
            // drops the ring first.
            unsafe { ring.register_buffers(start, entry_count, GROUP) }
        };
        let buffers = BufferRing::new(options.recv_buffer_size, options.recv_buffer_count, register)
            .map_err(at("registering receive buffers"))?;
        if ring.is_real() {
            probe::probe(&mut ring, &buffers)
                .map_err(|(step, source)| ReactorError::Uring { step, source })?;
        }
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            pool: ManuallyDrop::new(Rc::new(Pool::Ring(buffers))),
            connections: ManuallyDrop::new(ConnectionTable::new()),
            messages: ManuallyDrop::new(MessageArena::default()),
            wake,
            is_wake_armed: false,
            yield_policy: YieldPolicy::default(),
            listeners: Listeners::default(),
            in_flight_count: 0,
            completions: Vec::new(),
            completion_index: 0,
            changed: Vec::new(),
            flush: Vec::new(),
            quiet: Vec::new(),
            starved: VecDeque::new(),
            resumed: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    pub(crate) fn adopt(&mut self, socket: Socket, token: u64) -> ConnectionId {
        let id = self.connections.insert(Connection::new(socket, token));
        self.note_change(id);
        id
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn socket(&self, id: ConnectionId) -> Option<&Socket> {
        Some(&self.connections.lookup(id)?.socket)
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<(), ReactorError> {
        let mut timeout = self.make_requests(timeout).map_err(ReactorError::system("io_uring_enter"))?;
        let has_work = !self.events.is_empty()
            || !self.resumed.is_empty()
            || self.completion_index < self.completions.len();
        let may_block = !has_work && timeout != Some(Duration::ZERO);
        if may_block && self.ring.is_real() && self.yield_policy.is_due() {
            // Queued requests are submitted first: their recipients may be waiting.
            self.ring.enter(0, None).map_err(ReactorError::system("io_uring_enter"))?;
            timeout = self.yield_policy.yield_once(timeout);
        }
        let blocks = may_block && self.wake.try_sleep();
        let entered = if blocks { self.ring.enter(1, timeout) } else { self.ring.enter(0, None) };
        if self.wake.finish_wait() {
            self.events.push_back(Event::Woken);
        }
        entered.and_then(|()| self.take_completions()).map_err(ReactorError::system("io_uring_enter"))
    }

    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if let Some(id) = self.resumed.pop_front() {
                self.deliver_held(id);
                continue;
            }
            let completion = *self.completions.get(self.completion_index)?;
            self.completion_index += 1;
            if let Some(event) = self.complete(&completion) {
                return Some(event);
            }
        }
    }

    /// Queues all requests that the current state requires. Returns `timeout`, shortened to the end of a back-off.
    fn make_requests(&mut self, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
        if !self.is_wake_armed {
            let poll = Request::new(KIND_WAKE, Operation::AwaitSignals { fd: self.wake.eventfd() });
            // SAFETY: (1) it contains no pointers.
            unsafe { self.push(&poll)? };
            self.is_wake_armed = true;
        }
        let timeout = self.update_listeners(timeout)?;
        self.resume_starved();
        self.submit_sends()?;
        let mut changed = std::mem::take(&mut self.changed);
        for id in changed.drain(..) {
            self.adjust(id)?;
        }
        // Adjusting changes nothing else, so this keeps the allocation and loses no entry.
        debug_assert!(self.changed.is_empty());
        self.changed = changed;
        Ok(timeout)
    }

    /// Takes the posted completions, and settles sends at once; the others are left for `next_event`.
    fn take_completions(&mut self) -> io::Result<()> {
        self.completions.drain(..self.completion_index);
        self.completion_index = 0;
        let first_new = self.completions.len();
        self.ring.take_completions(&mut self.completions)?;
        for index in first_new..self.completions.len() {
            let completion = &self.completions[index];
            let Completion { user_data, result, .. } = *completion;
            if user_data & KIND_MASK == KIND_SEND {
                self.complete_send(ConnectionId::from_bits(user_data), result);
            }
        }
        self.settle_quiet_sends();
        Ok(())
    }

    /// Handles a completion. Send completions have already been handled.
    #[inline]
    fn complete(&mut self, completion: &Completion) -> Option<Event> {
        let user_data = completion.user_data;
        let kind = user_data & KIND_MASK;
        if kind == KIND_RECEIVE {
            return self.complete_receive(ConnectionId::from_bits(user_data), completion);
        }
        if kind == KIND_ACCEPT {
            return self.complete_accept(user_data, completion);
        }
        if kind == KIND_HANG_UP {
            return self.complete_hang_up(ConnectionId::from_bits(user_data), completion.result);
        }
        if kind & KIND_CANCEL != 0 {
            self.complete_cancel(user_data & !KIND_CANCEL);
        }
        if kind == KIND_WAKE && !completion.has_more() {
            self.is_wake_armed = false;
            self.in_flight_count -= 1;
        }
        None
    }

    /// Queues a request that will complete.
    ///
    /// # Safety
    ///
    /// 1. See [`Ring::push`].
    unsafe fn push(&mut self, request: &Request) -> io::Result<()> {
        // SAFETY: (1) is the callee's condition.
        unsafe { self.ring.push(request)? };
        self.in_flight_count += 1;
        Ok(())
    }

    /// Cancels the request with this user data, which completes in any case. The cancellation completes only if
    /// it fails.
    fn push_cancel(&mut self, user_data: u64) -> io::Result<()> {
        let cancel = Request::new(KIND_CANCEL | user_data, Operation::Cancel { user_data }).quiet();
        // SAFETY: (1) it contains no pointers.
        unsafe { self.ring.push(&cancel) }
    }

    /// Handles a failed cancellation: the request has ended by itself, or must be cancelled again.
    fn complete_cancel(&mut self, user_data: u64) {
        let kind = user_data & KIND_MASK;
        if kind == KIND_ACCEPT {
            return self.listeners.cancel_again(user_data);
        }
        let id = ConnectionId::from_bits(user_data);
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if kind == KIND_RECEIVE && connection.receiving == Receiving::Cancelled {
            connection.receiving = Receiving::Armed;
        } else if kind == KIND_SEND && connection.sending == Sending::Cancelled {
            connection.sending = Sending::AwaitingRoom;
        } else if kind == KIND_HANG_UP && connection.watching == Watching::Cancelled {
            connection.watching = Watching::Armed;
        }
        self.note_change(id);
    }

    /// Lists the connection for adjustment in the next wait.
    fn note_change(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !std::mem::replace(&mut connection.is_changed, true) {
            self.changed.push(id);
        }
    }

    /// Makes and cancels a connection's requests to match the desired state.
    fn adjust(&mut self, id: ConnectionId) -> io::Result<()> {
        let Some(connection) = self.connections.lookup_mut(id) else { return Ok(()) };
        connection.is_changed = false;
        match connection.receiving {
            Receiving::Idle if connection.wants_receive() && !connection.is_starved => {
                connection.receiving = Receiving::Armed;
                let receive = Operation::Receive { fd: connection.socket.as_raw_fd() };
                let request = Request::new(KIND_RECEIVE | id.to_bits(), receive);
                // SAFETY: (1) it contains no pointers; buffers come from the group.
                unsafe { self.push(&request)? };
            }
            Receiving::Armed if !connection.wants_receive() => {
                connection.receiving = Receiving::Cancelled;
                self.push_cancel(KIND_RECEIVE | id.to_bits())?;
            }
            _ => {}
        }
        let Some(connection) = self.connections.lookup_mut(id) else { return Ok(()) };
        if connection.is_leaving() && connection.sending == Sending::AwaitingRoom {
            connection.sending = Sending::Cancelled;
            self.push_cancel(KIND_SEND | id.to_bits())?;
        }
        self.adjust_watch(id)
    }
}

impl Drop for Uring {
    /// Ends all requests before it frees the memory that they use. If they do not end, the memory is leaked.
    fn drop(&mut self) {
        if !self.cancel_everything() {
            return;
        }
        // Without receives in flight the kernel takes no buffers; on failure the group is freed with the ring.
        let _ = self.ring.unregister_buffers(GROUP);
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.connections) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.messages) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.pool) };
    }
}
