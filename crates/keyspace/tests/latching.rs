//! Latches of consecutive commands: a run on one slot keeps its latch, but not ahead of a waiter. And the
//! latches of one command that needs several.

use std::collections::BTreeSet;
use std::sync::mpsc;

use base::{DbIndex, Slot};
use collections::{ExpiryChange, NewValue};
use keyspace::{Busy, Key, Keyspace, Latching, TRY_COUNT_MAX, Tries};
use sync::Mode;

const FIRST: Slot = Slot::new(7);
const SECOND: Slot = Slot::new(8);

fn latch_next(latching: &mut Latching<'_>, slot: Slot, mode: Mode) -> Result<(), Busy> {
    let (latches, data) = latching.split();
    latches.latch_next(data, slot, mode)
}

fn latch_at_once(
    latching: &mut Latching<'_>,
    wanted: impl ExactSizeIterator<Item = Slot>,
    mode: Mode,
) -> bool {
    let (latches, data) = latching.split();
    latches.latch_at_once(data, wanted, mode)
}

fn try_latch_extra(latching: &mut Latching<'_>, slot: Slot) -> bool {
    let (latches, data) = latching.split();
    latches.try_latch_extra(data, slot)
}

#[test]
fn a_run_on_one_slot_keeps_its_latch_until_a_session_waits() {
    let (sender, woken) = mpsc::channel();
    let wake = move |token| sender.send(token).expect("the receiver is alive");
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
    let (mut runner, mut other) = (Latching::new(&keyspace, 0, 1), Latching::new(&keyspace, 1, 2));
    for mode in [Mode::Write, Mode::Read, Mode::Read] {
        assert_eq!(latch_next(&mut runner, FIRST, mode), Ok(()));
    }
    // The latch is held for reading now: another reader acquires it as well.
    assert_eq!(other.latch(FIRST, Mode::Read), Ok(()));
    assert_eq!(latch_next(&mut runner, FIRST, Mode::Write), Err(Busy(FIRST)));
    assert!(runner.holds_nothing());
    other.release();

    assert_eq!(latch_next(&mut runner, FIRST, Mode::Write), Ok(()));
    assert_eq!(latch_next(&mut runner, SECOND, Mode::Write), Ok(()));
    assert_eq!(other.latch(FIRST, Mode::Write), Ok(()));
    assert_eq!(latch_next(&mut other, SECOND, Mode::Write), Err(Busy(SECOND)));
    assert!(!other.park(Busy(SECOND), Mode::Write, 5));
    assert!(woken.try_recv().is_err());
    assert_eq!(latch_next(&mut runner, SECOND, Mode::Write), Ok(()));
    assert_eq!(woken.try_recv(), Ok(5));
    runner.release();
    assert!(other.claim(Busy(SECOND), 5));
}

#[test]
fn a_few_latches_are_acquired_together_or_not_at_all() {
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let (mut runner, mut other) = (Latching::new(&keyspace, 0, 1), Latching::new(&keyspace, 1, 2));
    // The first and the last but one are recorded in the same place, and the second is repeated.
    let wanted = [130, 9, 300, 2, 9].map(Slot::new);
    assert!(latch_at_once(&mut runner, wanted.into_iter(), Mode::Read));
    assert!(!latch_at_once(&mut other, wanted.into_iter(), Mode::Write));
    assert!(other.holds_nothing());
    assert!(latch_at_once(&mut other, wanted.into_iter(), Mode::Read));
    other.release();
    runner.release();

    assert!(latch_at_once(&mut runner, [130, 9, 300, 2].map(Slot::new).into_iter(), Mode::Write));
    assert!(try_latch_extra(&mut runner, Slot::new(40)) && try_latch_extra(&mut runner, Slot::new(2)));
    for slot in [130, 9, 300, 2, 40].map(Slot::new) {
        assert_eq!(other.latch(slot, Mode::Read), Err(Busy(slot)));
    }
    // The latches behind the last one are still taken.
    assert_eq!(runner.latch_several([400, 500].map(Slot::new).into_iter(), Mode::Write), Ok(()));
    assert_eq!(other.latch(Slot::new(500), Mode::Read), Err(Busy(Slot::new(500))));
    runner.release();
    assert!(latch_at_once(&mut other, (0..64).map(Slot::new), Mode::Write));
    other.release();
    assert!(!latch_at_once(&mut other, (0..65).map(Slot::new), Mode::Write) && other.holds_nothing());
}

#[test]
fn keys_are_found_in_any_latching_order() {
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 1);
    for count in [2, 3, 40, 64] {
        let names: Vec<String> = (0..count).map(|number| format!("key:{count}:{number}")).collect();
        let slot = |name: &String| Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0)).slot;
        let slots: BTreeSet<_> = names.iter().map(slot).collect();
        assert!(latch_at_once(&mut latching, slots.into_iter().rev(), Mode::Write));
        for name in &names {
            let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0));
            assert!(latching.find(key).is_none());
            latching.set(key, NewValue::Bytes(name.as_bytes()), ExpiryChange::Clear);
            assert_eq!(latching.find(key).and_then(|entry| entry.value().text_len()), Some(name.len()));
        }
        latching.release();
    }
}

