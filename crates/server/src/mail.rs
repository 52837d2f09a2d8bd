//! What one server thread tells another, and the workers through which they find each other.
//!
//! Invariants:
//! 1. Mail that a handle accepts is handled by the thread in it: the thread ends by closing the handle, which fails as long as
//!    there is mail or a connection is on its way.
//! 2. Mail for a closed handle goes to a thread that can handle it, or is dropped if it is for connections that only the closed
//!    handle could have, see [`Workers::post`].

use std::sync::Arc;

use base::limits::THREAD_COUNT_MAX;
use reactor::{Socket, Waker};
use sync::RwLock;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::simulation::{self, Fault, Gap, planted};
use sync::{Mailbox, ThreadCounter};

use crate::connection::{Connection, Token};
use crate::listeners::{Origin, Relisten};
use crate::pubsub::{Broadcast, Invalidation, Message};

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
    BarrierRequest(Token, u64),
    /// The answer, from this thread.
    BarrierAck(Token, u64, usize),
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
pub struct WorkerHandle {
    mailbox: Mailbox<Mail>,
    waker: RwLock<Option<Waker>>,
    /// Connections served here now; written by the thread in the handle.
    pub connection_count: ThreadCounter,
    /// Connections on their way here.
    expected: AtomicU64,
    /// No connection may be sent here.
    closed: AtomicBool,
    busy_permille: ThreadCounter,
}

impl Default for WorkerHandle {
    /// A closed handle.
    fn default() -> Self {
        let mailbox = Mailbox::new();
        let is_closed = mailbox.close();
        debug_assert!(is_closed, "it is new");
        Self {
            mailbox,
            waker: RwLock::default(),
            connection_count: ThreadCounter::default(),
            expected: AtomicU64::default(),
            closed: AtomicBool::new(true),
            busy_permille: ThreadCounter::default(),
        }
    }
}

/// All workers there can be.
pub struct Workers {
    workers: Box<[WorkerHandle]>,
}

impl Workers {
    /// Empty workers.
    #[must_use]
    pub fn new() -> Self {
        Self { workers: (0..THREAD_COUNT_MAX).map(|_| WorkerHandle::default()).collect() }
    }

    /// Workers that accept mail, without threads.
    #[cfg(test)]
    pub fn all_open() -> Self {
        let workers = Self::new();
        workers.workers.iter().for_each(WorkerHandle::open);
        workers
    }

    /// The handle of a thread.
    #[must_use]
    pub fn handle(&self, thread: usize) -> &WorkerHandle {
        &self.workers[thread]
    }

