//! Random operations on a latching, each compared with a standard map, with the counters compared on the way.

use std::collections::BTreeMap;

use base::{DbIndex, Millis, Slot};
use collections::{ExpiryChange, Kind, NewValue, ValueRef};
use keyspace::{DatabaseWalk, Key, Keyspace, Latching, Liveness, Population, Random, ScanPosition, Sizes};
use sync::Mode;

const DB_COUNT: u16 = 3;
const STEP_COUNT: usize = 30_000;

/// Keys are taken from so few slots that their tables have many buckets, and some have a segment or two.
const CROWDED_SLOT_COUNT: usize = 4;
const KEY_COUNT: usize = 120;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    value: i64,
    expiry: Option<i64>,
}

/// Entries by database and name. Expired keys stay until they are deleted.
type Model = BTreeMap<(u16, Vec<u8>), Expected>;

struct Trial<'k> {
    latching: Latching<'k>,
    model: Model,
    /// What is loaded beside it.
    staged: Model,
    names: Vec<Vec<u8>>,
    random: Random,
}

fn crowded_names(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    let is_crowded =
        |name: &Vec<u8>| Key::new(keyspace.hasher(), name, DbIndex(0)).slot.index() < CROWDED_SLOT_COUNT;
    (0..).map(|number: u32| number.to_string().into_bytes()).filter(is_crowded).take(KEY_COUNT).collect()
}

fn value_of(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int(value) => value,
        other => panic!("only integers were set, not {other:?}"),
    }
}

