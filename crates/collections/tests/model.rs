//! Random operations on a table, each compared with a standard map, with the invariants checked on the way.
#![allow(unsafe_code)]

mod random;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use collections::{
    DecimalBuffer, EMBSTR_SIZE_MAX, Encoding, Entry, ExpiryChange, Guess, Heap, Hint, INLINE_SIZE_MAX,
    NewValue, ProbeResult, Table, ValueRef,
};
use random::Random;

/// How keys are hashed: well, or so that many keys share a position and all code for crowded positions runs.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    Good,
    FewPositions,
    OnePosition,
    LeadingBitsEqual,
}

fn hash_of(hashing: Hashing, key: &[u8]) -> u64 {
    let mut random = Random(0xB10C);
    for &byte in key {
        random.0 ^= u64::from(byte);
        random.bits();
    }
    let hash = random.bits();
    match hashing {
        Hashing::Good => hash,
        Hashing::FewPositions => hash & 0x0003_8000_1400_0000,
        Hashing::OnePosition => hash & !(0xFF_FFFF << 26) | 0xAB_CDEF << 26,
        Hashing::LeadingBitsEqual => hash & !(0xFF_C000 << 26) | 0x5A_4000 << 26,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    text: Vec<u8>,
    expiry: Option<i64>,
    encoding: Encoding,
}

fn encoding_when_set(text: &[u8]) -> Encoding {
    let is_int = std::str::from_utf8(text)
        .is_ok_and(|text| text.parse::<i64>().is_ok_and(|value| value.to_string() == text));
    match text.len() {
        _ if is_int => Encoding::Int,
        0..=EMBSTR_SIZE_MAX => Encoding::Embstr,
        _ => Encoding::Raw,
    }
}

struct Driver {
    heap: Heap,
    table: Table,
    hint: Hint,
    /// Where an entry was found.
    guess: Guess,
    model: BTreeMap<Vec<u8>, Expected>,
    random: Random,
    hashing: Hashing,
    key_count: u64,
    /// Percentage of operations that remove.
    removal_percent: u64,
    /// Long texts that are kept while their values change, and their original contents.
    held: VecDeque<(Arc<Vec<u8>>, Vec<u8>)>,
}

impl Driver {
    fn new(seed: u64, hashing: Hashing, key_count: u64) -> Self {
        Self {
            heap: Heap::new(),
            table: Table::with_hint(),
            // SAFETY: (1) it is published after each change; (2, 3) there is one thread, and no prefetch
            // lasts beyond a change.
            hint: unsafe { Hint::new() },
            guess: Guess::NONE,
            model: BTreeMap::new(),
            random: Random(seed),
            hashing,
            key_count,
            removal_percent: 25,
            held: VecDeque::new(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.key_count as usize);
        let mut key = format!("key:{number}").into_bytes();
        match number % 50 {
            7 => key.resize(253 + number % 7, b'x'),
            8 => key.resize(700, b'y'),
            9 if number < 50 => key.clear(),
            _ => {}
        }
        key
    }

    fn text(&mut self) -> Vec<u8> {
        let len = match self.random.below(20) {
            0..=3 => return (self.random.bits() as i64 >> self.random.below(64)).to_string().into_bytes(),
            4 => 1000 + self.random.below(60),
            5 => 3000 + self.random.below(2000),
            6..=9 => self.random.below(600),
            _ => self.random.below(64),
        };
        (0..len).map(|_| self.random.bits() as u8).collect()
    }

    fn expiry_change(&mut self) -> ExpiryChange {
        match self.random.below(4) {
            0 => ExpiryChange::Clear,
            1 => ExpiryChange::At(self.random.below(1000) as i64),
            _ => ExpiryChange::Keep,
        }
    }

    fn step(&mut self) {
        let key = self.key();
        let hash = hash_of(self.hashing, &key);
        self.hint.prefetch_directory(hash);
        let result = self.hint.prefetch_entry(hash);
        let expected = self.model.get(&key);
        // An entry of this position was found, of this key or another.
        assert!(expected.is_none() || matches!(result, ProbeResult::Found(_)));
        if let ProbeResult::Found(guess) = result
            && self.random.below(4) > 0
        {
            // Otherwise the guess is for another key, or for an earlier state of the table.
            self.guess = guess;
        }
        assert_eq!(self.table.find_near(self.guess, hash, &key).map(seen), expected.cloned());
        if (self.random.below(100) as u64) < self.removal_percent {
            let removed = self.table.remove(&self.heap, hash, &key);
            let expected = self.model.remove(&key);
            assert_eq!(removed.as_ref().map(|removed| seen(removed.entry())), expected);
        } else {
            match self.random.below(10) {
                0 => self.append(hash, key),
                1 => self.resize(hash, key),
                2 => self.set_expiry(hash, key),
                3 => self.rename(hash, &key),
                4 => self.defragment(),
                5 => self.hold(hash, &key),
                _ => self.set(hash, key),
            }
        }
        self.hint.publish(&mut self.table);
        drop(self.heap.take_retired());
    }

    fn set(&mut self, hash: u64, key: Vec<u8>) {
        let (text, expiry) = (self.text(), self.expiry_change());
        let old = self.model.get(&key).cloned();
        let value = NewValue::Auto(&text);
        let upserted = self.table.upsert_near(self.guess, &self.heap, hash, &key, value, expiry);
        assert_eq!(upserted.existed, old.is_some());
        let old_expiry = old.and_then(|old| old.expiry);
        assert_eq!(upserted.old_expiry, old_expiry);
        let encoding = encoding_when_set(&text);
        let expected = Expected { text, expiry: expiry.apply(old_expiry), encoding };
        assert_eq!(seen(upserted.entry), expected);
        self.model.insert(key, expected);
    }

    fn append(&mut self, hash: u64, key: Vec<u8>) {
        let suffix = self.text();
        let len = self.table.append(&self.heap, hash, &key, &suffix).expect("all values are strings");
        let expected = self.model.entry(key).and_modify(|expected| {
            expected.text.extend_from_slice(&suffix);
            expected.encoding = Encoding::Raw;
        });
        let expected = expected.or_insert_with(|| {
            let encoding = encoding_when_set(&suffix);
            Expected { text: suffix, expiry: None, encoding }
        });
        assert_eq!(len, expected.text.len());
        // Values that grow without bound would make the test slow.
        if len > 20_000 {
            expected.text.truncate(10);
            let key = self.model.iter().find(|(_, expected)| expected.text.len() == 10).map(|(key, _)| key);
            assert!(key.is_some());
            self.truncate_all();
        }
    }

    /// Resizes the table's strings to the model's lengths.
    fn truncate_all(&mut self) {
        for (key, expected) in &mut self.model {
            let hash = hash_of(self.hashing, key);
            let entry = self.table.find(hash, key).expect("in the model");
            if entry.value().text_len() != Some(expected.text.len()) {
                let resized = self.table.resize_string(&self.heap, hash, key, expected.text.len());
                assert_eq!(resized.expect("all values are strings"), expected.text);
                expected.encoding = Encoding::Raw;
            }
        }
    }

    fn resize(&mut self, hash: u64, key: Vec<u8>) {
        let len = self.random.below(1400);
        let bytes = self.table.resize_string(&self.heap, hash, &key, len).expect("all values are strings");
        let default = Expected { text: Vec::new(), expiry: None, encoding: Encoding::Raw };
        let expected = self.model.entry(key).or_insert(default);
        expected.text.resize(len, 0);
        expected.encoding = Encoding::Raw;
        assert_eq!(bytes, expected.text);
        if let Some(last) = bytes.last_mut() {
            *last = 7;
            expected.text[len - 1] = 7;
        }
    }

    fn set_expiry(&mut self, hash: u64, key: Vec<u8>) {
        let expiry = (self.random.below(3) != 0).then(|| self.random.below(1000) as i64);
        let exists = self.table.set_expiry(&self.heap, hash, &key, expiry);
        assert_eq!(exists, self.model.contains_key(&key));
        if let Some(expected) = self.model.get_mut(&key) {
            expected.expiry = expiry;
        }
    }

    fn rename(&mut self, hash: u64, key: &[u8]) {
        let target = self.key();
        let target_hash = hash_of(self.hashing, &target);
        let Some(expected) = self.model.get(key).cloned() else { return };
        let replaced = if self.random.below(2) == 0 {
            let source = self.table.remove(&self.heap, hash, key).expect("in the model");
            self.model.remove(key);
            self.table.insert_owned(&self.heap, target_hash, &target, source)
        } else {
            let other_heap = Heap::new();
            let mut other = Table::new();
            let source = self.table.find(hash, key).expect("in the model");
            assert!(other.insert_copy(&other_heap, target_hash, &target, source).is_none());
            let copy = other.remove(&other_heap, target_hash, &target).expect("just inserted");
            drop((other, other_heap));
            self.table.insert_owned(&self.heap, target_hash, &target, copy)
        };
        let old = self.model.insert(target, expected);
        assert_eq!(replaced.map(|replaced| seen(replaced.entry())), old);
    }

    /// Keeps a long text in its present state, in addition to some others.
    fn hold(&mut self, hash: u64, key: &[u8]) {
        let Some(expected) = self.model.get(key) else { return };
        match self.table.find(hash, key).and_then(Entry::shared_text) {
            Some(shared) => self.held.push_back((shared, expected.text.clone())),
            None => assert!(expected.text.len() <= INLINE_SIZE_MAX),
        }
        if self.held.len() > 20 {
            self.held.pop_front();
        }
    }

    fn defragment(&mut self) {
        let from = self.random.below(1 << 24) as u32;
        let done = self.table.defragment(&self.heap, from, 5);
        assert!(done.next.is_none_or(|next| next > from));
    }

    fn compare(&self) {
        self.table.check().expect("the invariants hold");
        assert_eq!(self.table.len(), self.model.len());
        let mut stored = BTreeMap::new();
        for entry in self.table.iter() {
            assert!(stored.insert(entry.key().to_vec(), seen(entry)).is_none());
        }
        assert!(stored == self.model);
        assert!(self.held.iter().all(|(shared, text)| **shared == *text));
        for key in self.model.keys() {
            let found = self.table.find(hash_of(self.hashing, key), key);
            assert_eq!(found.map(|entry| entry.key().to_vec()).as_ref(), Some(key));
        }
    }
}

fn seen(entry: collections::Entry<'_>) -> Expected {
    let text = entry.value().text(&mut DecimalBuffer::new()).expect("all values are strings").to_vec();
    assert_eq!(entry.value().text_len(), Some(text.len()));
    Expected { text, expiry: entry.expiry(), encoding: entry.encoding() }
}

fn drive(hashing: Hashing, key_count: u64, step_count: u64) {
    drive_seeded(1, hashing, key_count, step_count);
}

fn drive_seeded(seed: u64, hashing: Hashing, key_count: u64, step_count: u64) {
    let mut driver = Driver::new(seed, hashing, key_count);
    for phase in 0..4 {
        driver.removal_percent = if phase % 2 == 0 { 15 } else { 80 };
        for step in 0..step_count {
            driver.step();
            if step % (step_count / 4) == 0 {
                driver.compare();
            }
        }
        driver.compare();
    }
    let Driver { heap, hint, mut table, .. } = driver;
    table.clear();
    hint.publish(&mut table);
    table.check().expect("an empty table holds the invariants");
    assert_eq!(table.memory_bytes(), 0);
    drop(heap.take_retired());
    assert_eq!(heap.used_bytes(), 0);
}

/// Fewer under Miri, which is a thousand times slower.
fn scaled(count: u64) -> u64 {
    if cfg!(miri) { (count / 400).max(20) } else { count }
}

#[test]
fn a_small_table_agrees_with_a_map() {
    for seed in 0..if cfg!(miri) { 1 } else { 30 } {
        drive_seeded(seed, Hashing::Good, 10 + 9 * seed, scaled(4_000));
    }
}

#[test]
fn a_table_that_splits_and_merges_agrees_with_a_map() {
    drive(Hashing::Good, if cfg!(miri) { 120 } else { 6_000 }, if cfg!(miri) { 120 } else { 40_000 });
}

#[test]
fn crowded_positions_agree_with_a_map() {
    drive(Hashing::FewPositions, scaled(2_000), scaled(20_000));
    drive(Hashing::LeadingBitsEqual, scaled(4_000), scaled(20_000));
}

#[test]
fn equal_hashes_agree_with_a_map() {
    drive(Hashing::OnePosition, scaled(900), scaled(10_000));
}

#[test]
fn a_set_object_encoding_survives_in_place() {
    let (heap, mut table) = (Heap::new(), Table::new());
    let upserted = table.upsert(&heap, 1, b"k", NewValue::Raw(b"12"), ExpiryChange::Clear);
    assert_eq!(upserted.entry.encoding(), Encoding::Raw);
    table.set_int(&heap, 1, b"k", 12);
    assert_eq!(table.find(1, b"k").map(|entry| entry.encoding()), Some(Encoding::Int));
}

#[test]
fn a_long_buffer_is_stored_without_a_copy() {
    let (heap, mut table) = (Heap::new(), Table::new());
    for len in [2, INLINE_SIZE_MAX, INLINE_SIZE_MAX + 1, 5 * INLINE_SIZE_MAX, 3] {
        let mut buffer = vec![b'x'; len];
        let address = buffer.as_ptr();
        let upserted = table.upsert(&heap, 1, b"k", NewValue::Buffer(&mut buffer), ExpiryChange::Clear);
        assert_eq!(upserted.entry.encoding(), Encoding::Raw);
        let ValueRef::Bytes(bytes) = upserted.entry.value() else { panic!("a string") };
        assert_eq!(bytes, vec![b'x'; len]);
        assert_eq!(bytes.as_ptr() == address, len > INLINE_SIZE_MAX);
    }
}
