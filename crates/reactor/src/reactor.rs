//! The reactor's interface for its thread: one interface, two backends.
//!
//! Guarantees on either backend:
//! 1. No method blocks (except `wait`) or fails at once (except `connect`); outcomes are reported as events. Ids of ended
//!    connections are ignored.
//! 2. Sends of a turn leave together in [`Reactor::wait`].
//! 3. After [`Reactor::close`] or [`Reactor::detach`] returns, the connection has no further `Received` or
//!    `Eof` event; its last event is `Closed` or `Detached`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::epoll::Epoll;
use crate::send_queue::Buffer;
use crate::uring::Uring;
use crate::waker::WakeState;
use crate::{
    BackendChoice, CloseMode, ConnectionId, Event, Listener, ListenerToken, PeerAddress, ReactorError,
    ReactorOptions, RecvBuffer, Socket, Waker,
};

/// The event loop of one thread. Not `Send`: it is created and used on its thread.
pub struct Reactor {
    backend: Backend,
    fallback_reason: Option<String>,
}

enum Backend {
    Uring(Box<Uring>),
    Epoll(Box<Epoll>),
}

/// Calls the method on the current backend.
macro_rules! dispatch {
    ($backends:expr, $backend:ident => $call:expr) => {
        match $backends {
            Backend::Uring($backend) => $call,
            Backend::Epoll($backend) => $call,
        }
    };
}

impl Reactor {
    /// Creates a reactor for the calling thread, and the handle with which other threads wake it. In a
    /// simulation it always uses the simulated network.
    pub fn new(choice: BackendChoice, options: ReactorOptions) -> Result<(Self, Waker), ReactorError> {
        #[cfg(feature = "simulation")]
        let choice = crate::simulated::Network::current().map_or(choice, |_| BackendChoice::Uring);
        let wake = WakeState::new().map_err(ReactorError::system("eventfd"))?;
        let waker = wake.waker();
        let (backend, fallback_reason) = match choice {
            BackendChoice::Epoll => (epoll(wake, options)?, None),
            BackendChoice::Uring => (uring(wake, options)?, None),
            BackendChoice::Auto => match uring(Arc::clone(&wake), options) {
                Ok(backend) => (backend, None),
                Err(error) => (epoll(wake, options)?, Some(error.to_string())),
            },
        };
        Ok((Self { backend, fallback_reason }, waker))
    }

