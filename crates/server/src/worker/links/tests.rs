//! Links with a protocol that records what happens.

#![allow(clippy::unwrap_used)] // Whatever fails here fails the test.

#[path = "../../../../tls/tests/support/mod.rs"]
mod certificates;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, Sender};

use certificates::{Authority, Files};
use reactor::{BackendChoice, ReactorOptions};
use tls::Settings;

use super::*;

/// What a protocol was told.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Connected,
    Failed(io::ErrorKind),
    Detached,
    Discarded,
}

/// A protocol that sends `output` when it is connected, and then continues whatever happens.
struct Recorder {
    output: Vec<u8>,
    seen: Sender<Seen>,
}

impl LinkProtocol for Recorder {
    fn connected(&mut self, output: &mut LinkOutput) -> LinkStep {
        self.seen.send(Seen::Connected).unwrap();
        output.push(Arc::new(std::mem::take(&mut self.output)));
        LinkStep::Wait(None)
    }

    fn received(&mut self, _: LinkInput<'_>, _: &mut LinkOutput) -> LinkStep {
        LinkStep::Continue
    }

    fn notified(&mut self, _: &mut LinkOutput) -> LinkStep {
        LinkStep::Continue
    }

    fn failed(&mut self, failure: &LinkFailure) -> LinkStep {
        self.seen.send(Seen::Failed(failure.error.kind())).unwrap();
        LinkStep::Continue
    }

    fn detached(&mut self, _: LinkSocket) {
        self.seen.send(Seen::Detached).unwrap();
    }

    fn discarded(&mut self) {
        self.seen.send(Seen::Discarded).unwrap();
    }
}

/// A link, with the number 1.
struct Opened {
    links: Links,
    reactor: Reactor,
    seen: Receiver<Seen>,
}

/// When the link begins.
fn begin() -> Uptime {
    Uptime::from_raw(1_000)
}

const TIMEOUT: Duration = Duration::from_secs(1);

impl Opened {
    fn new(step: LinkStep, certificates: Option<Arc<tls::Context>>, output: Vec<u8>) -> Self {
        let (mut reactor, _) = Reactor::new(BackendChoice::Epoll, ReactorOptions::default()).unwrap();
        let (sender, seen) = mpsc::channel();
        let protocol = Box::new(Recorder { output, seen: sender });
        let new = NewLink { number: 1, protocol, certificates, start: LinkStart::Open(step) };
        let mut links = Links::default();
        links.handle_mail(LinkMail::Open(Box::new(new)), &mut reactor, begin());
        Self { links, reactor, seen }
    }

    /// A link with TLS to a listener.
    fn to(listener: &TcpListener, context: &Arc<tls::Context>, output: Vec<u8>) -> Self {
        let step = LinkStep::Connect(vec![listener.local_addr().unwrap()], TIMEOUT);
        Self::new(step, Some(Arc::clone(context)), output)
    }

    /// The events of a turn.
    fn turn(&mut self) -> Vec<Event> {
        self.reactor.wait(Some(Duration::from_millis(100))).unwrap();
        std::iter::from_fn(|| self.reactor.next_event()).collect()
    }

    fn handle(&mut self, event: Event, now: Uptime) {
        self.links.handle(event, &mut self.reactor, now);
    }

    fn stage(&self) -> Option<Stage> {
        self.links.all.get(&1)?.connection.as_ref().map(|connection| connection.stage)
    }

    fn connection(&self) -> ConnectionId {
        self.links.all[&1].connection.as_ref().unwrap().id
    }
}

/// Certificates of a server whose clients need none.
fn context(name: &str) -> (Arc<tls::Context>, Files) {
    let files = Files::new(name, &Authority::new("authority"));
    let settings = Settings {
        cert_file: files.path("server.crt"),
        key_file: files.path("server.key"),
        ca_cert_file: files.path("ca.crt"),
        opens_connections: true,
        ..Settings::default()
    };
    (Arc::new(tls::Context::load(&settings).unwrap()), files)
}

#[test]
fn addresses_are_awaited_for_a_time_and_then_ignored() {
    let step = LinkStep::AwaitAddresses { connect_timeout: TIMEOUT, timeout: Some(TIMEOUT) };
    let Opened { mut links, mut reactor, seen } = Opened::new(step, None, Vec::new());
    links.check_progress(&mut reactor, begin().plus(TIMEOUT));
    assert!(seen.try_recv().is_err());
    let next = links.next_check().unwrap();
    links.check_progress(&mut reactor, next);
    assert_eq!(seen.try_recv(), Ok(Seen::Failed(io::ErrorKind::TimedOut)));
    let late = vec![SocketAddr::from(([127, 0, 0, 1], 1))];
    links.handle_mail(LinkMail::Addresses(1, Ok(late)), &mut reactor, next);
    assert_eq!(reactor.connection_count(), 0);
    assert_eq!((links.next_check(), seen.try_recv().is_err()), (None, true));
}

/// A `Sent` event that precedes the end of a detaching connection does not encrypt what no one would send.
#[test]
fn a_connection_that_detaches_with_queued_output_is_not_kept() {
    let (context, _files) = context("link-detaching");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut opened = Opened::to(&listener, &context, vec![b'x'; 4 << 20]);
    let peer = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut stream = tls::Stream::new(&context).unwrap();
        let (mut bytes, mut out) = ([0; 65_536], Vec::new());
        while stream.is_handshaking() {
            let size = socket.read(&mut bytes).unwrap();
            stream.receive(&mut bytes[..size], &mut Vec::new(), &mut out).unwrap();
            socket.write_all(&std::mem::take(&mut out)).unwrap();
        }
        while socket.read(&mut bytes).is_ok_and(|size| size > 0) {}
    });
    while opened.stage() != Some(Stage::Open) {
        for event in opened.turn() {
            opened.handle(event, begin());
        }
    }
    // What is encrypted so far is sent, which the link is not told yet.
    let id = opened.connection();
    let mut late = Vec::new();
    while opened.reactor.unsent_bytes(id) > 0 {
        late.extend(opened.turn());
    }
    let link = opened.links.all.get_mut(&1).unwrap();
    assert!(link.follow(LinkStep::Detach, &mut opened.reactor, begin()));
    late.extend(opened.turn());
    for event in late {
        opened.handle(event, begin());
    }
    assert!(opened.links.is_empty());
    assert_eq!(opened.seen.try_iter().collect::<Vec<_>>(), [Seen::Connected, Seen::Discarded]);
    peer.join().unwrap();
}

#[test]
fn a_handshake_has_one_timeout() {
    let (context, _files) = context("link-handshake");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut opened = Opened::to(&listener, &context, Vec::new());
    let mut peer = listener.accept().unwrap().0;
    while opened.stage() != Some(Stage::Handshake) {
        for event in opened.turn() {
            opened.handle(event, begin());
        }
    }
    // The beginning of a record arrives late.
    peer.write_all(&[22]).unwrap();
    let mut events = opened.turn();
    while events.is_empty() {
        events = opened.turn();
    }
    for event in events {
        opened.handle(event, begin().plus(TIMEOUT));
    }
    opened.links.check_progress(&mut opened.reactor, begin().plus(TIMEOUT).plus_ms(1));
    assert_eq!(opened.seen.try_recv(), Ok(Seen::Failed(io::ErrorKind::TimedOut)));
}
