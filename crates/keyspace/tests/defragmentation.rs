//! Active defragmentation of a keyspace: entries left after random deletions are packed again.

use base::{DbIndex, Millis};
use collections::{ExpiryChange, NewValue};
use keyspace::{DefragmentationCycle, Key, Keyspace, Latching};
use sync::Mode;

const KEY_COUNT: u32 = 60_000;

#[test]
fn defragmentation_closes_gaps_and_keeps_all_keys() {
    let keyspace = Keyspace::new(2, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 7);
    latching.mode.now = Millis(1);
    let name = |number: u32| format!("key:{number}");
    for number in 0..KEY_COUNT {
        let name = name(number);
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex((number % 2) as u16));
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        latching.set(key, NewValue::Raw(&[b'x'; 100]), ExpiryChange::Clear);
        latching.release();
    }
    for number in (0..KEY_COUNT).filter(|number| number % 10 >= 2) {
        let name = name(number);
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex((number % 2) as u16));
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        assert!(latching.remove(key).is_some());
        latching.release();
    }
    keyspace.reclaim(&mut Vec::new());
    let wasted_before = keyspace.wasted_bytes();

    // The shares of two threads, in single steps.
    let mut moved_count = 0;
    for thread in 0..2 {
        let mut cycle = DefragmentationCycle::new(thread);
        loop {
            let done = cycle.run(&mut latching, 2, || false);
            moved_count += done.moved_count;
            if done.is_complete {
                break;
            }
        }
    }
    keyspace.reclaim(&mut Vec::new());
    assert!(moved_count > 1000, "{moved_count}");
    let wasted = keyspace.wasted_bytes();
    assert!(wasted < wasted_before / 2, "{wasted} of {wasted_before}");
    for number in (0..KEY_COUNT).filter(|number| number % 10 < 2) {
        let name = name(number);
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex((number % 2) as u16));
        latching.latch(key.slot, Mode::Read).expect("no other session holds a latch");
        assert_eq!(latching.find(key).and_then(|entry| entry.value().text_len()), Some(100));
        latching.release();
    }
}
