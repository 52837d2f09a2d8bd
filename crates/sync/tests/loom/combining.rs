//! The combining lock: work that a thread requests is done, by whichever thread holds the lock.

use super::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use sync::CombiningLock;

/// What a thread appends is seen by the work that it requests, while another thread requests, too, or holds the lock.
fn requests(make: impl Fn(usize, fn(&mut State)) -> Lock + Send + Sync + 'static, holds: bool) {
    explore(Some(3), move || {
        let appended = Arc::new(AtomicUsize::new(0));
        let lock = Arc::new(make_with(&make, &appended));
        let thread = thread::spawn({
            let (lock, appended) = (lock.clone(), appended.clone());
            move || {
                appended.fetch_add(1, Ordering::Relaxed);
                lock.request();
            }
        });
        if holds {
            lock.with(|state| state.appended.as_ref().map(|appended| appended.load(Ordering::Relaxed)));
        } else {
            appended.fetch_add(1, Ordering::Relaxed);
            lock.request();
        }
        thread.join().unwrap();
        let moved = lock.with(|state| state.moved);
        assert_eq!(moved, appended.load(Ordering::Relaxed), "a request is lost");
    });
}

/// What was appended, and how much of it the work has moved.
struct State {
    appended: Option<Arc<AtomicUsize>>,
    moved: usize,
}

type Lock = CombiningLock<State>;

fn make_with(make: &impl Fn(usize, fn(&mut State)) -> Lock, appended: &Arc<AtomicUsize>) -> Lock {
    let lock = make(0, |state| {
        if let Some(appended) = &state.appended {
            state.moved = appended.load(Ordering::Relaxed);
        }
    });
    lock.with(|state| state.appended = Some(appended.clone()));
    lock
}

fn usual(moved: usize, work: fn(&mut State)) -> Lock {
    CombiningLock::new(State { appended: None, moved }, work)
}

#[test]
fn a_request_is_done_by_one_of_two_threads() {
    requests(usual, false);
}

#[test]
fn a_holder_does_what_is_requested_meanwhile() {
    requests(usual, true);
}

#[test]
#[should_panic(expected = "a request is lost")]
fn a_forgotten_request_is_found() {
    requests(|moved, work| usual(moved, work).forgetting_requests(), true);
}
