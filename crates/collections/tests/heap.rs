//! The heap as its owner observes it: no memory is lost, whichever thread frees and in any order
//! values are dropped.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use collections::{ExpiryChange, Heap, Hint, NewValue, OwnedEntry, Table, ValueRef};

fn hash_of(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn fill(heap: &Heap, table: &mut Table, count: u64, value_size: impl Fn(u64) -> usize) {
    let bytes = vec![b'v'; 10_000];
    for number in 0..count {
        let value = NewValue::Bytes(&bytes[..value_size(number)]);
        table.upsert(heap, hash_of(number), &number.to_le_bytes(), value, ExpiryChange::Clear);
    }
}

/// Fewer under Miri.
fn scaled(count: u64) -> u64 {
    if cfg!(miri) { count / 50 } else { count }
}

#[test]
fn sixteen_byte_keys_with_64_byte_values_take_88_bytes() {
    let (heap, mut table) = (Heap::new(), Table::new());
    let upserted = table.upsert_string(&heap, 1, &[7; 16], &[8; 64], ExpiryChange::Clear);
    assert_eq!(upserted.entry.allocated_bytes(), 88);
    assert_eq!(heap.used_bytes(), 88 + table.memory_bytes() as u64);
}

#[test]
fn an_overwrite_of_the_same_size_class_keeps_the_block() {
    let (heap, mut table) = (Heap::new(), Table::new());
    let address = |table: &Table| table.find(1, b"key").map(|entry| entry.key().as_ptr());
    table.upsert_string(&heap, 1, b"key", &[b'a'; 60], ExpiryChange::At(5));
    let before = address(&table);
    for len in [60, 57, 58, 60] {
        table.upsert_string(&heap, 1, b"key", &vec![b'b'; len], ExpiryChange::At(len as i64));
        assert_eq!(address(&table), before);
    }
    table.upsert_string(&heap, 1, b"key", &[b'a'; 80], ExpiryChange::Keep);
    assert_ne!(address(&table), before);
    assert_eq!(table.find(1, b"key").and_then(|entry| entry.expiry()), Some(60));
}

#[test]
fn overwritten_long_strings_use_about_their_own_size() {
    let (heap, mut table) = (Heap::new(), Table::new());
    for len in [20_000, 60_000, 55_000, 31_000, 30_000, 60_000, 5_000] {
        let text = vec![b'v'; len];
        table.upsert_string(&heap, 1, b"key", &text, ExpiryChange::Clear);
        let entry = table.find(1, b"key").expect("it is set");
        assert!(matches!(entry.value(), ValueRef::Bytes(bytes) if bytes == text));
        let size = entry.allocated_bytes();
        assert!((len..len + len / 8 + 100).contains(&size), "{size} bytes for {len}");
    }
}

#[test]
fn entries_and_tables_may_outlive_their_heap() {
    let heap = Heap::new();
    let mut table = Table::new();
    fill(&heap, &mut table, scaled(3_000), |number| number as usize % 300);
    let other_heap = Heap::new();
    let removed = table.remove(&other_heap, hash_of(0), &0u64.to_le_bytes()).expect("key 0 exists");
    drop(heap);
    table.check().expect("the invariants hold");
    // Changes use the other heap, and move the entries that they change.
    fill(&other_heap, &mut table, scaled(2_000), |_| 5_000);
    table.check().expect("the invariants hold");
    drop(table);
    assert_eq!(removed.entry().key(), 0u64.to_le_bytes());
}

#[test]
fn all_memory_is_returned() {
    let heaps = Heap::family(3);
    let mut tables: Vec<_> = (0..6).map(|_| Table::new()).collect();
    for (index, table) in tables.iter_mut().enumerate() {
        fill(&heaps[index % 3], table, scaled(2_000), |number| (number * 7 + index as u64) as usize % 1_300);
    }
    for heap in &heaps {
        assert!(heap.used_bytes() > 0 && heap.used_bytes() <= heap.resident_bytes());
    }
    drop(tables);
    for heap in &heaps {
        drop(heap.take_retired());
        assert_eq!(heap.used_bytes(), 0);
        heap.trim();
        assert_eq!(heap.resident_bytes(), 0);
    }
    assert_eq!((heaps[0].family_mapped_bytes(), heaps[0].family_vacant_bytes()), (0, 0));
}

#[test]
fn freed_large_blocks_are_subdivided_for_small_entries() {
    let (heap, mut table) = (Heap::new(), Table::new());
    let key_of = |number: u64| [number as u8; 200];
    let set = |table: &mut Table, number: u64, value_size: usize| {
        let value = vec![number as u8; value_size];
        table.upsert_string(&heap, hash_of(number), &key_of(number), &value, ExpiryChange::Clear);
    };
    (0..6).for_each(|number| set(&mut table, number, 1_000));
    (1..6).for_each(|number| assert!(table.remove(&heap, hash_of(number), &key_of(number)).is_some()));
    let resident_bytes = heap.resident_bytes();
    (6..16).for_each(|number| set(&mut table, number, 10));
    assert_eq!(heap.resident_bytes(), resident_bytes);
    // The remaining entries move together, and spans that become empty are returned.
    for number in [8, 9, 10, 15] {
        assert!(table.remove(&heap, hash_of(number), &key_of(number)).is_some());
    }
    assert!(table.defragment(&heap, 0, usize::MAX).moved_count > 0);
    for (number, len) in [(0, 1_000), (6, 10), (7, 10), (14, 10)] {
        let entry = table.find(hash_of(number), &key_of(number)).expect("it was not removed");
        assert!(matches!(entry.value(), ValueRef::Bytes(bytes) if bytes == vec![number as u8; len]));
    }
    drop(table);
    drop(heap.take_retired());
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn threads_may_free_blocks_of_other_threads() {
    let heaps = Heap::family(2);
    let (sender, receiver) = mpsc::channel::<OwnedEntry>();
    let round_count = scaled(10_000);
    std::thread::scope(|scope| {
        for heap in &heaps {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut table = Table::new();
                for round in 0..round_count {
                    let (hash, key) = (hash_of(round % 100), (round % 100).to_le_bytes());
                    let value = vec![1; (round * 31 % 2_000) as usize];
                    table.upsert(heap, hash, &key, NewValue::Bytes(&value), ExpiryChange::Clear);
                    if let Some(removed) = table.remove(heap, hash, &key) {
                        sender.send(removed).expect("the receiver is alive");
                    }
                }
            });
        }
        drop(sender);
        scope.spawn(move || receiver.into_iter().for_each(drop));
    });
    for heap in &heaps {
        drop(heap.take_retired());
        assert_eq!(heap.used_bytes(), 0);
    }
}

