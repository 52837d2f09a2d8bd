//! Thousands of sessions that watch one key or wait for it: the end of each takes logarithmic time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{DbIndex, Millis};
use collections::Kind;
use keyspace::{Key, Keyspace, Latching, Needs, Waiter, Watching};
use sync::Mode;

/// Sessions; and how many times as many must take less than [`GROWTH_MAX`] times as long. A walk over all sessions at the
/// end of each would take 256 times as long; a search takes 24 times as long, and some times that when the caches are shared.
const COUNT: usize = 2_000;
const FACTOR: usize = 16;
const GROWTH_MAX: f64 = 120.0;

/// The shortest of some measurements counts: others may have been interrupted.
const MEASUREMENT_COUNT: usize = 5;

fn with_key<R>(
    latching: &mut Latching<'static>,
    act: impl FnOnce(&mut Latching<'static>, Key<'static>) -> R,
) -> R {
    let key = Key::new(latching.keyspace().hasher(), b"key", DbIndex(0));
    latching.latch(key.slot, Mode::Write).unwrap();
    let result = act(latching, key);
    latching.release();
    result
}

fn assert_grows_slowly(mut time: impl FnMut(&mut Latching<'static>, usize) -> Duration) {
    let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(1, [1, 2, 3, 4], |_| ())));
    let mut latching = Latching::new(keyspace, 0, 1);
    latching.mode.now = Millis(1000);
    let mut shortest = |count| (0..MEASUREMENT_COUNT).map(|_| time(&mut latching, count)).min().unwrap();
    let (few, many) = (shortest(COUNT), shortest(COUNT * FACTOR));
    let growth = many.as_secs_f64() / few.as_secs_f64();
    assert!(
        growth < GROWTH_MAX,
        "{few:?} for {COUNT} sessions, {growth:.1} times that for {FACTOR} times as many"
    );
}

/// The newest first: a search from the beginning finds it last.
fn timed<S>(sessions: Vec<S>, mut end: impl FnMut(S)) -> Duration {
    let began = Instant::now();
    sessions.into_iter().rev().for_each(&mut end);
    began.elapsed()
}

#[test]
fn watches_end_in_logarithmic_time() {
    assert_grows_slowly(|latching, count| {
        let watch = |latching: &mut Latching<'static>, key| {
            let mut watching = Watching::default();
            latching.watch(key, &mut watching);
            watching
        };
        let sessions: Vec<Watching> = (0..count).map(|_| with_key(latching, watch)).collect();
        timed(sessions, |watching| latching.end_watches(watching))
    });
}

#[test]
fn waits_end_in_logarithmic_time() {
    assert_grows_slowly(|latching, count| {
        let needs = Needs { kind: Kind::List, or_none: false };
        let mut wait = |client| {
            with_key(latching, |latching, key| {
                latching.begin_wait([key].into_iter(), needs, client, client, Box::new(()))
            })
        };
        let sessions: Vec<Arc<Waiter>> = (0..count as u64).map(&mut wait).collect();
        timed(sessions, |waiter| assert!(waiter.wait.try_end() && latching.leave(&waiter)))
    });
}
