//! What one server thread tells another, and the seats through which they find each other.
//!
//! Invariant: a seat's mailbox outlives the thread in it, so mail to a thread that is gone is never lost in transit:
//! it is read by the next thread in that seat, which drops what names none of its connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use base::limits::THREAD_COUNT_MAX;
use reactor::{Socket, Waker};
use sync::{Mailbox, ThreadCounter};

use crate::connection::{Connection, Token};
use crate::listeners::{Origin, Relisten};
use crate::listening::{Broadcast, Invalidation, Message};

/// A message to a thread.
pub enum Mail {
    /// A new connection to serve.
    Accepted(Socket, Origin),
    /// A connection that another thread served until now.
    Moved(Box<MovedConnection>),
    /// The latch that this session waits for is worth another try.
    Resume(Token),
    /// Close this connection if it still is the client with this id.
    Kill(Token, u64),
    /// This client's wait is over: what it waited for has come, and this is its reply.
    Served(Token, u64, Vec<u8>),
    /// This client's wait was asked to end while it was served in vain: it is over.
    Missed(Token, u64),
    /// This client's wait is over by `CLIENT UNBLOCK`.
    Unblock(Token, u64, UnblockReply),
    /// Listen elsewhere; for the first thread.
    Relisten(Relisten),
    /// Close this connection, if it still is the client with this id, to free memory: it weighs so many bytes.
    Evict(Token, u64, u64),
    /// This connection wants to know when what has arrived here by now is done; and which of its questions it is.
    AskTurn(Token, u64),
    /// The answer, from one thread.
    TurnEnded(Token, u64),
    /// `CLIENT PAUSE` ended or changed.
    PauseChanged,
    /// The configuration changed.
    ConfigChanged,
    /// `MEMORY PURGE`
    ReleaseFreeMemory,
    /// A line for the connections in `MONITOR` mode.
    Monitor(Arc<[u8]>),
    /// A message for those who listen.
    Published(Arc<Message>),
    /// Keys that a connection may not keep any more.
    Invalidated(Box<Invalidation>),
    /// Keys that changed, for those who are told of all changes.
    Broadcast(Arc<Broadcast>),
    /// No connection may keep anything any more.
    InvalidatedAll,
    /// What was handled ahead of its turn.
    Nothing,
    /// The number of threads changed: this one may have to end, or not to, and to be scheduled in another way.
    ThreadCountChanged,
    /// The server ends: flush what is to be sent, and end.
    Stop,
}

/// How a blocked client is woken by `CLIENT UNBLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnblockReply {
    /// As if its time were over.
    Timeout,
    /// With an error.
    Error,
}

/// A connection on its way from one thread to another.
pub struct MovedConnection {
    /// Its state; its token is the old one.
    pub connection: Box<Connection>,
    /// The live socket.
    pub socket: Socket,
    /// What is still to be sent, in order.
    pub unsent: Vec<Vec<u8>>,
    /// What was received and not looked at yet.
    pub unread: Vec<u8>,
}

/// Where a thread can be reached.
#[derive(Default)]
pub struct Seat {
    mailbox: Mailbox<Mail>,
    waker: RwLock<Option<Waker>>,
    /// Connections served here now; written by the thread in the seat.
    pub connection_count: ThreadCounter,
    /// Connections on their way here.
    expected: AtomicU64,
    /// Nothing may be sent here any more.
    closed: AtomicBool,
    busy_permille: ThreadCounter,
}

/// All seats there can be.
pub struct Seats {
    seats: Box<[Seat]>,
}

impl Seats {
    /// Empty seats.
    #[must_use]
    pub fn new() -> Self {
        Self { seats: (0..THREAD_COUNT_MAX).map(|_| Seat::default()).collect() }
    }

    /// The seat of a thread.
    #[must_use]
    pub fn seat(&self, thread: usize) -> &Seat {
        &self.seats[thread]
    }

    /// The seats that have a thread.
    pub fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(|seat| self.seats[*seat].is_occupied())
    }

    /// Announces a connection to a thread, or to the first one if that thread ends. Returns which it was.
    #[must_use]
    pub fn expect_connection(&self, thread: usize) -> usize {
        if self.seats[thread].expect_connection() {
            return thread;
        }
        let first_is_open = self.seats[0].expect_connection();
        debug_assert!(first_is_open, "the first thread ends last");
        0
    }

    /// Sends a message, and wakes the thread if it sleeps.
    pub fn post(&self, thread: usize, mail: Mail) {
        self.seats[thread].post(mail);
    }
}

impl Default for Seats {
    fn default() -> Self {
        Self::new()
    }
}

impl Seat {
    /// A thread takes the seat.
    pub fn occupy(&self, waker: Waker) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(waker);
    }

    /// The thread leaves it.
    pub fn vacate(&self) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    fn is_occupied(&self) -> bool {
        self.waker.read().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some()
    }

    /// Connections served here or on their way here.
    #[must_use]
    pub fn load(&self) -> u64 {
        self.connection_count.value() + self.expected.load(Ordering::Relaxed)
    }

    /// A connection is about to be sent here. `false`: it must not be, the thread here ends.
    #[must_use]
    pub fn expect_connection(&self) -> bool {
        // SeqCst, here and in `try_close`: either this sees that the seat is closed, or that sees what is expected.
        self.expected.fetch_add(1, Ordering::SeqCst);
        let is_open = !self.closed.load(Ordering::SeqCst);
        if !is_open {
            self.expected.fetch_sub(1, Ordering::SeqCst);
        }
        is_open
    }

    /// Lets nothing be sent here any more, unless something is on its way.
    #[must_use]
    pub fn try_close(&self) -> bool {
        self.closed.store(true, Ordering::SeqCst);
        let is_free = self.expected.load(Ordering::SeqCst) == 0;
        if !is_free {
            self.closed.store(false, Ordering::SeqCst);
        }
        is_free
    }

    /// Undoes [`Self::try_close`], for a new thread.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// It has arrived.
    pub fn connection_arrived(&self) {
        self.expected.fetch_sub(1, Ordering::SeqCst);
    }

    /// How much of its time the thread was busy of late, in thousandths.
    #[must_use]
    pub fn busy_permille(&self) -> u64 {
        self.busy_permille.value()
    }

    /// Sets it; only the thread in the seat does.
    pub fn set_busy_permille(&self, permille: u64) {
        self.busy_permille.set(permille.min(1000));
    }

    fn post(&self, mail: Mail) {
        if self.mailbox.post(mail) {
            let waker = self.waker.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(waker) = &*waker {
                waker.wake();
            }
        }
    }

    /// The mailbox, for the thread in the seat.
    #[must_use]
    pub fn mailbox(&self) -> &Mailbox<Mail> {
        &self.mailbox
    }
}