    /// The workers that have a thread.
    pub fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.workers.len()).filter(|handle| self.workers[*handle].is_occupied())
    }

    /// Announces a connection to a thread, or to the first one if that thread ends. Returns which it was.
    #[must_use]
    pub fn expect_connection(&self, thread: usize) -> usize {
        if self.workers[thread].expect_connection() {
            return thread;
        }
        // It is open as long as the server does not end.
        let _ = self.workers[0].expect_connection();
        0
    }

    /// Sends a message, and wakes the thread if it sleeps. If the thread has ended, the message goes where it can be handled.
    pub fn post(&self, thread: usize, mail: Mail) {
        if let Err(mail) = self.try_post(thread, mail) {
            self.reroute(thread, mail);
        }
    }

    /// Sends a message, and wakes the thread if it sleeps.
    ///
    /// # Errors
    /// The thread has ended; the message is returned.
    pub fn try_post(&self, thread: usize, mail: Mail) -> Result<(), Mail> {
        simulation::pass(Gap::ReceiverChosen);
        self.workers[thread].post(mail)
    }

    #[cold]
    fn reroute(&self, from: usize, mail: Mail) {
        match mail {
            // Any thread finds out where the connection is now. The first one ends with the server only.
            Mail::Served(..) | Mail::Missed(..) | Mail::Unblock(..) | Mail::Evict(..) if from != 0 => {
                self.post(0, mail);
            }
            // What had arrived there is done.
            Mail::BarrierRequest(token, question) => {
                self.post(token.thread(), Mail::BarrierAck(token, question, from));
            }
            // A connection is announced before it is sent, so this is the end of the server: the socket is closed.
            Mail::Accepted(..) | Mail::Moved(_) => {}
            // The connection is closed, or has been taken out of the registry, where its next thread finds that.
            Mail::Kill(..) => {}
            // No session of that thread waits for a latch, or for turns.
            Mail::Resume(_) | Mail::BarrierAck(..) => {}
            // Its sender looks for the connection again, see `Hub::forward`.
            Mail::Invalidated(_) => {}
            // For the thread itself, or for those of its connections that are there.
            _ => {}
        }
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerHandle {
    /// A thread takes the handle, which is open from now on.
    pub fn occupy(&self, waker: Waker) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(waker);
        self.open();
    }

    /// The thread leaves it.
    pub fn vacate(&self) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Whether a thread is in it.
    #[must_use]
    pub fn is_occupied(&self) -> bool {
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
        // SeqCst, here and in `try_close`: either this sees that the handle is closed, or that sees what is expected.
        self.expected.fetch_add(1, Ordering::SeqCst);
        let is_open = !self.closed.load(Ordering::SeqCst);
        if !is_open {
            self.expected.fetch_sub(1, Ordering::SeqCst);
        }
        is_open
    }

    /// Lets nothing be sent here any more, unless something is on its way or has not been read.
    #[must_use]
    pub fn try_close(&self) -> bool {
        self.closed.store(true, Ordering::SeqCst);
        let is_free = self.expected.load(Ordering::SeqCst) == 0
            && (planted(Fault::MailToClosedSeat) || self.mailbox.close());
        if !is_free {
            self.closed.store(false, Ordering::SeqCst);
        }
        is_free
    }

    /// Undoes [`Self::try_close`], for a new thread.
    pub fn open(&self) {
        self.mailbox.open();
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

    /// Sets it; only the thread in the handle does.
    pub fn set_busy_permille(&self, permille: u64) {
        self.busy_permille.set(permille.min(1000));
    }

    fn post(&self, mail: Mail) -> Result<(), Mail> {
        if self.mailbox.post(mail)? {
            let waker = self.waker.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(waker) = &*waker {
                waker.wake();
            }
        }
        Ok(())
    }

    /// The mailbox, for the thread in the handle.
    #[must_use]
    pub fn mailbox(&self) -> &Mailbox<Mail> {
        &self.mailbox
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail_of(workers: &Workers, thread: usize) -> Vec<Mail> {
        let mut mail = Vec::new();
        workers.handle(thread).mailbox().drain(&mut mail);
        mail
    }

    #[test]
    fn a_seat_closes_when_nothing_is_on_its_way() {
        let workers = Workers::new();
        assert!(workers.try_post(1, Mail::Nothing).is_err() && !workers.handle(1).expect_connection());
        workers.handle(1).open();
        assert!(workers.try_post(1, Mail::Nothing).is_ok());
        assert!(!workers.handle(1).try_close(), "there is mail");
        assert_eq!(mail_of(&workers, 1).len(), 1);
        assert!(workers.handle(1).expect_connection());
        assert!(!workers.handle(1).try_close(), "a connection is on its way");
        workers.handle(1).connection_arrived();
        assert!(workers.handle(1).try_close());
        assert!(workers.try_post(1, Mail::Nothing).is_err() && !workers.handle(1).expect_connection());
    }

    #[test]
    fn mail_for_a_closed_seat_goes_on() {
        let workers = Workers::new();
        [0, 2].iter().for_each(|thread| workers.handle(*thread).open());
        let (gone, asker) = (Token::new(1, 5, 3), Token::new(2, 6, 4));
        workers.post(1, Mail::Served(gone, 9, b"+OK\r\n".to_vec()));
        workers.post(1, Mail::Missed(gone, 9));
        workers.post(1, Mail::Unblock(gone, 9, UnblockReply::Timeout));
        workers.post(1, Mail::Evict(gone, 9, 100));
        workers.post(1, Mail::BarrierRequest(asker, 7));
        workers.post(1, Mail::Kill(gone, 9));
        let mail = mail_of(&workers, 0);
        assert!(matches!(
            &mail[..],
            [Mail::Served(_, 9, _), Mail::Missed(_, 9), Mail::Unblock(_, 9, _), Mail::Evict(_, 9, 100)]
        ));
        assert!(matches!(&mail_of(&workers, 2)[..], [Mail::BarrierAck(token, 7, 1)] if *token == asker));
    }
}
