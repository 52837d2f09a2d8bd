//! Queues of blocked clients: order, readiness, and that no waiter is left behind.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use base::{DbIndex, Millis};
use collections::{ExpiryChange, Kind, NewValue};
use keyspace::{Key, Keyspace, Needs, View, Waiter};
use sync::Mode;

const DB: DbIndex = DbIndex(0);
const STRINGS: Needs = Needs { kind: Kind::String, or_none: false };

fn keyspace() -> &'static Keyspace {
    Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| ())))
}

fn view() -> View<'static> {
    let mut view = View::new(keyspace(), 0, 1);
    view.now = Millis(1000);
    view
}

fn key(view: &View<'static>, name: &'static str) -> Key<'static> {
    Key::new(view.keyspace().hasher(), name.as_bytes(), DB)
}

/// Calls `run` under the latches of keys.
fn held<R>(view: &mut View<'static>, names: &[&'static str], run: impl FnOnce(&mut View<'static>) -> R) -> R {
    let mut slots: Vec<_> = names.iter().map(|name| key(view, name).slot).collect();
    slots.sort_unstable();
    slots.dedup();
    view.latch_several(slots.into_iter(), Mode::Write).unwrap();
    let result = run(view);
    view.release();
    result
}

fn enlist(view: &mut View<'static>, names: &[&'static str], needs: Needs, client: u64) -> Arc<Waiter> {
    let keys: Vec<_> = names.iter().map(|name| key(view, name)).collect();
    held(view, names, |view| view.enlist(keys.into_iter(), needs, client, client, Box::new(())))
}

fn set(view: &mut View<'static>, name: &'static str) {
    let key = key(view, name);
    view.set(key, NewValue::Bytes(b"v"), ExpiryChange::Clear);
    view.note_change(key);
}

/// The clients served for a ready key, in order; each of them is served.
fn serve(view: &mut View<'static>) -> Vec<u64> {
    let mut served = Vec::new();
    while let Some(key) = view.take_ready() {
        let mut place = 0;
        while let Some(waiter) = view.next_waiter(key.key(), &mut place) {
            assert_eq!(waiter.wait.try_serve(), sync::TryServe::Claimed);
            waiter.wait.served();
            view.dismiss(&waiter);
            served.push(waiter.client);
        }
    }
    served
}

fn waited(view: &View<'static>) -> (u64, u64) {
    let counters = &view.keyspace().counters;
    (counters.sum(|counters| &counters.waited_keys), counters.sum(|counters| &counters.waited_keys_or_none))
}

#[test]
fn first_come_first_served() {
    let mut view = view();
    for client in 1..=3 {
        enlist(&mut view, &["k"], STRINGS, client);
    }
    let fourth = enlist(&mut view, &["j", "k", "k"], STRINGS, 4);
    assert_eq!(fourth.keys().len(), 2);
    assert_eq!(waited(&view), (2, 0));
    let served = held(&mut view, &["j", "k"], |view| {
        set(view, "k");
        serve(view)
    });
    assert_eq!(served, [1, 2, 3, 4]);
    assert_eq!(waited(&view), (0, 0));
}

#[test]
fn only_the_right_type_is_served() {
    let mut view = view();
    enlist(&mut view, &["k"], Needs { kind: Kind::List, or_none: false }, 1);
    enlist(&mut view, &["k"], STRINGS, 2);
    enlist(&mut view, &["k"], Needs { kind: Kind::Stream, or_none: true }, 3);
    assert_eq!(waited(&view), (1, 1));
    let served = held(&mut view, &["k"], |view| {
        set(view, "k");
        serve(view)
    });
    assert_eq!(served, [2, 3]);
    assert_eq!(waited(&view), (1, 0));
}