    /// `"io_uring"` or `"epoll"`.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        match &self.backend {
            Backend::Uring(_) => "io_uring",
            Backend::Epoll(_) => "epoll",
        }
    }

    /// Why [`BackendChoice::Auto`] chose epoll, for the log; `None` if it did not.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<String> {
        self.fallback_reason.clone()
    }

    /// Accepts connections from `listener`, reported with `token`. Several reactors may share a listening
    /// socket by means of [`Listener::try_clone`].
    pub fn listen(&mut self, listener: Listener, token: ListenerToken) -> Result<(), ReactorError> {
        dispatch!(&mut self.backend, backend => backend.listen(listener, token))
    }

    /// Leaves new connections in the kernel's queue until [`Self::resume_accept`].
    pub fn pause_accept(&mut self, token: ListenerToken) {
        dispatch!(&mut self.backend, backend => backend.pause_accept(token));
    }

    /// Reverts [`Self::pause_accept`].
    pub fn resume_accept(&mut self, token: ListenerToken) {
        dispatch!(&mut self.backend, backend => backend.resume_accept(token));
    }

    /// Closes this reactor's handle of a listener. Connections that are already accepted may still be reported.
    pub fn stop_listening(&mut self, token: ListenerToken) {
        dispatch!(&mut self.backend, backend => backend.stop_listening(token));
    }

    /// Takes over a connected socket and starts receiving. `token` is reported in each of its events.
    pub fn adopt(&mut self, socket: Socket, token: u64) -> ConnectionId {
        dispatch!(&mut self.backend, backend => backend.adopt(socket, token))
    }

    /// Starts to connect to `address`, from the local address `source` if given. [`Event::Connected`] follows, or
    /// `Closed` with [`CloseReason::NotConnected`](crate::CloseReason::NotConnected). Sends may be queued before. There
    /// is no time limit but the kernel's: close the connection to end the attempt.
    ///
    /// # Errors
    /// The attempt can't start, for example because the process is out of descriptors or there is no route. No event
    /// follows.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        source: Option<IpAddr>,
        token: u64,
    ) -> io::Result<ConnectionId> {
        let socket = Socket::connect(address, source)?;
        Ok(dispatch!(&mut self.backend, backend => backend.await_connection(socket, token)))
    }

    /// Queues a buffer, which is sent in the next [`Self::wait`], after earlier ones. [`Event::Sent`] returns
    /// it for reuse. Dropped if the connection is closing or closed.
    pub fn send(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        dispatch!(&mut self.backend, backend => backend.send(connection, Buffer::Own(bytes)));
    }

    /// Queues bytes that may be shared. Their [`Event::Sent`] has an empty buffer.
    pub fn send_shared(&mut self, connection: ConnectionId, bytes: Arc<Vec<u8>>) {
        dispatch!(&mut self.backend, backend => backend.send(connection, Buffer::Shared(bytes)));
    }

    /// As [`Self::send_shared`], for bytes that are sent to many connections.
    pub fn send_message(&mut self, connection: ConnectionId, bytes: Arc<Vec<u8>>) {
        dispatch!(&mut self.backend, backend => backend.send(connection, Buffer::Message(bytes)));
    }

    /// The bytes from [`Self::send_message`] among the pending ones.
    #[must_use]
    pub fn message_bytes(&self, connection: ConnectionId) -> usize {
        dispatch!(&self.backend, backend => backend.message_bytes(connection))
    }

    /// Bytes not yet taken by the kernel, plus the sent part of a buffer that is held until all of it is sent.
    #[must_use]
    pub fn pending_send_bytes(&self, connection: ConnectionId) -> usize {
        dispatch!(&self.backend, backend => backend.pending_send_bytes(connection))
    }

    /// Bytes not yet taken by the kernel: less after each progress, unlike [`Self::pending_send_bytes`].
    #[must_use]
    pub fn unsent_bytes(&self, connection: ConnectionId) -> usize {
        dispatch!(&self.backend, backend => backend.unsent_bytes(connection))
    }

    /// Lets the kernel gather small segments of a TCP connection before it sends them.
    ///
    /// # Errors
    /// It is none.
    pub fn clear_nodelay(&self, connection: ConnectionId) -> io::Result<()> {
        let socket = dispatch!(&self.backend, backend => backend.socket(connection));
        socket.map_or(Ok(()), Socket::clear_nodelay)
    }

    /// Suspends delivery from this connection until [`Self::resume_receive`]. A few buffers at most are held
    /// back; the rest stays with the kernel and then with the peer. The end of the connection is noticed while
    /// paused: a failure is reported as `Closed`, a disconnected peer as [`Event::HungUp`].
    pub fn pause_receive(&mut self, connection: ConnectionId) {
        dispatch!(&mut self.backend, backend => backend.pause_receive(connection));
    }

    /// Reverts [`Self::pause_receive`].
    pub fn resume_receive(&mut self, connection: ConnectionId) {
        dispatch!(&mut self.backend, backend => backend.resume_receive(connection));
    }

    /// Half-closes: the peer reads end of file after the sends queued so far. Later sends are dropped.
    pub fn shutdown_write(&mut self, connection: ConnectionId) {
        dispatch!(&mut self.backend, backend => backend.shutdown_write(connection));
    }

    /// Ends a connection; [`Event::Closed`] follows. `Now` also overrides an earlier `AfterSends`.
    pub fn close(&mut self, connection: ConnectionId, mode: CloseMode) {
        dispatch!(&mut self.backend, backend => backend.close(connection, mode));
    }

    /// Removes a live connection from this reactor; [`Event::Detached`] follows, or `Closed` if it fails
    /// before. To continue in another reactor: adopt the socket, treat `unread` as received, send `unsent`. Ignored
    /// while connecting or closing.
    pub fn detach(&mut self, connection: ConnectionId) {
        dispatch!(&mut self.backend, backend => backend.detach(connection));
    }

    /// The number of connections adopted or connecting and neither closed nor detached.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        dispatch!(&self.backend, backend => backend.connection_count())
    }

    /// The number of the connection's descriptor, as shown in `CLIENT LIST`.
    #[must_use]
    pub fn fd_number(&self, connection: ConnectionId) -> Option<i32> {
        dispatch!(&self.backend, backend => backend.socket(connection).map(Socket::number))
    }

    /// The peer's address; `None` if the connection has ended.
    #[must_use]
    pub fn peer_address(&self, connection: ConnectionId) -> Option<PeerAddress> {
        dispatch!(&self.backend, backend => backend.socket(connection)?.peer_address().ok())
    }

    /// Submits the requests since the last wait, then blocks until an event occurs, a waker is used, or
    /// `timeout` has passed (`None`: no limit). Does not block while events are pending. May return early.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<(), ReactorError> {
        dispatch!(&mut self.backend, backend => backend.wait(timeout))
    }

    /// Returns the next event of this turn. Call it until `None` before the next [`Self::wait`], or leave some
    /// for later.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        dispatch!(&mut self.backend, backend => backend.next_event())
    }

    /// Returns a receive buffer to its pool, as dropping it does.
    #[inline]
    pub fn recycle(&mut self, buffer: RecvBuffer) {
        drop(buffer);
    }
}

