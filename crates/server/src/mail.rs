//! Messages from one worker to another, and the worker handles by which they are addressed.
//!
//! Invariants:
//! 1. Mail that a handle accepts is handled by its worker. A worker ends by closing the handle, which
//!    fails while mail is unread or a connection is in transit.
//! 2. Mail for a closed handle goes to a worker that can handle it. It is dropped if it is for
//!    connections that only the closed handle could have, see [`Workers::post`].

pub mod invalidation;
pub mod message;

use std::sync::Arc;

use base::limits::REPLAY_THREAD;
use base::{DbIndex, Lsn};
use reactor::{Socket, Waker};
use sync::RwLock;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::simulation::{self, Gap, planted};
use sync::{Mailbox, ThreadCounter};

use crate::connection::Connection;
use crate::connection::client::{Forwarding, UnblockReply};
use crate::connection::listeners::{Origin, Relisten};
use crate::connection::record::ClientRecord;
use crate::connection::registry::Registry;
use crate::connection::token::Token;
use crate::faults;
use crate::links::LinkMail;
use invalidation::{Broadcast, Invalidation};
use message::Message;

/// A message to a worker.
pub enum Mail {
    /// A new connection to serve.
    Accepted(Socket, Origin),
    /// The stream of the primary, to be applied.
    Primary(Box<PrimaryStream>),
    /// A connection that another worker served until now.
    Moved(Box<MovedConnection>),
    /// This session may claim the latch that it waits for.
    Resume(Token),
    /// Close this connection if it still is the client with this id.
    Kill(Token, u64),
    /// This client is served: its wait has ended with this reply.
    Served(Token, u64, Vec<u8>, Lsn),
    /// Serving this client failed while its wait was being ended: the wait has ended.
    Missed(Token, u64),
    /// This client's wait was ended by `CLIENT UNBLOCK` or a change of the role.
    Unblock(Token, u64, UnblockReply),
    /// Change the listeners; for the first worker.
    Relisten(Relisten),
    /// Close a connection, if it still is the client with this id, to free memory.
    Evict {
        /// The connection.
        connection: Token,
        /// The id of its client.
        client: u64,
        /// The memory that it uses, in bytes.
        size: u64,
    },
    /// A connection waits until all mail that has arrived here by now is handled.
    BarrierRequest(BarrierRequest),
    /// A pause has begun: a connection waits until, besides, the scripts that have begun here and may write have ended.
    PauseRequest(BarrierRequest),
    /// The answer to a barrier request or a pause request.
    BarrierAck {
        /// What is answered.
        request: BarrierRequest,
        /// The worker that answers.
        thread: usize,
    },
    /// This client waits for the end of a save or of the server: this is its reply.
    Answered(Token, u64, &'static [u8]),
    /// For a connection to another server.
    Link(LinkMail),
    /// `CLIENT PAUSE` ended or changed.
    PauseChanged,
    /// The configuration changed.
    ConfigChanged,
    /// The users changed.
    UsersChanged,
    /// `MEMORY PURGE`
    ReleaseFreeMemory,
    /// A line for the connections in `MONITOR` mode.
    Monitor(Arc<[u8]>),
    /// A message for subscribers.
    Published(Arc<Message>),
    /// Keys that a connection must drop from its cache.
    Invalidated(Box<Invalidation>),
    /// Changed keys, for connections in broadcasting mode.
    Broadcast(Arc<Broadcast>),
    /// All connections must drop their caches.
    InvalidatedAll,
    /// More of the write log is durable, or more lines of the log are written: replies that waited for it can be sent.
    Durable,
    /// Mail that was already handled.
    Nothing,
    /// The number of workers changed: whether this worker must end may change, and so may its scheduling.
    ThreadCountChanged,
    /// The server ends: send the remaining output, and end.
    Stop,
}

/// A request of a connection, or of a failover, that waits for all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierRequest {
    /// The connection, [`Token::FAILOVER`], [`Token::SHUTDOWN`] or [`Token::ROLE`].
    pub connection: Token,
    /// The number of the request among those of the connection or of failovers, or the epoch of the role.
    pub number: u64,
}

/// A connection in transit from one worker to another.
pub struct MovedConnection {
    /// Its state, with its old token.
    pub connection: Box<Connection>,
    /// The live socket.
    pub socket: Socket,
    /// Output that is still to be sent, in order.
    pub unsent: Vec<Vec<u8>>,
    /// Input that was received and not processed yet.
    pub unread: Vec<u8>,
}

/// The connection to the primary, from the handshake to the worker that applies the stream.
pub struct PrimaryStream {
    /// The live socket.
    pub socket: Socket,
    /// Its TLS; `None`: its bytes are plain.
    pub encryption: Option<Box<tls::Stream>>,
    /// Its record.
    pub record: Arc<ClientRecord>,
    /// The database that the stream has selected.
    pub db: DbIndex,
    /// Where its requests are counted.
    pub forwarding: Box<Forwarding>,
    /// Plain bytes of the stream that were received already.
    pub plain: Vec<u8>,
    /// Bytes that were received and, with TLS, not decrypted yet.
    pub unread: Vec<u8>,
}