#[test]
fn prefetches_may_run_while_a_table_changes() {
    // SAFETY: (1 to 3) there are no prefetches.
    let (heap, hint) = (Heap::new(), unsafe { Hint::new() });
    let key_count = scaled(3_000);
    let done = AtomicBool::new(false);
    // The writer keeps retired memory until the readers have ended, as an epoch would.
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            let (hint, done) = (&hint, &done);
            scope.spawn(move || {
                let mut number = seed;
                while !done.load(Ordering::Relaxed) {
                    number = number.wrapping_add(1);
                    let hash = hash_of(number % key_count);
                    hint.prefetch_directory(hash);
                    let _ = hint.prefetch_entry(hash);
                }
            });
        }
        let mut table = Table::with_hint();
        for round in 0..2 {
            for number in 0..key_count {
                let (hash, key) = (hash_of(number), number.to_le_bytes());
                if round == 0 {
                    table.upsert_string(&heap, hash, &key, b"value", ExpiryChange::Clear);
                } else {
                    table.remove(&heap, hash, &key);
                }
                hint.publish(&mut table);
            }
        }
        table.clear();
        hint.publish(&mut table);
        done.store(true, Ordering::Relaxed);
    });
    drop(heap.take_retired());
    assert_eq!(heap.used_bytes(), 0);
}

/// Otherwise an epoch could pass in between, and a prefetch that starts after it would be led to freed
/// memory.
#[test]
fn memory_is_retired_after_its_hint_is_updated() {
    // SAFETY: (1) it is published after each change; (2, 3) there is one thread, and no prefetch lasts
    // beyond a change.
    let hint = unsafe { Hint::new() };
    let (heap, mut table) = (Heap::new(), Table::with_hint());
    let mut retired_size = 0;
    let mut follow = |table: &mut Table| {
        assert_eq!(heap.retired_bytes(), retired_size, "retired while the hint may lead there");
        hint.publish(table);
        retired_size = heap.retired_bytes();
    };
    for number in 0..scaled(3_000) {
        table.upsert_string(&heap, hash_of(number), &number.to_le_bytes(), b"value", ExpiryChange::Clear);
        follow(&mut table);
    }
    for number in 0..scaled(2_900) {
        table.remove(&heap, hash_of(number), &number.to_le_bytes());
        follow(&mut table);
    }
    table.clear();
    follow(&mut table);
    for number in 0..100 {
        table.upsert_string(&heap, hash_of(number), &number.to_le_bytes(), b"value", ExpiryChange::Clear);
        follow(&mut table);
    }
    let (mut taken, mut other) = (table.take(), Table::new());
    follow(&mut table);
    assert!(retired_size > 0);
    other.exchange(&mut taken);
    drop((taken, table));
    other.clear();
    assert!(heap.retired_bytes() > retired_size, "a table without a hint retires at once");
    drop(heap.take_retired());
    drop(other);
    drop(heap.take_retired());
    assert_eq!(heap.used_bytes(), 0);
}