fn epoll(wake: Arc<WakeState>, options: ReactorOptions) -> Result<Backend, ReactorError> {
    Ok(Backend::Epoll(Box::new(Epoll::new(wake, options)?)))
}

fn uring(wake: Arc<WakeState>, options: ReactorOptions) -> Result<Backend, ReactorError> {
    Ok(Backend::Uring(Box::new(Uring::new(wake, options)?)))
}

#[cfg(test)]
mod tests {
    use super::Reactor;
    use crate::{BackendChoice, ReactorError, ReactorOptions};

    /// Makes system call `number` fail with EPERM on this thread, as in container sandboxes.
    fn forbid(number: libc::c_long) {
        let statement = |code: u32, jump_if_true, jump_if_false, k| libc::sock_filter {
            code: code as u16,
            jt: jump_if_true,
            jf: jump_if_false,
            k,
        };
        let mut program = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: takes no pointers.
        os::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).unwrap();
        // SAFETY: `filter` points to a complete program, both alive; it applies to this thread only.
        let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
        os::check(set).unwrap();
    }

    #[test]
    fn falls_back_to_epoll_where_io_uring_is_forbidden() {
        let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_register, libc::SYS_io_uring_enter];
        for number in calls {
            let forbidden = std::thread::spawn(move || {
                forbid(number);
                let (reactor, _) = Reactor::new(BackendChoice::Auto, ReactorOptions::default()).unwrap();
                assert_eq!(reactor.backend_name(), "epoll");
                let reason = reactor.fallback_reason().unwrap();
                assert!(reason.starts_with("io_uring can't be used: "), "{reason}");
                let refused = Reactor::new(BackendChoice::Uring, ReactorOptions::default());
                assert!(matches!(refused.err(), Some(ReactorError::Uring { .. })));
            });
            forbidden.join().unwrap();
        }
    }

    #[test]
    fn a_choice_is_kept() {
        let (reactor, _) = Reactor::new(BackendChoice::Epoll, ReactorOptions::default()).unwrap();
        assert_eq!((reactor.backend_name(), reactor.fallback_reason()), ("epoll", None));
    }
}