/// The address of a worker.
pub struct WorkerHandle {
    mailbox: Mailbox<Mail>,
    waker: RwLock<Option<Waker>>,
    /// Connections served here now; written by the worker of the handle.
    pub connection_count: ThreadCounter,
    /// Connections announced to this worker that have not arrived.
    expected: AtomicU64,
    /// Whether no connection may be sent here.
    closed: AtomicBool,
    busy_permille: ThreadCounter,
    running_permille: ThreadCounter,
}

impl Default for WorkerHandle {
    /// Returns a closed handle.
    fn default() -> Self {
        let mailbox = Mailbox::new();
        let is_closed = mailbox.close();
        debug_assert!(is_closed, "a new handle is closed");
        Self {
            mailbox,
            waker: RwLock::default(),
            connection_count: ThreadCounter::default(),
            expected: AtomicU64::default(),
            closed: AtomicBool::new(true),
            busy_permille: ThreadCounter::default(),
            running_permille: ThreadCounter::default(),
        }
    }
}

/// All possible workers.
pub struct Workers {
    workers: Box<[WorkerHandle]>,
}

impl Workers {
    /// Returns workers that are all closed. The last handle is that of the replay, which is never opened.
    #[must_use]
    pub fn new() -> Self {
        Self { workers: (0..=REPLAY_THREAD).map(|_| WorkerHandle::default()).collect() }
    }

    /// Returns workers that accept mail, without threads.
    #[cfg(test)]
    pub fn all_open() -> Self {
        let workers = Self::new();
        workers.workers.iter().for_each(WorkerHandle::open);
        workers
    }

    /// The handle of a worker.
    #[must_use]
    pub fn handle(&self, thread: usize) -> &WorkerHandle {
        &self.workers[thread]
    }

