//! The durable LSN: a thread that waits for one is woken.

use super::{Bells, explore};
use base::Lsn;
use loom::sync::Arc;
use loom::thread;
use sync::DurableLsn;

/// A thread waits for the second of two advances.
fn waits(make: impl Fn() -> DurableLsn + Send + Sync + 'static) {
    explore(Some(3), move || {
        let (bells, durable) = (Bells::new(1), Arc::new(make()));
        let advancing = thread::spawn({
            let (bells, durable) = (bells.clone(), durable.clone());
            move || [1, 2].map(|end| durable.advance(Lsn(end), |thread| bells.ring(thread)))
        });
        while durable.request_wake(0) < Lsn(2) {
            bells.wait(0);
        }
        advancing.join().unwrap();
    });
}

#[test]
fn a_waiting_thread_is_woken() {
    waits(|| DurableLsn::new(Lsn(0), 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_before_the_advance_is_found() {
    waits(|| DurableLsn::new(Lsn(0), 1).waking_first());
}