impl Trial<'_> {
    fn any_db(&self) -> u16 {
        self.random.below(u64::from(DB_COUNT)) as u16
    }

    fn any_name(&self) -> Vec<u8> {
        self.names[self.random.below(self.names.len() as u64) as usize].clone()
    }

    fn now(&self) -> i64 {
        self.latching.mode.now.0
    }

    fn is_live(&self, db: u16, name: &[u8]) -> bool {
        self.model
            .get(&(db, name.to_vec()))
            .is_some_and(|entry| entry.expiry.is_none_or(|at| at > self.now()))
    }

    /// A write deletes an expired key first.
    fn expire(&mut self, db: u16, name: &[u8]) {
        if !self.is_live(db, name) {
            self.model.remove(&(db, name.to_vec()));
        }
    }

    /// Latches the slots of some keys for writing.
    fn hold(&mut self, keys: &[Key<'_>]) {
        let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        self.latching.latch_several(slots.into_iter(), Mode::Write).expect("no other session holds a latch");
    }

    fn step(&mut self) {
        let (db, name) = (self.any_db(), self.any_name());
        let (other_db, other_name) = (self.any_db(), self.any_name());
        let hasher = self.latching.keyspace().hasher().clone();
        let key = Key::new(&hasher, &name, DbIndex(db));
        let other = Key::new(&hasher, &other_name, DbIndex(other_db));
        self.hold(&[key, other]);
        match self.random.below(100) {
            0..25 => self.set(key),
            25..40 => self.remove(key),
            40..50 => self.set_expiry(key),
            50..60 => self.increment(key),
            60..70 => self.move_entry(key, other),
            70..78 => self.copy(key, other),
            78..95 => self.look_up(key),
            95..99 => self.latching.mode.now.0 += self.random.below(20) as i64,
            _ => {
                self.latching.release();
                self.latching.latch_all(Mode::Write).expect("no other session holds a latch");
                self.change_databases(db, other_db);
            }
        }
        self.latching.release();
    }

    fn set(&mut self, key: Key<'_>) {
        // From one digit to 13.
        let value = self.random.below(1 << self.random.below(41)) as i64;
        let expiry = match self.random.below(3) {
            0 => ExpiryChange::Clear,
            1 => ExpiryChange::At(self.now() + self.random.below(40) as i64 - 5),
            _ => {
                self.latching.expire_if_due(key);
                self.expire(key.db.0, key.bytes);
                ExpiryChange::Keep
            }
        };
        let was_live = self.is_live(key.db.0, key.bytes);
        assert_eq!(self.latching.set(key, NewValue::Int(value), expiry).0, was_live);
        let place = (key.db.0, key.bytes.to_vec());
        let before = self.model.get(&place).and_then(|entry| entry.expiry);
        self.model.insert(place, Expected { value, expiry: expiry.apply(before) });
    }

    fn remove(&mut self, key: Key<'_>) {
        let removed = self.latching.remove(key).map(|removed| value_of(removed.entry().value()));
        let expected = self.model.remove(&(key.db.0, key.bytes.to_vec())).map(|entry| entry.value);
        assert_eq!(removed, expected);
    }

    fn set_expiry(&mut self, key: Key<'_>) {
        self.expire(key.db.0, key.bytes);
        let at = (self.random.below(3) > 0).then(|| self.now() + self.random.below(40) as i64 - 5);
        let is_there = self.latching.set_expiry(key, at);
        let entry = self.model.get_mut(&(key.db.0, key.bytes.to_vec()));
        assert_eq!(is_there, entry.is_some());
        if let Some(entry) = entry {
            entry.expiry = at;
        }
    }

    fn increment(&mut self, key: Key<'_>) {
        self.expire(key.db.0, key.bytes);
        let new = self.latching.edit(key, |entry| {
            let new = value_of(entry.entry().value()) + 1;
            entry.set_int(new);
            new
        });
        let entry = self.model.get_mut(&(key.db.0, key.bytes.to_vec()));
        assert_eq!(new, entry.as_ref().map(|entry| entry.value + 1));
        if let Some(entry) = entry {
            entry.value += 1;
        }
    }

    /// Moves an entry to another name or database, as `RENAME` and `MOVE` do.
    fn move_entry(&mut self, from: Key<'_>, to: Key<'_>) {
        let Some(removed) = self.latching.remove(from) else { return };
        let expected = self.model.remove(&(from.db.0, from.bytes.to_vec())).expect("both have it");
        let replaced = self.latching.insert(to, removed).map(|entry| value_of(entry.entry().value()));
        let expected_replaced = self.model.insert((to.db.0, to.bytes.to_vec()), expected);
        assert_eq!(replaced, expected_replaced.map(|entry| entry.value));
    }

    fn copy(&mut self, from: Key<'_>, to: Key<'_>) {
        self.latching.copy(from, to);
        if let Some(entry) = self.model.get(&(from.db.0, from.bytes.to_vec())).cloned() {
            self.model.insert((to.db.0, to.bytes.to_vec()), entry);
        }
    }

    fn look_up(&mut self, key: Key<'_>) {
        let is_live = self.is_live(key.db.0, key.bytes);
        let expected = self.model.get(&(key.db.0, key.bytes.to_vec())).filter(|_| is_live);
        for found in [self.latching.find(key), self.latching.inspect(key), self.latching.peek(key)] {
            let found =
                found.map(|entry| Expected { value: value_of(entry.value()), expiry: entry.expiry() });
            assert_eq!(found.as_ref(), expected);
        }
    }

    fn change_databases(&mut self, db: u16, other: u16) {
        match self.random.below(14) {
            10..12 => (0..self.random.below(30)).for_each(|_| self.stage()),
            12 => {
                let former = self.latching.swap_in_staged();
                assert_eq!(former.key_count, self.model.len() as u64);
                former.free();
                self.model = std::mem::take(&mut self.staged);
            }
            13 => {
                let discarded = self.latching.clear_staged();
                assert_eq!(discarded.key_count, self.staged.len() as u64);
                discarded.free();
                self.staged.clear();
            }
            0 => {
                let cleared = self.latching.clear(None);
                assert_eq!(cleared.key_count, self.model.len() as u64);
                cleared.free();
                self.model.clear();
            }
            1..4 => {
                let before = self.model.len();
                self.model.retain(|(of, _), _| *of != db);
                assert_eq!(
                    self.latching.clear(Some(DbIndex(db))).key_count,
                    (before - self.model.len()) as u64
                );
            }
            4..6 => self.latching.make_inline(DbIndex(db)),
            _ => {
                self.latching.swap(DbIndex(db), DbIndex(other));
                let swapped = |of: u16| match of {
                    of if of == db => other,
                    of if of == other => db,
                    of => of,
                };
                let model = std::mem::take(&mut self.model);
                self.model =
                    model.into_iter().map(|((of, name), entry)| ((swapped(of), name), entry)).collect();
            }
        }
    }

    /// Sets a key beside the data.
    fn stage(&mut self) {
        let (db, name, value) = (self.any_db(), self.any_name(), self.random.below(1000) as i64);
        let keyspace = self.latching.keyspace();
        let key = Key::new(keyspace.hasher(), &name, keyspace.staged(DbIndex(db)));
        self.latching.set(key, NewValue::Int(value), ExpiryChange::Clear);
        self.staged.insert((db, name), Expected { value, expiry: None });
    }

    /// Compares everything: counters, iteration and a full scan.
    fn check(&mut self) {
        for db in 0..DB_COUNT {
            let of_db = || self.model.iter().filter(move |((of, _), _)| *of == db);
            let expiries: Vec<i64> = of_db().filter_map(|(_, entry)| entry.expiry).collect();
            let expected = Population {
                volatile_members: 0,
                keys: of_db().count() as u64,
                volatile: expiries.len() as u64,
                expiry_sum: expiries.iter().fold(0, |sum, at| sum.wrapping_add(*at as u64)),
            };
            assert_eq!(self.latching.keyspace().counters.population(usize::from(db)), expected);
            let sizes = of_db().map(|(_, entry)| (Kind::String, entry.value.to_string().len()));
            let (counted, expected) =
                (self.latching.keyspace().counters.sizes(usize::from(db)), Sizes::of(sizes));
            assert!(counted.bins(Kind::String).eq(expected.bins(Kind::String)));

            let mut live: Vec<Vec<u8>> = of_db().map(|((_, name), _)| name.clone()).collect();
            live.retain(|name| self.is_live(db, name));
            let mut scanned = scan_all(&mut self.latching, DbIndex(db));
            scanned.sort();
            assert_eq!(scanned, live);

            self.latching.latch_all(Mode::Read).expect("no other session holds a latch");
            let mut iterated = Vec::new();
            self.latching.for_each(DbIndex(db), |entry| iterated.push(entry.key().to_vec()));
            iterated.sort();
            assert_eq!(iterated, live);
            assert_eq!(scan_all(&mut self.latching, DbIndex(db)).len(), live.len(), "a scan under latches");
            self.latching.release();
            let random = DatabaseWalk::new(&self.latching, DbIndex(db))
                .with_random_entry(|entry| entry.key().to_vec());
            assert!(random.is_none_or(|name| live.contains(&name)));
        }
    }
}