#[test]
fn what_waits_for_a_deletion_is_told_of_a_flush_and_an_expiry() {
    let mut view = view();
    let needs = Needs { kind: Kind::Stream, or_none: true };
    held(&mut view, &["k"], |view| set(view, "k"));
    enlist(&mut view, &["k"], needs, 1);
    view.latch_all(Mode::Write).unwrap();
    view.clear(None).free();
    assert_eq!(serve(&mut view), [1]);
    view.release();

    held(&mut view, &["k"], |view| {
        let key = key(view, "k");
        view.set(key, NewValue::Bytes(b"v"), ExpiryChange::At(2000));
    });
    enlist(&mut view, &["k"], needs, 2);
    view.now = Millis(3000);
    let served = held(&mut view, &["k"], |view| {
        assert!(view.expire_if_due(key(view, "k")));
        serve(view)
    });
    assert_eq!(served, [2]);
}

#[test]
fn who_leaves_leaves_nothing_behind() {
    let mut view = view();
    let waiters: Vec<_> = (0..1000).map(|client| enlist(&mut view, &["k", "j"], STRINGS, client)).collect();
    assert_eq!(waited(&view), (2, 0));
    for waiter in &waiters {
        assert!(waiter.wait.try_end());
        assert!(view.leave(waiter));
        assert_eq!(Arc::strong_count(waiter), 1);
    }
    assert_eq!(waited(&view), (0, 0));
    held(&mut view, &["k"], |view| set(view, "k"));
    assert!(!view.has_ready());
}

#[test]
fn who_could_not_leave_is_swept() {
    let mut view = view();
    let mut alive = Vec::new();
    let mut over = Vec::new();
    for client in 0..1000 {
        let waiter = enlist(&mut view, &["k"], STRINGS, client);
        if client % 100 == 0 {
            alive.push(waiter);
        } else {
            assert!(waiter.wait.try_end());
            over.push(waiter);
        }
    }
    let kept = over.iter().filter(|waiter| Arc::strong_count(waiter) > 1).count();
    assert!(kept <= 2 * alive.len() + 8, "{kept} of those that are over");
    let served = held(&mut view, &["k"], |view| {
        set(view, "k");
        serve(view)
    });
    assert_eq!(served, (0..10).map(|hundred| hundred * 100).collect::<Vec<_>>());
    assert!(over.iter().all(|waiter| Arc::strong_count(waiter) == 1));
}

#[test]
fn a_slot_taken_keeps_who_leaves() {
    let mut view = view();
    let waiter = enlist(&mut view, &["k"], STRINGS, 1);
    assert!(waiter.wait.try_end());
    let mut other = View::new(view.keyspace(), 1, 1);
    other.latch(key(&view, "k").slot, Mode::Read).unwrap();
    assert!(!view.leave(&waiter));
    other.release();
    assert!(view.leave(&waiter));
    assert_eq!(waited(&view), (0, 0));
}

#[test]
fn keys_named_again_and_again_are_waited_for_once() {
    let mut view = view();
    let names: Vec<&'static str> = ["a", "b", "c"].into_iter().cycle().take(100_000).collect();
    let waiter = enlist(&mut view, &names, STRINGS, 1);
    assert_eq!(waiter.keys().len(), 3);
    assert_eq!(waited(&view), (3, 0));
    assert!(view.leave(&waiter));
    assert_eq!(waited(&view), (0, 0));
}

#[test]
fn a_waiter_that_met_another_type_is_marked() {
    let mut view = view();
    let lists = Needs { kind: Kind::List, or_none: false };
    let (met, other) = (enlist(&mut view, &["k", "j"], lists, 1), enlist(&mut view, &["j"], lists, 2));
    held(&mut view, &["k"], |view| {
        set(view, "k");
        assert!(serve(view).is_empty());
    });
    assert!(met.has_met_other() && !other.has_met_other());
}

#[test]
fn slots_that_are_free_are_latched_too() {
    let mut view = view();
    let mut other = View::new(view.keyspace(), 1, 2);
    let mut slots: Vec<_> = (0..300).map(base::Slot::new).collect();
    other.latch(slots[7], Mode::Read).unwrap();
    view.latch(slots[100], Mode::Write).unwrap();
    view.latch_free_too(&slots);
    other.release();
    // The held slots cannot be latched by others, except one.
    slots.remove(7);
    assert!(slots.iter().all(|slot| other.latch(*slot, Mode::Read).is_err()));
    view.release();
    other.latch_several(slots.into_iter(), Mode::Write).unwrap();
    other.release();
}
