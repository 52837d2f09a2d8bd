//! Latches of one command after the other: a run on one slot keeps its latch, but not before somebody who waits for it. And
//! those of one command, when it needs several.

use std::collections::BTreeSet;
use std::sync::mpsc;

use base::{DbIndex, Slot};
use collections::{ExpiryChange, NewValue};
use keyspace::{Busy, Key, Keyspace, View};
use sync::Mode;

const FIRST: Slot = Slot::new(7);
const SECOND: Slot = Slot::new(8);

#[test]
fn a_run_on_one_slot_keeps_its_latch_until_somebody_waits() {
    let (sender, woken) = mpsc::channel();
    let wake = move |token| sender.send(token).expect("the test listens");
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
    let (mut runner, mut other) = (View::new(&keyspace, 0, 1), View::new(&keyspace, 1, 2));
    for mode in [Mode::Write, Mode::Read, Mode::Read] {
        assert_eq!(runner.latch_next(FIRST, mode), Ok(()));
    }
    // It is for reading now, as another reader can tell.
    assert_eq!(other.latch(FIRST, Mode::Read), Ok(()));
    assert_eq!(runner.latch_next(FIRST, Mode::Write), Err(Busy(FIRST)));
    assert!(runner.holds_nothing());
    other.release();

    assert_eq!(runner.latch_next(FIRST, Mode::Write), Ok(()));
    assert_eq!(runner.latch_next(SECOND, Mode::Write), Ok(()));
    assert_eq!(other.latch(FIRST, Mode::Write), Ok(()));
    assert_eq!(other.latch_next(SECOND, Mode::Write), Err(Busy(SECOND)));
    assert!(!other.park(Busy(SECOND), Mode::Write, 5));
    assert!(woken.try_recv().is_err());
    assert_eq!(runner.latch_next(SECOND, Mode::Write), Ok(()));
    assert_eq!(woken.try_recv(), Ok(5));
    runner.release();
    assert!(other.claim(Busy(SECOND), 5));
}

#[test]
fn a_few_latches_are_had_at_once_in_any_order_or_not_at_all() {
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let (mut runner, mut other) = (View::new(&keyspace, 0, 1), View::new(&keyspace, 1, 2));
    // The first and the last but one are remembered in the same place, and the second comes twice.
    let wanted = [130, 9, 300, 2, 9].map(Slot::new);
    assert!(runner.latch_at_once(wanted.into_iter(), Mode::Read));
    assert!(!other.latch_at_once(wanted.into_iter(), Mode::Write));
    assert!(other.holds_nothing());
    assert!(other.latch_at_once(wanted.into_iter(), Mode::Read));
    other.release();
    runner.release();

    assert!(runner.latch_at_once([130, 9, 300, 2].map(Slot::new).into_iter(), Mode::Write));
    assert!(runner.latch_too(Slot::new(40)) && runner.latch_too(Slot::new(2)));
    for slot in [130, 9, 300, 2, 40].map(Slot::new) {
        assert_eq!(other.latch(slot, Mode::Read), Err(Busy(slot)));
    }
    // Those behind the last one are taken still.
    assert_eq!(runner.latch_several([400, 500].map(Slot::new).into_iter(), Mode::Write), Ok(()));
    assert_eq!(other.latch(Slot::new(500), Mode::Read), Err(Busy(Slot::new(500))));
    runner.release();
    assert!(other.latch_at_once((0..64).map(Slot::new), Mode::Write));
    other.release();
    assert!(!other.latch_at_once((0..65).map(Slot::new), Mode::Write) && other.holds_nothing());
}

#[test]
fn every_key_is_found_in_whatever_order_its_slot_was_latched() {
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let mut view = View::new(&keyspace, 0, 1);
    for count in [2, 3, 40, 64] {
        let names: Vec<String> = (0..count).map(|number| format!("key:{count}:{number}")).collect();
        let slot = |name: &String| Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0)).slot;
        let slots: BTreeSet<_> = names.iter().map(slot).collect();
        assert!(view.latch_at_once(slots.into_iter().rev(), Mode::Write));
        for name in &names {
            let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0));
            assert!(view.find(key).is_none());
            view.set(key, NewValue::Bytes(name.as_bytes()), ExpiryChange::Clear);
            assert_eq!(view.find(key).and_then(|entry| entry.value().text_len()), Some(name.len()));
        }
        view.release();
    }
}
