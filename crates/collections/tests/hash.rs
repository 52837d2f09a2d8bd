//! Hashes of both forms against a map, with fields that expire as a clock advances.

mod random;

use std::collections::{BTreeMap, HashSet};

use collections::{
    AllocContext, Collection, CollectionLimits, DecimalBuffer, ExpiryChange, Field, FieldWas, Hash, Heap,
    Item, KeyHasher, Object,
};
use random::Random;

/// Changes for each seed; fewer under Miri.
const STEP_COUNT: usize = if cfg!(miri) { 50 } else { 6_000 };

const LIMITS: CollectionLimits =
    CollectionLimits { entry_count_max: if cfg!(miri) { 20 } else { 128 }, value_size_max: 64 };

/// Lifetime of fields with an expiry; shorter under Miri, where fewer steps are made.
const LIFETIME_MS_MAX: usize = if cfg!(miri) { 60 } else { 500 };

#[derive(Clone, Debug, PartialEq)]
struct Expected {
    value: Vec<u8>,
    expiry: Option<i64>,
}

type Model = BTreeMap<Vec<u8>, Expected>;

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

struct Fixture {
    heap: Heap,
    hasher: KeyHasher,
    hash: Hash,
    model: Model,
    now: i64,
    /// Whether fields may have an expiry: without one the packed form is kept.
    has_expiries: bool,
    name_count: usize,
    value_size_max: usize,
    is_hashtable: bool,
}

impl Fixture {
    fn new(name_count: usize, value_size_max: usize, has_expiries: bool) -> Self {
        Self {
            heap: Heap::new(),
            hasher: KeyHasher::new([1, 2, 3, 4]),
            hash: Hash::new(),
            model: Model::new(),
            now: 1_000,
            has_expiries,
            name_count,
            value_size_max,
            is_hashtable: false,
        }
    }

    fn is_live(&self, field: &[u8]) -> bool {
        self.model.get(field).is_some_and(|expected| expected.expiry.is_none_or(|at| at > self.now))
    }

    fn step(&mut self, random: &mut Random) {
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        let field = match random.below(self.name_count) {
            number if number % 3 == 0 => number.to_string().into_bytes(),
            number => format!("field {number}").into_bytes(),
        };
        let was_there = self.is_live(&field);
        let at = self.now + 1 + random.below(LIFETIME_MS_MAX) as i64;
        match random.below(10) {
            0..4 => self.set(&field, random),
            4..6 => {
                assert_eq!(self.hash.remove(alloc, &field, self.now), was_there);
                if was_there {
                    self.model.remove(&field);
                }
            }
            6 if self.has_expiries => {
                let expiry = [None, Some(at), Some(at)][random.below(3)];
                assert_eq!(self.hash.set_expiry(alloc, &field, expiry, self.now), was_there);
                if was_there {
                    self.model.get_mut(&field).expect("the field exists").expiry = expiry;
                    self.is_hashtable |= expiry.is_some();
                }
            }
            7 if self.has_expiries => {
                self.now += random.below(20) as i64;
                if cfg!(miri) || random.below(3) == 0 {
                    self.expire();
                }
            }
            8 => {
                let object = Object::Hash(std::mem::replace(&mut self.hash, Hash::new()));
                let copy = object.to_copy(&self.heap);
                assert_eq!(copy.encoding_name(), object.encoding_name());
                let name = if self.is_hashtable { "hashtable" } else { "listpack" };
                assert_eq!(
                    (object.encoding_name(), object.has_volatile_members()),
                    (name, copy.has_volatile_members())
                );
                let Object::Hash(copy) = copy else { panic!("not a hash") };
                self.hash = copy;
            }
            _ => self.compare(&field, random),
        }
    }

    fn set(&mut self, field: &[u8], random: &mut Random) {
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        let value = match random.below(3) {
            0 => (random.bits() as i64 >> random.below(64)).to_string().into_bytes(),
            _ => vec![b'v'; random.below(self.value_size_max)],
        };
        let old = self.model.get(field).cloned();
        let is_live = self.is_live(field);
        let change = match random.below(4) {
            0 if self.has_expiries => ExpiryChange::At(self.now + 1 + random.below(LIFETIME_MS_MAX) as i64),
            1 => ExpiryChange::Keep,
            _ => ExpiryChange::Clear,
        };
        let was = self.hash.set(alloc, LIMITS, field, &value, change, self.now);
        let expected = match old {
            None => FieldWas::Absent,
            Some(_) if is_live => FieldWas::Present,
            Some(_) => FieldWas::Expired,
        };
        assert_eq!(was, expected);
        let kept = if is_live { self.model[field].expiry } else { None };
        self.is_hashtable |= field.len().max(value.len()) > 64 || matches!(change, ExpiryChange::At(_));
        self.model.insert(field.to_vec(), Expected { value, expiry: change.apply(kept) });
        self.is_hashtable |= self.model.len() > LIMITS.entry_count_max;
    }

    /// Deletes all expired fields.
    fn expire(&mut self) {
        let due =
            self.model.values().filter(|expected| expected.expiry.is_some_and(|at| at <= self.now)).count();
        let earliest = self.model.values().filter_map(|expected| expected.expiry).min();
        assert!(self.hash.earliest_expiry().unwrap_or(i64::MAX) <= earliest.unwrap_or(i64::MAX));
        let mut count = 0;
        // Two walks: the first one may continue an earlier walk.
        for _ in 0..2 {
            loop {
                let step = self.hash.expire(&self.heap, self.now, |_| ());
                count += step.expired_count;
                if !step.has_more {
                    break;
                }
            }
        }
        assert_eq!(count, due);
        self.model.retain(|_, expected| expected.expiry.is_none_or(|at| at > self.now));
        assert!(self.hash.earliest_expiry().is_none_or(|at| at > self.now));
    }

