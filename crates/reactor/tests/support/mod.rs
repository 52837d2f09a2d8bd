//! A reactor with a listener for tests, and peers for it.

pub mod mixer;
pub mod moving;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use reactor::{
    BackendChoice, CloseMode, ConnectionId, Event, Listener, ListenerToken, PeerAddress, Reactor,
    ReactorError, ReactorOptions, ReusePort, Socket, Waker,
};

/// Maximum time to wait before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The backend under test.
#[derive(Clone, Copy, Debug)]
pub enum Backend {
    Epoll,
    Uring,
    /// io_uring with the smallest queues: requests are submitted early, and completions overflow.
    SmallUring,
}

impl Backend {
    fn choice(self) -> BackendChoice {
        match self {
            Self::Epoll => BackendChoice::Epoll,
            Self::Uring | Self::SmallUring => BackendChoice::Uring,
        }
    }

    /// Creates a reactor on this backend, with the other options given.
    pub fn reactor(self, mut options: ReactorOptions) -> Result<(Reactor, Waker), ReactorError> {
        if matches!(self, Self::SmallUring) {
            options.entries = 8;
        }
        Reactor::new(self.choice(), options)
    }
}

/// Whether the backend is available here; prints the reason if not.
pub fn is_available(backend: Backend) -> bool {
    match backend.reactor(ReactorOptions::default()) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}

/// A reactor that listens on a free loopback port.
pub struct Fixture {
    pub reactor: Reactor,
    pub waker: Waker,
    pub address: SocketAddr,
}

impl Fixture {
    pub const LISTENER: ListenerToken = ListenerToken(3);

    pub fn new(backend: Backend) -> Self {
        Self::with_options(backend, ReactorOptions::default())
    }

    pub fn with_options(backend: Backend, options: ReactorOptions) -> Self {
        Self::with_backlog(backend, options, 511)
    }

    pub fn with_backlog(backend: Backend, options: ReactorOptions, backlog: u32) -> Self {
        let (mut reactor, waker) = backend.reactor(options).unwrap();
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), backlog, ReusePort::No).unwrap();
        let address = listener.local_address().unwrap().tcp().unwrap();
        reactor.listen(listener, Self::LISTENER).unwrap();
        Self { reactor, waker, address }
    }

    pub fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }

    /// Returns a client and its adopted connection. Panics on events other than `Accepted` and `Closed`.
    pub fn pair(&mut self, token: u64) -> (TcpStream, ConnectionId) {
        let client = self.connect();
        let (socket, _) = self.accepted();
        (client, self.reactor.adopt(socket, token))
    }

    pub fn accepted(&mut self) -> (Socket, PeerAddress) {
        self.until(|event| match event {
            Event::Accepted { listener, socket, peer } => {
                assert_eq!(listener, Self::LISTENER);
                Some((socket, peer))
            }
            Event::Closed { .. } => None,
            other => panic!("unexpected {other:?}"),
        })
    }

    /// Runs turns until `look` returns a value.
    pub fn until<T>(&mut self, mut look: impl FnMut(Event) -> Option<T>) -> T {
        self.until_with(|_, event| look(event))
    }

    pub fn until_with<T>(&mut self, mut look: impl FnMut(&mut Reactor, Event) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            while let Some(event) = self.reactor.next_event() {
                if let Some(found) = look(&mut self.reactor, event) {
                    return found;
                }
            }
            assert!(start.elapsed() < PATIENCE, "no event arrived");
            self.reactor.wait(Some(PATIENCE)).unwrap();
        }
    }

    /// Waits until `count` buffers are sent, including small ones, which do not end a wait.
    pub fn expect_sent(&mut self, count: usize) {
        let start = Instant::now();
        let mut sent_count = 0;
        while sent_count < count {
            assert!(start.elapsed() < PATIENCE, "only {sent_count} buffers were sent");
            self.reactor.wait(Some(Duration::ZERO)).unwrap();
            while let Some(event) = self.reactor.next_event() {
                assert!(matches!(event, Event::Sent { .. }), "unexpected {event:?}");
                sent_count += 1;
            }
        }
        assert_eq!(sent_count, count);
    }

    /// Runs one turn without blocking, and drops its events.
    pub fn turn(&mut self) {
        self.reactor.wait(Some(Duration::ZERO)).unwrap();
        while self.reactor.next_event().is_some() {}
    }

    /// Runs turns until one has no event.
    pub fn drain_events(&mut self) {
        loop {
            self.reactor.wait(Some(Duration::from_millis(1))).unwrap();
            if self.reactor.next_event().is_none() {
                return;
            }
        }
    }

    pub fn expect_closed(&mut self, connection: ConnectionId) {
        self.until(|event| match event {
            Event::Closed { connection: which, .. } => {
                assert_eq!(which, connection);
                Some(())
            }
            Event::Sent { .. } => None,
            other => panic!("unexpected {other:?}"),
        });
    }
}

/// Echoes all bytes, pausing input while much is pending; closes at end of file. Returns the maximum pending
/// size.
pub fn echo_until_closed(fixture: &mut Fixture, connection: ConnectionId) -> usize {
    let mut pending_max = 0;
    fixture.until_with(|reactor, event| {
        match event {
            Event::Received { data, .. } => {
                reactor.send(connection, data.to_vec());
                let pending = reactor.pending_send_bytes(connection);
                pending_max = pending_max.max(pending);
                if pending > 1 << 20 {
                    reactor.pause_receive(connection);
                }
            }
            Event::Sent { .. } if reactor.pending_send_bytes(connection) < 1 << 19 => {
                reactor.resume_receive(connection);
            }
            Event::Eof { .. } => reactor.close(connection, CloseMode::AfterSends),
            Event::Closed { reason, .. } => {
                assert!(matches!(reason, reactor::CloseReason::Requested), "{reason:?}");
                return Some(());
            }
            _ => {}
        }
        None
    });
    pending_max
}

pub fn read_some(client: &mut impl Read, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

pub fn read_all(client: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Makes a test of each function on each backend.
#[allow(unused_macros, reason = "for the tests on each backend")]
macro_rules! on_each_backend {
    ($($behaviour:ident,)*) => {
        mod on_epoll {
            $(#[test] fn $behaviour() { super::$behaviour(super::Backend::Epoll); })*
        }
        mod on_uring {
            $(#[test] fn $behaviour() {
                if super::is_available(super::Backend::Uring) {
                    super::$behaviour(super::Backend::Uring);
                }
            })*
        }
        mod on_small_uring {
            $(#[test] fn $behaviour() {
                if super::is_available(super::Backend::SmallUring) {
                    super::$behaviour(super::Backend::SmallUring);
                }
            })*
        }
    };
}
#[allow(unused_imports, reason = "for the tests on each backend")]
pub(crate) use on_each_backend;
