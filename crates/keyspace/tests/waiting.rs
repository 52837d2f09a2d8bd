//! Queues of blocked clients: order, readiness, and that a wait that has ended leaves no entry.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use base::{DbIndex, Millis};
use collections::{ExpiryChange, Kind, NewValue};
use keyspace::{Key, Keyspace, Latching, Needs, Waiter};
use sync::Mode;

const DB: DbIndex = DbIndex(0);
const STRINGS: Needs = Needs { kind: Kind::String, or_none: false };

fn keyspace() -> &'static Keyspace {
    Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| ())))
}

fn latching() -> Latching<'static> {
    let mut latching = Latching::new(keyspace(), 0, 1);
    latching.mode.now = Millis(1000);
    latching
}

fn key(latching: &Latching<'static>, name: &'static str) -> Key<'static> {
    Key::new(latching.keyspace().hasher(), name.as_bytes(), DB)
}

/// Calls `run` under the latches of keys.
fn held<R>(
    latching: &mut Latching<'static>,
    names: &[&'static str],
    run: impl FnOnce(&mut Latching<'static>) -> R,
) -> R {
    let mut slots: Vec<_> = names.iter().map(|name| key(latching, name).slot).collect();
    slots.sort_unstable();
    slots.dedup();
    latching.latch_several(slots.into_iter(), Mode::Write).unwrap();
    let result = run(latching);
    latching.release();
    result
}

fn begin_wait(
    latching: &mut Latching<'static>,
    names: &[&'static str],
    needs: Needs,
    client: u64,
) -> Arc<Waiter> {
    let keys: Vec<_> = names.iter().map(|name| key(latching, name)).collect();
    held(latching, names, |latching| {
        latching.begin_wait(keys.into_iter(), needs, client, client, Box::new(()))
    })
}

fn set(latching: &mut Latching<'static>, name: &'static str) {
    let key = key(latching, name);
    latching.set(key, NewValue::Bytes(b"v"), ExpiryChange::Clear);
    latching.note_change(key);
}

/// The clients served for a ready key, in order; each of them is served.
fn serve(latching: &mut Latching<'static>) -> Vec<u64> {
    let mut served = Vec::new();
    while let Some(key) = latching.take_ready() {
        let mut from = 0;
        while let Some(waiter) = latching.next_waiter(key.key(), &mut from) {
            assert_eq!(waiter.wait.try_serve(), sync::TryServe::Claimed);
            waiter.wait.served();
            latching.remove_served(&waiter);
            served.push(waiter.client);
        }
    }
    served
}

fn waited(latching: &Latching<'static>) -> (u64, u64) {
    let counters = &latching.keyspace().counters;
    (counters.sum(|counters| &counters.waited_keys), counters.sum(|counters| &counters.waited_keys_or_none))
}

#[test]
fn first_come_first_served() {
    let mut latching = latching();
    for client in 1..=3 {
        begin_wait(&mut latching, &["k"], STRINGS, client);
    }
    let fourth = begin_wait(&mut latching, &["j", "k", "k"], STRINGS, 4);
    assert_eq!(fourth.keys().len(), 2);
    assert_eq!(waited(&latching), (2, 0));
    let served = held(&mut latching, &["j", "k"], |latching| {
        set(latching, "k");
        serve(latching)
    });
    assert_eq!(served, [1, 2, 3, 4]);
    assert_eq!(waited(&latching), (0, 0));
}

#[test]
fn only_the_right_type_is_served() {
    let mut latching = latching();
    begin_wait(&mut latching, &["k"], Needs { kind: Kind::List, or_none: false }, 1);
    begin_wait(&mut latching, &["k"], STRINGS, 2);
    begin_wait(&mut latching, &["k"], Needs { kind: Kind::Stream, or_none: true }, 3);
    assert_eq!(waited(&latching), (1, 1));
    let served = held(&mut latching, &["k"], |latching| {
        set(latching, "k");
        serve(latching)
    });
    assert_eq!(served, [2, 3]);
    assert_eq!(waited(&latching), (1, 0));
}

#[test]
fn waits_for_a_deletion_end_at_a_flush_or_expiry() {
    let mut latching = latching();
    let needs = Needs { kind: Kind::Stream, or_none: true };
    held(&mut latching, &["k"], |latching| set(latching, "k"));
    begin_wait(&mut latching, &["k"], needs, 1);
    latching.latch_all(Mode::Write).unwrap();
    latching.clear(None).free();
    assert_eq!(serve(&mut latching), [1]);
    latching.release();

    held(&mut latching, &["k"], |latching| {
        let key = key(latching, "k");
        latching.set(key, NewValue::Bytes(b"v"), ExpiryChange::At(2000));
    });
    begin_wait(&mut latching, &["k"], needs, 2);
    latching.mode.now = Millis(3000);
    let served = held(&mut latching, &["k"], |latching| {
        let key = key(latching, "k");
        assert!(latching.expire_if_due(key));
        serve(latching)
    });
    assert_eq!(served, [2]);
}

#[test]
fn deregistered_waiters_leave_no_entries() {
    let mut latching = latching();
    let waiters: Vec<_> =
        (0..1000).map(|client| begin_wait(&mut latching, &["k", "j"], STRINGS, client)).collect();
    assert_eq!(waited(&latching), (2, 0));
    for waiter in &waiters {
        assert!(waiter.wait.try_end());
        assert!(latching.leave(waiter));
        assert_eq!(Arc::strong_count(waiter), 1);
    }
    assert_eq!(waited(&latching), (0, 0));
    held(&mut latching, &["k"], |latching| set(latching, "k"));
    assert!(!latching.has_ready());
}

#[test]
fn ended_waiters_are_swept() {
    let mut latching = latching();
    let mut alive = Vec::new();
    let mut over = Vec::new();
    for client in 0..1000 {
        let waiter = begin_wait(&mut latching, &["k"], STRINGS, client);
        if client % 100 == 0 {
            alive.push(waiter);
        } else {
            assert!(waiter.wait.try_end());
            over.push(waiter);
        }
    }
    let kept = over.iter().filter(|waiter| Arc::strong_count(waiter) > 1).count();
    assert!(kept <= 2 * alive.len() + 8, "{kept} entries of ended waiters");
    let served = held(&mut latching, &["k"], |latching| {
        set(latching, "k");
        serve(latching)
    });
    assert_eq!(served, (0..10).map(|hundred| hundred * 100).collect::<Vec<_>>());
    assert!(over.iter().all(|waiter| Arc::strong_count(waiter) == 1));
}

#[test]
fn a_latched_slot_delays_deregistration() {
    let mut latching = latching();
    let waiter = begin_wait(&mut latching, &["k"], STRINGS, 1);
    assert!(waiter.wait.try_end());
    let mut other = Latching::new(latching.keyspace(), 1, 1);
    other.latch(key(&latching, "k").slot, Mode::Read).unwrap();
    assert!(!latching.leave(&waiter));
    other.release();
    assert!(latching.leave(&waiter));
    assert_eq!(waited(&latching), (0, 0));
}

#[test]
fn repeated_keys_are_waited_for_once() {
    let mut latching = latching();
    let names: Vec<&'static str> = ["a", "b", "c"].into_iter().cycle().take(100_000).collect();
    let waiter = begin_wait(&mut latching, &names, STRINGS, 1);
    assert_eq!(waiter.keys().len(), 3);
    assert_eq!(waited(&latching), (3, 0));
    assert!(latching.leave(&waiter));
    assert_eq!(waited(&latching), (0, 0));
}

#[test]
fn waiters_record_values_of_another_type() {
    let mut latching = latching();
    let lists = Needs { kind: Kind::List, or_none: false };
    let (met, other) =
        (begin_wait(&mut latching, &["k", "j"], lists, 1), begin_wait(&mut latching, &["j"], lists, 2));
    held(&mut latching, &["k"], |latching| {
        set(latching, "k");
        assert!(serve(latching).is_empty());
    });
    assert!(met.had_other_type() && !other.had_other_type());
}

#[test]
fn free_slots_are_latched_in_addition() {
    let mut latching = latching();
    let mut other = Latching::new(latching.keyspace(), 1, 2);
    let mut slots: Vec<_> = (0..300).map(base::Slot::new).collect();
    other.latch(slots[7], Mode::Read).unwrap();
    latching.latch(slots[100], Mode::Write).unwrap();
    let (latches, data) = latching.split();
    latches.latch_free_too(data, &slots);
    other.release();
    // The held slots cannot be latched by others, except one.
    slots.remove(7);
    assert!(slots.iter().all(|slot| other.latch(*slot, Mode::Read).is_err()));
    latching.release();
    other.latch_several(slots.into_iter(), Mode::Write).unwrap();
    other.release();
}