    /// The workers that have a thread.
    pub fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.workers.len()).filter(|handle| self.workers[*handle].is_occupied())
    }

    /// Requests the ends of the turns of these workers. A request that is answered twice does no harm.
    pub fn request_turns(
        &self,
        workers: impl IntoIterator<Item = usize>,
        mail: fn(BarrierRequest) -> Mail,
        request: BarrierRequest,
    ) {
        workers.into_iter().for_each(|worker| self.post(worker, mail(request)));
    }

    /// Announces a connection to a worker, or to the first one if that worker ends. Returns which.
    #[must_use]
    pub fn expect_connection(&self, thread: usize) -> usize {
        if self.workers[thread].expect_connection() {
            return thread;
        }
        // It is open until the server ends.
        let _ = self.workers[0].expect_connection();
        0
    }

    /// Sends a message, and wakes the worker if it sleeps. If the worker has ended, the message goes to a
    /// worker that can handle it.
    pub fn post(&self, thread: usize, mail: Mail) {
        if let Err(mail) = self.try_post(thread, mail) {
            self.reroute(thread, mail);
        }
    }

    /// Sends a message, and wakes the worker if it sleeps.
    ///
    /// # Errors
    /// The worker has ended; the message is returned.
    pub fn try_post(&self, thread: usize, mail: Mail) -> Result<(), Mail> {
        simulation::pass(Gap::ReceiverChosen);
        self.workers[thread].post(mail)
    }

    /// Answers a client that waits for the end of work outside of its worker, unless it has left.
    pub fn answer(&self, clients: &Registry, client: u64, reply: &'static [u8]) {
        if let Some(record) = clients.find(client) {
            let place = record.place();
            self.post(place.thread(), Mail::Answered(place, client, reply));
        }
    }

    /// Sends a message to every running worker.
    pub fn post_all(&self, mail: impl Fn() -> Mail) {
        for thread in self.occupied() {
            self.post(thread, mail());
        }
    }

    #[cold]
    fn reroute(&self, from: usize, mail: Mail) {
        match mail {
            // Any worker can find where the connection is now. The first one ends with the server only.
            Mail::Served(..)
            | Mail::Missed(..)
            | Mail::Unblock(..)
            | Mail::Answered(..)
            | Mail::Evict { .. }
                if from != 0 =>
            {
                self.post(0, mail);
            }
            // It requests the end of the turns of those workers again that exist.
            Mail::PauseRequest(BarrierRequest { connection: Token::FAILOVER | Token::SHUTDOWN, .. })
            | Mail::BarrierRequest(BarrierRequest { connection: Token::ROLE, .. }) => {}
            // All mail that had arrived there is handled.
            Mail::BarrierRequest(request) | Mail::PauseRequest(request) => {
                self.post(request.connection.thread(), Mail::BarrierAck { request, thread: from });
            }
            // A connection is announced before it is sent, so this is the end of the server: the socket is closed.
            Mail::Accepted(..) | Mail::Primary(_) | Mail::Moved(_) => {}
            // The connection is closed, or has been removed from the registry, where its next worker notices that.
            Mail::Kill(..) => {}
            // No session of the ended worker waits for a latch or for turns.
            Mail::Resume(_) | Mail::BarrierAck { .. } => {}
            // Its sender looks up the connection again, see `Hub::forward`.
            Mail::Invalidated(_) => {}
            // For the worker itself, or for connections that it no longer has.
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
    /// Opens the handle for a worker, which occupies it from now on.
    pub fn occupy(&self, waker: Waker) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(waker);
        self.open();
    }

    /// Ends the occupation by the worker.
    pub fn vacate(&self) {
        *self.waker.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Whether a worker occupies it.
    #[must_use]
    pub fn is_occupied(&self) -> bool {
        self.waker.read().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some()
    }

    /// Connections served by this worker or in transit to it.
    #[must_use]
    pub fn load(&self) -> u64 {
        self.connection_count.value() + self.expected.load(Ordering::Relaxed)
    }

    /// Announces a connection. Returns `false` if it must not be sent here, because the worker ends.
    #[must_use]
    pub fn expect_connection(&self) -> bool {
        // SeqCst, here and in `try_close`: either this load sees that the handle is closed, or
        // `try_close` sees the expected connection.
        self.expected.fetch_add(1, Ordering::SeqCst);
        let is_open = !self.closed.load(Ordering::SeqCst);
        if !is_open {
            self.expected.fetch_sub(1, Ordering::SeqCst);
        }
        is_open
    }

    /// Closes the handle, unless mail is unread or a connection is in transit to it.
    #[must_use]
    pub fn try_close(&self) -> bool {
        self.closed.store(true, Ordering::SeqCst);
        let is_free =
            self.expected.load(Ordering::SeqCst) == 0 && (planted(faults::LOST_MAIL) || self.mailbox.close());
        if !is_free {
            self.closed.store(false, Ordering::SeqCst);
        }
        is_free
    }

    /// Undoes [`Self::try_close`], for a new worker.
    pub fn open(&self) {
        self.mailbox.open();
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Counts an announced connection as arrived.
    pub fn connection_arrived(&self) {
        self.expected.fetch_sub(1, Ordering::SeqCst);
    }

    /// The recent share of the time in which the worker had work, in thousandths.
    #[must_use]
    pub fn busy_permille(&self) -> u64 {
        self.busy_permille.value()
    }

    /// The recent share of the time in which the worker ran on a CPU, in thousandths.
    #[must_use]
    pub fn running_permille(&self) -> u64 {
        self.running_permille.value()
    }

    /// Sets the load; only called by the worker in the handle.
    pub fn set_load(&self, busy_permille: u64, running_permille: u64) {
        self.busy_permille.set(busy_permille.min(1000));
        self.running_permille.set(running_permille.min(1000));
    }

    fn post(&self, mail: Mail) -> Result<(), Mail> {
        if self.mailbox.post(mail)? && !planted(faults::OMITTED_WAKE) {
            let waker = self.waker.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(waker) = &*waker {
                waker.wake();
            }
        }
        Ok(())
    }

    /// The mailbox, for the worker in the handle.
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
    fn a_handle_closes_only_without_pending_mail() {
        let workers = Workers::new();
        assert!(workers.try_post(1, Mail::Nothing).is_err() && !workers.handle(1).expect_connection());
        workers.handle(1).open();
        assert!(workers.try_post(1, Mail::Nothing).is_ok());
        assert!(!workers.handle(1).try_close(), "mail is unread");
        assert_eq!(mail_of(&workers, 1).len(), 1);
        assert!(workers.handle(1).expect_connection());
        assert!(!workers.handle(1).try_close(), "a connection is on its way");
        workers.handle(1).connection_arrived();
        assert!(workers.handle(1).try_close());
        assert!(workers.try_post(1, Mail::Nothing).is_err() && !workers.handle(1).expect_connection());
    }

    #[test]
    fn mail_for_a_closed_handle_is_forwarded() {
        let workers = Workers::new();
        [0, 2].iter().for_each(|thread| workers.handle(*thread).open());
        let (gone, requester) = (Token::new(1, 5, 3), Token::new(2, 6, 4));
        workers.post(1, Mail::Served(gone, 9, b"+OK\r\n".to_vec(), Lsn(0)));
        workers.post(1, Mail::Missed(gone, 9));
        workers.post(1, Mail::Unblock(gone, 9, UnblockReply::Timeout));
        workers.post(1, Mail::Answered(gone, 9, b"+OK\r\n"));
        workers.post(1, Mail::Evict { connection: gone, client: 9, size: 100 });
        let request = BarrierRequest { connection: requester, number: 7 };
        workers.post(1, Mail::BarrierRequest(request));
        workers.post(1, Mail::Kill(gone, 9));
        let mail = mail_of(&workers, 0);
        assert!(matches!(
            &mail[..],
            [
                Mail::Served(_, 9, ..),
                Mail::Missed(_, 9),
                Mail::Unblock(_, 9, _),
                Mail::Answered(_, 9, _),
                Mail::Evict { client: 9, size: 100, .. }
            ]
        ));
        let answers = mail_of(&workers, 2);
        assert!(matches!(&answers[..], [Mail::BarrierAck { request: of, thread: 1 }] if *of == request));
    }
}
