//! Walks of a table that changes between their steps: the guarantees of SCAN, sampling and expiry.

use std::collections::{HashMap, HashSet};

use collections::{ExpiryChange, Heap, Table};

/// Enough keys for several splits of a table; fewer under Miri.
const KEY_COUNT: u64 = if cfg!(miri) { 120 } else { 4_000 };

fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

struct Fixture {
    heap: Heap,
    table: Table,
}

impl Fixture {
    fn with_keys(keys: impl Iterator<Item = u64>) -> Self {
        let mut fixture = Self { heap: Heap::new(), table: Table::new() };
        keys.for_each(|number| fixture.set(number, ExpiryChange::Clear));
        fixture
    }

    fn set(&mut self, number: u64, expiry: ExpiryChange) {
        self.table.upsert_string(&self.heap, mix(number), &number.to_le_bytes(), b"value", expiry);
    }

    fn remove(&mut self, number: u64) {
        assert!(self.table.remove(&self.heap, mix(number), &number.to_le_bytes()).is_some());
    }

    /// A whole scan with `between` run after each step; the number of visits by key.
    fn scan(&mut self, mut between: impl FnMut(&mut Self)) -> HashMap<u64, u32> {
        let mut visits = HashMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.table.scan(from, |entry| *visits.entry(number_of(entry.key())).or_default() += 1);
            assert!(next.is_none_or(|next| next > from));
            between(self);
        }
        self.table.check().expect("the invariants hold");
        visits
    }
}

fn number_of(key: &[u8]) -> u64 {
    u64::from_le_bytes(key.try_into().expect("keys of this test are eight bytes"))
}

#[test]
fn a_scan_of_a_table_at_rest_visits_every_key_once() {
    for count in [0, 1, 7, 8, 50, KEY_COUNT / 8, KEY_COUNT] {
        let mut fixture = Fixture::with_keys(0..count);
        let visits = fixture.scan(|_| {});
        assert_eq!(visits.len() as u64, count);
        assert!(visits.values().all(|&count| count == 1));
    }
}

#[test]
fn permanent_keys_are_visited_once_while_the_table_grows() {
    let mut fixture = Fixture::with_keys(0..KEY_COUNT / 10);
    let mut added = KEY_COUNT / 10;
    let visits = fixture.scan(|fixture| {
        for _ in 0..40 {
            if added < KEY_COUNT {
                fixture.set(added, ExpiryChange::Clear);
                added += 1;
            }
        }
    });
    assert_eq!(added, KEY_COUNT);
    assert!((0..KEY_COUNT / 10).all(|number| visits.get(&number) == Some(&1)));
    assert!(visits.values().all(|&count| count == 1));
}

#[test]
fn permanent_keys_are_visited_once_while_the_table_shrinks() {
    let mut fixture = Fixture::with_keys(0..KEY_COUNT);
    let mut removed = KEY_COUNT / 10;
    let visits = fixture.scan(|fixture| {
        for _ in 0..40 {
            if removed < KEY_COUNT {
                fixture.remove(removed);
                removed += 1;
            }
        }
    });
    assert_eq!(removed, KEY_COUNT);
    assert!((0..KEY_COUNT / 10).all(|number| visits.get(&number) == Some(&1)));
}

#[test]
fn permanent_keys_are_visited_once_while_the_size_oscillates() {
    let mut fixture = Fixture::with_keys(0..KEY_COUNT / 10);
    let mut step = 0;
    let visits = fixture.scan(|fixture| {
        let others = KEY_COUNT / 10..KEY_COUNT;
        if step % 2 == 0 {
            others.for_each(|number| fixture.set(number, ExpiryChange::Clear));
        } else {
            others.for_each(|number| fixture.remove(number));
        }
        step += 1;
    });
    assert!((0..KEY_COUNT / 10).all(|number| visits.get(&number) == Some(&1)));
}

#[test]
fn iteration_visits_every_key_once() {
    let fixture = Fixture::with_keys(0..KEY_COUNT);
    let keys: HashSet<_> = fixture.table.iter().map(|entry| number_of(entry.key())).collect();
    assert_eq!(keys.len() as u64, KEY_COUNT);
    assert_eq!(fixture.table.iter().count() as u64, KEY_COUNT);
}

#[test]
fn samples_are_close_to_uniform() {
    for count in [1, 2, 20, if cfg!(miri) { 80 } else { 700 }] {
        let fixture = Fixture::with_keys(0..count);
        let sample_count = if cfg!(miri) { count * 2 } else { count * 1000 };
        let mut hits = vec![0u32; count as usize];
        for seed in 0..sample_count {
            let entry = fixture.table.sample(mix(seed)).expect("the table is not empty");
            hits[number_of(entry.key()) as usize] += 1;
        }
        if !cfg!(miri) {
            // Poisson noise is 3 %; segments of one table may differ by some 10 %.
            assert!(hits.iter().all(|hits| (600..1500).contains(hits)), "{count}: {hits:?}");
        }
    }
    assert!(Table::new().sample(7).is_none());
}

#[test]
fn a_nearly_empty_large_segment_can_be_sampled() {
    // Removing with `remove_expired` to the end keeps a directory; one key remains at an arbitrary place.
    let mut fixture = Fixture::with_keys(0..KEY_COUNT);
    (1..KEY_COUNT).for_each(|number| fixture.remove(number));
    for seed in 0..100 {
        assert_eq!(fixture.table.sample(seed).map(|entry| number_of(entry.key())), Some(0));
    }
}

#[test]
fn only_volatile_keys_are_sampled_and_expire() {
    let mut fixture = Fixture::with_keys(0..KEY_COUNT);
    for number in (0..KEY_COUNT).step_by(3) {
        fixture.set(number, ExpiryChange::At(number as i64));
    }
    let bucket_count = fixture.table.stats().bucket_count;
    for seed in 0..200 {
        let entry = fixture.table.sample_volatile(seed, bucket_count).expect("there are volatile keys");
        assert_eq!(number_of(entry.key()) % 3, 0);
    }

    let now = KEY_COUNT as i64 / 2;
    let mut seen = HashSet::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let walk = fixture.table.expire_walk(from, 4, now, |entry| {
            assert!(seen.insert(number_of(entry.key())));
        });
        assert!(walk.expired_count <= walk.volatile_count);
        next = walk.next;
    }
    let expected: HashSet<_> = (0..=now as u64).filter(|number| number % 3 == 0).collect();
    assert_eq!(seen, expected);

    let mut removed = HashSet::new();
    next = Some(0);
    while let Some(from) = next {
        let Fixture { heap, table } = &mut fixture;
        let walk = table.remove_expired(heap, from, 4, now, |gone| {
            assert!(removed.insert(number_of(gone.entry().key())));
        });
        next = walk.next;
    }
    assert_eq!(removed, expected);
    fixture.table.check().expect("the invariants hold");
    assert_eq!(fixture.table.len() as u64, KEY_COUNT - removed.len() as u64);

    // All of them, which empties every bucket of volatile keys and shrinks the table meanwhile.
    let Fixture { heap, table } = &mut fixture;
    for number in 0..KEY_COUNT {
        table.set_expiry(heap, mix(number), &number.to_le_bytes(), Some(1));
    }
    let walk = table.remove_expired(heap, 0, usize::MAX, 1, drop);
    assert_eq!((walk.next, walk.expired_count), (None, walk.volatile_count));
    table.check().expect("the invariants hold");
    assert_eq!((table.len(), table.volatile_len()), (0, 0));
    assert!(table.sample_volatile(1, 100).is_none());
}
