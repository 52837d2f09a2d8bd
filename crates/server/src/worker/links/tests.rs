//! Links with a protocol that records what happens.

use std::sync::mpsc::{self, Receiver, Sender};

use reactor::{BackendChoice, ReactorOptions};

use super::*;

/// A protocol that sends nothing, and continues whatever happens.
struct Recorder(Sender<io::ErrorKind>);

impl LinkProtocol for Recorder {
    fn connected(&mut self, _: &mut LinkOutput) -> LinkStep {
        LinkStep::Continue
    }

    fn received(&mut self, _: LinkInput<'_>, _: &mut LinkOutput) -> LinkStep {
        LinkStep::Continue
    }

    fn notified(&mut self, _: &mut LinkOutput) -> LinkStep {
        LinkStep::Continue
    }

    fn failed(&mut self, failure: &LinkFailure) -> LinkStep {
        self.0.send(failure.error.kind()).expect("the test reads it");
        LinkStep::Continue
    }

    fn detached(&mut self, _: LinkSocket) {}

    fn discarded(&mut self) {}
}

/// Links, with one that begins with `step`, and its failures.
fn open(step: LinkStep, now: Uptime) -> (Links, Reactor, Receiver<io::ErrorKind>) {
    let (mut reactor, _) =
        Reactor::new(BackendChoice::Epoll, ReactorOptions::default()).expect("epoll is available");
    let (sender, failures) = mpsc::channel();
    let protocol = Box::new(Recorder(sender));
    let new = NewLink { number: 1, protocol, certificates: None, start: LinkStart::Open(step) };
    let mut links = Links::default();
    links.handle_mail(LinkMail::Open(Box::new(new)), &mut reactor, now);
    (links, reactor, failures)
}

#[test]
fn addresses_are_awaited_for_a_time_and_then_ignored() {
    let (now, timeout) = (Uptime::from_raw(1_000), Duration::from_secs(1));
    let step = LinkStep::AwaitAddresses { connect_timeout: timeout, timeout: Some(timeout) };
    let (mut links, mut reactor, failures) = open(step, now);
    links.check_progress(&mut reactor, now.plus(timeout));
    assert!(failures.try_recv().is_err());
    let next = links.next_check().expect("a time limit");
    links.check_progress(&mut reactor, next);
    assert_eq!(failures.try_recv(), Ok(io::ErrorKind::TimedOut));
    let late = vec![SocketAddr::from(([127, 0, 0, 1], 1))];
    links.handle_mail(LinkMail::Addresses(1, Ok(late)), &mut reactor, next);
    assert_eq!(reactor.connection_count(), 0);
    assert_eq!((links.next_check(), failures.try_recv().is_err()), (None, true));
}