/// A whole scan, one bucket at a time.
fn scan_all(latching: &mut Latching<'_>, db: DbIndex) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut from = Some(ScanPosition::START);
    while let Some(position) = from {
        let position = ScanPosition::from_cursor(position.cursor()).expect("a cursor of a scan");
        from = DatabaseWalk::new(latching, db).scan(
            position,
            |entry, life| {
                if life == Liveness::Live {
                    names.push(entry.key().to_vec());
                }
            },
            || true,
        );
    }
    names
}

#[test]
fn random_operations_agree_with_a_map() {
    for seed in 1..4 {
        let keyspace = Keyspace::new(usize::from(DB_COUNT), [seed, 2, 3, 4], |_| ());
        let mut latching = Latching::new(&keyspace, 0, seed);
        latching.mode.now = Millis(1000);
        let names = crowded_names(&keyspace);
        let mut trial =
            Trial { latching, model: Model::new(), staged: Model::new(), names, random: Random::new(seed) };
        for step in 0..STEP_COUNT {
            trial.step();
            if step % 1000 == 0 {
                trial.check();
            }
        }
        trial.check();
    }
}

/// A key that exists during a whole scan is visited once, while others are added and removed; a key that
/// never existed is not seen.
#[test]
fn a_scan_visits_every_permanent_key() {
    let keyspace = Keyspace::new(1, [5, 6, 7, 8], |_| ());
    let mut latching = Latching::new(&keyspace, 0, 9);
    latching.mode.now = Millis(1000);
    let random = Random::new(10);
    let put = |latching: &mut Latching<'_>, name: &[u8], is_there: bool| {
        let key = Key::new(keyspace.hasher(), name, DbIndex(0));
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        if is_there {
            latching.set(key, NewValue::Int(1), ExpiryChange::Clear);
        } else {
            latching.remove(key);
        }
        latching.release();
    };
    // All keys are in the same slots, so that their tables grow and shrink a lot.
    let is_crowded =
        |name: &String| Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0)).slot.index() % 4096 == 1;
    let names: Vec<String> =
        (0..).map(|number: u32| number.to_string()).filter(is_crowded).take(1500).collect();
    let (staying, passing) = names.split_at(150);
    staying.iter().for_each(|name| put(&mut latching, name.as_bytes(), true));
    let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut from = Some(ScanPosition::START);
    let mut step_count = 0;
    while let Some(position) = from {
        from = DatabaseWalk::new(&latching, DbIndex(0)).scan(
            position,
            |entry, _| *seen.entry(entry.key().to_vec()).or_default() += 1,
            || true,
        );
        // Waves: many insertions, then many removals.
        step_count += 1;
        let coming = step_count / 8 % 2 == 0;
        for _ in 0..100 {
            let name = &passing[random.below(passing.len() as u64) as usize];
            put(&mut latching, name.as_bytes(), coming);
        }
    }
    assert!(step_count > 50, "only {step_count} steps");
    for name in staying {
        assert_eq!(seen.remove(name.as_bytes()), Some(1), "{name}");
    }
    assert!(seen.keys().all(|name| passing.iter().any(|passing| passing.as_bytes() == name)));
}