    fn compare(&self, field: &[u8], random: &mut Random) {
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        self.hash.check(alloc).expect("the invariants hold");
        assert_eq!((self.hash.len(), self.hash.is_empty()), (self.model.len(), self.model.is_empty()));
        let found = self
            .hash
            .find(alloc, field, self.now)
            .map(|Field { value, expiry }| Expected { value: text(value), expiry });
        assert_eq!(found.as_ref(), self.model.get(field).filter(|_| self.is_live(field)));
        let has_volatile = self.model.values().any(|expected| expected.expiry.is_some());
        assert_eq!(self.hash.has_volatile_members(), has_volatile);
        let live: BTreeMap<_, _> = (self.model.iter())
            .filter(|(field, _)| self.is_live(field))
            .map(|(field, expected)| (field.clone(), expected.value.clone()))
            .collect();
        let mut visited = BTreeMap::new();
        self.hash.visit(self.now, |field, value| visited.insert(text(field), text(value)).is_none());
        assert_eq!(visited, live);
        let mut scanned = BTreeMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.hash.scan(alloc, from, self.now, |field, value| {
                assert_eq!(scanned.insert(text(field), text(value)), None);
            });
        }
        assert_eq!(scanned, live);
        if !self.hash.is_empty() {
            let sampled = self.hash.sample(self.now, || random.bits());
            let sampled = sampled.map(|(field, value)| (text(field), text(value)));
            assert!(sampled.is_none_or(|(field, value)| live.get(&field) == Some(&value)));
        }
    }
}

#[test]
fn random_changes_agree_with_a_map() {
    for seed in 1..if cfg!(miri) { 2 } else { 6u64 } {
        for (name_count, value_size_max, has_expiries) in [
            (10, 20, false),
            (100, 70, false),
            (300, 30, false),
            (12, 30, true),
            (100, 30, true),
            (10, 1_500, true),
            (2_000, 40, true),
            (600, 60, false),
            (8, 5_000, false),
        ] {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut fixture = Fixture::new(name_count, value_size_max, has_expiries);
            for _ in 0..STEP_COUNT {
                fixture.step(&mut random);
            }
        }
    }
}

#[test]
fn samples_are_fair() {
    for field_count in [10usize, if cfg!(miri) { 40 } else { 1_000 }] {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
        let mut hash = Hash::new();
        for number in 0..field_count {
            let field = format!("field {number} of this hash");
            let alloc = AllocContext { heap: &heap, hasher: &hasher };
            hash.set(alloc, LIMITS, field.as_bytes(), &[b'v'; 30], ExpiryChange::Clear, 0);
        }
        let mut random = Random(7);
        let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let each = if cfg!(miri) { 1 } else { 100 };
        for _ in 0..field_count * each {
            let (field, _) = hash.sample(0, || random.bits()).expect("the container is not empty");
            *counts.entry(text(field)).or_default() += 1;
        }
        assert!(cfg!(miri) || counts.len() == field_count);
        assert!(counts.values().all(|count| *count < 2 * each.max(10)), "{counts:?}");
    }
}

#[test]
fn a_scan_visits_every_permanent_field_during_changes() {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let mut hash = Hash::new();
    let field_count = if cfg!(miri) { 60 } else { 3_000 };
    let field = |number: usize| format!("field {number}").into_bytes();
    let set = |hash: &mut Hash, number: usize, value_size: usize, expiry| {
        hash.set(alloc, LIMITS, &field(number), &vec![b'v'; value_size], expiry, 0);
    };
    (0..field_count).for_each(|number| set(&mut hash, number, number % 40, ExpiryChange::Clear));
    let mut random = Random(5);
    let mut seen = HashSet::new();
    let mut next = Some(0);
    while let Some(from) = next {
        next = hash.scan(alloc, from, 0, |field, _| {
            seen.insert(text(field));
        });
        for _ in 0..12 {
            let (number, size) = (random.below(field_count), random.below(60));
            match random.below(6) {
                // Into the table, then back to a size that fits a leaf.
                0 => set(&mut hash, number, 200, ExpiryChange::Keep),
                1 => assert!(hash.set_expiry(alloc, &field(number), Some(1_000), 0)),
                2 => assert!(hash.set_expiry(alloc, &field(number), None, 0)),
                3 => set(&mut hash, number, size, ExpiryChange::Clear),
                4 => set(&mut hash, field_count + number, size, ExpiryChange::Clear),
                _ => {
                    hash.remove(alloc, &field(field_count + number), 0);
                }
            }
        }
        if random.below(16) == 0 {
            assert_eq!(hash.check(alloc), Ok(()));
        }
    }
    assert!((0..field_count).all(|number| seen.contains(&field(number))));
    for number in 0..field_count {
        assert!(hash.remove(alloc, &field(number), 0) && hash.find(alloc, &field(number), 0).is_none());
        hash.remove(alloc, &field(field_count + number), 0);
    }
    assert_eq!((hash.check(alloc), hash.len()), (Ok(()), 0));
}