/// Latches all slots of `wanted` as the executor does.
fn latch_wanted(
    latching: &mut Latching<'_>,
    wanted: &[Slot],
    token: u64,
    tries: &mut Tries,
) -> Result<(), Busy> {
    latching.begin_latching(tries);
    while let Err(busy) = latching.latch_several(wanted.iter().copied(), Mode::Write) {
        if !latching.wait_for(busy, Mode::Write, token, tries) {
            return Err(busy);
        }
    }
    Ok(())
}

#[test]
fn tries_release_all_latches_until_some_are_kept() {
    let (sender, woken) = mpsc::channel();
    let wake = move |token| sender.send(token).expect("the receiver is alive");
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
    let [mut wide, mut slow, mut other] = [0, 1, 2].map(|thread| Latching::new(&keyspace, thread, 2));
    let wanted: Vec<_> = (0..100).map(Slot::new).collect();
    let mut tries = Tries::default();
    // At each attempt another slot is taken.
    slow.latch(wanted[50], Mode::Write).expect("free");
    let mut busy = latch_wanted(&mut wide, &wanted, 7, &mut tries).expect_err("one is taken");
    for count in 1..=u16::from(TRY_COUNT_MAX) {
        assert!(wide.holds_nothing());
        let kept = wide.keep();
        // Nothing waits for its latches, below and above.
        assert!(latch_at_once(&mut other, [0, 20, 99].map(Slot::new).into_iter(), Mode::Write));
        other.release();
        let next = wanted[50 + usize::from(count)];
        let mut later = Latching::new(&keyspace, 3, 3);
        later.latch(next, Mode::Write).expect("free");
        slow.release();
        assert_eq!(woken.try_recv(), Ok(7));
        wide.restore(kept);
        assert!(wide.claim(busy, 7));
        busy = latch_wanted(&mut wide, &wanted, 7, &mut tries).expect_err("another one is taken");
        assert_eq!(busy, Busy(next));
        slow = later;
    }
    // The last latch is waited for with the lower ones kept.
    assert!(!wide.holds_nothing());
    assert_eq!(other.latch(wanted[20], Mode::Write), Err(Busy(wanted[20])));
    assert_eq!(other.latch(wanted[99], Mode::Write), Ok(()));
    other.release();
    slow.release();
    assert_eq!(woken.try_recv(), Ok(7));
    assert!(wide.claim(busy, 7));
    assert_eq!(latch_wanted(&mut wide, &wanted, 7, &mut tries), Ok(()));
    assert_eq!(other.latch(wanted[99], Mode::Write), Err(Busy(wanted[99])));
    wide.release();
}

/// Commands on overlapping slots, in random order: each obtains all of its slots in the end, however they
/// interleave.
#[test]
fn competing_tries_all_complete() {
    const COMMAND_COUNT: usize = 12;
    for seed in 1..=200 {
        let (sender, woken) = mpsc::channel();
        let wake = move |token| sender.send(token).expect("the receiver is alive");
        let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
        let random = keyspace::Random::new(seed * 0x9E37_79B9);
        let mut sides: Vec<_> = (0..COMMAND_COUNT).map(|_| Latching::new(&keyspace, 0, 1)).collect();
        let mut wants: Vec<Vec<Slot>> = Vec::new();
        for _ in 0..COMMAND_COUNT {
            let slots: BTreeSet<_> =
                (0..=random.below(6)).map(|_| Slot::new(random.below(8) as u16)).collect();
            wants.push(slots.into_iter().collect());
        }
        let mut tries: Vec<_> = (0..COMMAND_COUNT).map(|_| Tries::default()).collect();
        // The remaining runs of each; the slot where it waits; whether it holds all slots that it needs.
        let (mut left, mut waits, mut runs) =
            ([5; COMMAND_COUNT], [None; COMMAND_COUNT], [false; COMMAND_COUNT]);
        for step in 0.. {
            assert!(step < 100_000, "seed {seed}: no session makes progress");
            for token in woken.try_iter().map(|token| token as usize) {
                let busy = waits[token].take().expect("only waiting sessions are woken");
                if !sides[token].claim(busy, token as u64) {
                    waits[token] = Some(busy);
                    continue;
                }
                waits[token] =
                    latch_wanted(&mut sides[token], &wants[token], token as u64, &mut tries[token]).err();
                runs[token] = waits[token].is_none();
            }
            let number = random.below(COMMAND_COUNT as u64) as usize;
            if runs[number] {
                sides[number].release();
                (tries[number], runs[number]) = (Tries::default(), false);
                left[number] -= 1;
            } else if waits[number].is_none() && left[number] > 0 {
                waits[number] =
                    latch_wanted(&mut sides[number], &wants[number], number as u64, &mut tries[number]).err();
                runs[number] = waits[number].is_none();
            }
            if left == [0; COMMAND_COUNT] {
                break;
            }
        }
    }
}
