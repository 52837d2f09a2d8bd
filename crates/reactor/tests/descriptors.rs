//! Exhausts the file descriptors of the process, so this test has its own process.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "most of it is for the other test crate")]
mod support;

use std::fs::File;
use std::time::{Duration, Instant};

use reactor::{CloseMode, Event};
use support::{Backend, Fixture, PATIENCE, is_available};

#[test]
fn accepting_resumes_when_descriptors_are_available() {
    for backend in [Backend::Epoll, Backend::Uring, Backend::SmallUring] {
        if is_available(backend) {
            runs_out_and_recovers(backend);
        }
    }
}

fn runs_out_and_recovers(backend: Backend) {
    let mut fixture = Fixture::new(backend);
    let (_first_client, first) = fixture.pair(1);
    let (_second_client, second) = fixture.pair(2);
    let client = fixture.connect();
    // Opens files up to the limit and keeps them open.
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    // The kernel may already have accepted the client; without descriptors no further clients can be created.
    fixture.reactor.wait(Some(Duration::ZERO)).unwrap();
    let early = fixture.reactor.next_event();
    let mut accepted_count = usize::from(matches!(early, Some(Event::Accepted { .. })));
    if accepted_count == 0 {
        let error = early.or_else(|| Some(fixture.until(Some)));
        assert!(matches!(error, Some(Event::AcceptError { listener: Fixture::LISTENER, .. })), "{error:?}");
    }
    // The reactor does not retry continuously, which would use a whole processor.
    let start = Instant::now();
    let mut error_count = 0;
    while start.elapsed() < Duration::from_millis(300) {
        fixture.reactor.wait(Some(Duration::from_millis(300))).unwrap();
        while let Some(event) = fixture.reactor.next_event() {
            error_count += usize::from(matches!(event, Event::AcceptError { .. }));
            assert!(!matches!(event, Event::Accepted { .. }));
        }
    }
    assert!(error_count <= 4, "{error_count} attempts");

    // A closed connection allows a new one, and the reactor resumes at once.
    fixture.reactor.close(first, CloseMode::Now);
    fixture.reactor.close(second, CloseMode::Now);
    let start = Instant::now();
    while accepted_count == 0 && start.elapsed() < PATIENCE {
        fixture.reactor.wait(Some(PATIENCE)).unwrap();
        while let Some(event) = fixture.reactor.next_event() {
            accepted_count += usize::from(matches!(event, Event::Accepted { .. }));
        }
    }
    assert_eq!(accepted_count, 1);
    drop((files, client));
}
