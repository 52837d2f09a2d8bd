//! Transactions that observe slots that they do not hold: keys are counted at one instant, and random keys stay.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{DbIndex, Millis, Slot};
use collections::{ExpiryChange, NewValue};
use keyspace::{DatabaseWalk, ExpiryCycle, Key, Keyspace, Latching};
use sync::Mode;

const DB: DbIndex = DbIndex(0);

/// Latches the slots of keys in ascending order.
fn latch(latching: &mut Latching<'_>, keys: &[Key<'_>], mode: Mode) {
    let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    while latching.latch_several(slots.iter().copied(), mode).is_err() {
        latching.release();
        std::thread::yield_now();
    }
}

fn set(latching: &mut Latching<'_>, key: Key<'_>) {
    let _ = latching.set(key, NewValue::Bytes(b"v"), ExpiryChange::Clear);
}

#[test]
fn a_count_contains_all_keys_of_a_command_or_none() {
    const ROUNDS: usize = 3_000;
    let keyspace = Keyspace::new(1, [1; 4], |_| ());
    let barrier = Barrier::new(3);
    let fixed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2_usize {
            let (keyspace, barrier) = (&keyspace, &barrier);
            scope.spawn(move || {
                let mut latching = Latching::new(keyspace, thread, thread as u64 + 1);
                let names = [format!("a{thread}"), format!("b{thread}")];
                let keys = names.each_ref().map(|name| Key::new(keyspace.hasher(), name.as_bytes(), DB));
                barrier.wait();
                for _ in 0..ROUNDS {
                    latch(&mut latching, &keys, Mode::Write);
                    for key in keys {
                        if latching.remove(key).is_none() {
                            set(&mut latching, key);
                        }
                    }
                    latching.release();
                }
            });
        }
        let (keyspace, barrier, fixed) = (&keyspace, &barrier, &fixed);
        scope.spawn(move || {
            let mut latching = Latching::new(keyspace, 2, 3);
            let own = Key::new(keyspace.hasher(), b"own", DB);
            barrier.wait();
            for round in 0..ROUNDS {
                latch(&mut latching, &[own], Mode::Write);
                if latching.fix_key_count(DB, true) {
                    fixed.fetch_add(1, Ordering::Relaxed);
                    let before = latching.key_count(DB);
                    assert_eq!(before % 2, 0, "round {round}");
                    set(&mut latching, own);
                    assert_eq!(latching.key_count(DB), before + 1);
                    drop(latching.remove(own));
                    assert_eq!(latching.key_count(DB), before);
                }
                latching.release();
            }
        });
    });
    assert!(fixed.into_inner() > 0);
}

#[test]
fn a_count_waits_for_changes_and_paused_scripts() {
    let keyspace = Keyspace::new(1, [1; 4], |_| ());
    let [mut counting, mut other] = [0, 1].map(|thread| Latching::new(&keyspace, thread, 1));
    let [mine, theirs] = ["mine", "theirs"].map(|name| Key::new(keyspace.hasher(), name.as_bytes(), DB));
    let can_count = |counting: &mut Latching<'_>| {
        latch(counting, &[mine], Mode::Write);
        let is_fixed = counting.fix_key_count(DB, true);
        counting.release();
        is_fixed
    };
    assert!(can_count(&mut counting));
    latch(&mut other, &[theirs], Mode::Write);
    assert!(can_count(&mut counting), "nothing is changed yet");
    set(&mut other, theirs);
    assert!(!can_count(&mut counting));
    // A script pauses: the thread goes on with other commands.
    other.counters.set_paused_scripts(1);
    let paused = other.keep();
    other.release();
    assert!(!can_count(&mut counting));
    other.restore(paused);
    other.counters.set_paused_scripts(0);
    assert!(!can_count(&mut counting), "it continues");
    other.release();
    assert!(can_count(&mut counting));
    // Of two transactions that change and count keys, one must hold all latches.
    latch(&mut counting, &[mine], Mode::Write);
    latch(&mut other, &[theirs], Mode::Write);
    assert!(counting.fix_key_count(DB, true));
    assert!(!other.fix_key_count(DB, true));
}

#[test]
fn a_cycle_that_has_deleted_keys_ends_with_its_turn() {
    let keyspace = Keyspace::new(1, [1; 4], |_| ());
    let [mut counting, mut other] = [0, 1].map(|thread| Latching::new(&keyspace, thread, 1));
    let [mine, theirs] = ["mine", "theirs"].map(|name| Key::new(keyspace.hasher(), name.as_bytes(), DB));
    latch(&mut counting, &[theirs], Mode::Write);
    let _ = counting.set(theirs, NewValue::Bytes(b"v"), ExpiryChange::At(1_000));
    counting.release();
    other.mode.now = Millis(2_000);
    let mut count = 0;
    ExpiryCycle::new(0).run(&mut other, 1, || true, |_| count += 1);
    other.quiescent();
    latch(&mut counting, &[mine], Mode::Write);
    assert!(count == 1 && counting.fix_key_count(DB, true));
    assert_eq!(counting.key_count(DB), 0);
}

#[test]
fn random_keys_of_a_transaction_stay() {
    let keyspace = Keyspace::new(1, [1; 4], |_| ());
    let [mut sampling, mut other] = [0, 1].map(|thread| Latching::new(&keyspace, thread, 7));
    sampling.mode.now = Millis(1_000);
    let own = Key::new(keyspace.hasher(), b"own", DB);
    latch(&mut sampling, &[own], Mode::Write);
    set(&mut sampling, own);
    assert!(!sampling.keep_sampled_slots(DB), "the transaction can delete its only key");
    sampling.release();
    for number in 0..2_000 {
        let name = format!("key{number}");
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DB);
        latch(&mut other, &[key], Mode::Write);
        set(&mut other, key);
        other.release();
    }
    latch(&mut sampling, &[own], Mode::Write);
    assert!(sampling.keep_sampled_slots(DB));
    let names: Vec<Vec<u8>> = (0..20)
        .map(|_| {
            let walk = DatabaseWalk::new(&sampling, DB);
            walk.with_random_entry(|entry| entry.key().to_vec()).expect("there are keys")
        })
        .collect();
    for name in &names {
        let slot = Key::new(keyspace.hasher(), name, DB).slot;
        assert!(other.latch(slot, Mode::Write).is_err());
        assert!(other.latch(slot, Mode::Read).is_ok());
        other.release();
    }
    sampling.release();
    for name in &names {
        let slot = Key::new(keyspace.hasher(), name, DB).slot;
        assert!(other.latch(slot, Mode::Write).is_ok());
        other.release();
    }
}
