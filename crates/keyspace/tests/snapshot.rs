//! Random changes while a snapshot is walked: it contains the state at the cut.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::limits::SLOT_COUNT;
use base::{DbIndex, Millis, Slot};
use collections::{
    AllocContext, CollectionLimits, Element, ElementSink, End, Entry, ExpiryChange, Hash, Item, KeyHasher,
    List, ListLimits, NewValue, Object, PortionLimits, ValueRef,
};
use keyspace::{
    CollectionStep, CutDatabase, CutEntry, Defragmentation, DefragmentationCycle, EvictionOrder,
    EvictionPolicy, Evictor, ExpiryCycle, FieldExpiryCycle, Key, Keyspace, Latching, Random, SnapshotSink,
    Waiting,
};
use sync::Mode;

const DB_COUNT: u16 = 4;
const KEY_COUNT: usize = 150;
/// Keys are taken from so few slots that their tables have many buckets.
const CROWDED_SLOT_COUNT: usize = 4;
/// Fields of a hash that is saved in portions.
const LARGE_LEN: u64 = 4200;
const LIMITS: CollectionLimits = CollectionLimits { entry_count_max: 8, value_size_max: 64 };

/// Databases, keys and the contents of their entries that are visible to clients.
type State = BTreeMap<(u16, Vec<u8>), String>;

/// Contents of all saved entries, the faults found, and the key and contents of the collection that is being saved.
type SavedContents = (State, Vec<String>, Option<(Vec<u8>, String)>);

/// The saved entries. A key that is saved twice is a fault.
#[derive(Clone, Default)]
struct Saved(Arc<Mutex<SavedContents>>);

impl Saved {
    fn add(&self, db: DbIndex, entry: Entry<'_>, alloc: AllocContext<'_>) {
        let mut saved = self.0.lock().expect("no test panics with it");
        if let Some(before) = saved.0.insert((db.0, entry.key().to_vec()), shown(entry, alloc)) {
            saved.1.push(format!("{} {:?} twice, first {before}", db.0, entry.key()));
        }
    }
}

impl SnapshotSink for Saved {
    fn preserve(&self, _thread: usize, db: DbIndex, entry: Entry<'_>, alloc: AllocContext<'_>) {
        self.add(db, entry, alloc);
    }

    fn begin_elements(&self, entry: Entry<'_>) -> Option<Box<dyn ElementSink>> {
        let (saved, key, expiry) = (self.clone(), entry.key().to_vec(), entry.expiry());
        Some(Box::new(Elements { saved, key, expiry, fields: Vec::new() }))
    }
}

/// The fields of a large hash.
struct Elements {
    saved: Saved,
    key: Vec<u8>,
    expiry: Option<i64>,
    fields: Vec<String>,
}

impl ElementSink for Elements {
    fn add(&mut self, element: Element<'_>) {
        let Element::Field(field, value, expiry) = element else { panic!("{element:?} is no field") };
        self.fields.push(shown_field(field, value, expiry));
    }

    fn len(&self) -> usize {
        self.fields.len()
    }

    fn size(&self) -> usize {
        0
    }

    fn settle(&mut self, _kept_size: usize) {}

    fn finish(&mut self) {}

    /// Called at the end: the caller adds the database.
    fn take(&mut self) -> Vec<u8> {
        self.fields.sort();
        let value = format!("{} until {:?}", self.fields.join(", "), self.expiry);
        let mut saved = self.saved.0.lock().expect("no test panics with it");
        saved.2 = Some((self.key.clone(), value));
        Vec::new()
    }
}

fn shown_field(field: Item<'_>, value: Item<'_>, expiry: Option<i64>) -> String {
    format!("{field:?} {value:?} {expiry:?}")
}

fn shown(entry: Entry<'_>, alloc: AllocContext<'_>) -> String {
    let value = match entry.value() {
        ValueRef::Int(value) => value.to_string(),
        ValueRef::Bytes(bytes) => format!("{} bytes", bytes.len()),
        ValueRef::Object(Object::List(list)) => format!("list {}", list.len()),
        ValueRef::Object(Object::Hash(hash)) => {
            let mut fields = Vec::new();
            let mut from = Some(0);
            while let Some(at) = from {
                from = hash.scan_with_expiries(alloc, at, |field, value, expiry| {
                    fields.push(shown_field(field, value, expiry));
                });
            }
            fields.sort();
            fields.join(", ")
        }
        other => panic!("not made here: {other:?}"),
    };
    format!("{value} until {:?}", entry.expiry())
}

struct Trial<'k> {
    latching: Latching<'k>,
    names: Vec<Vec<u8>>,
    random: Random,
    saved: Saved,
    expiry: ExpiryCycle,
    field_expiry: FieldExpiryCycle,
    defragmentation: DefragmentationCycle,
    evictor: Evictor,
    /// Large collections that were saved.
    large_count: usize,
}

impl<'k> Trial<'k> {
    fn new(keyspace: &'k Keyspace, seed: u64, saved: Saved) -> Self {
        let is_crowded =
            |name: &Vec<u8>| Key::new(keyspace.hasher(), name, DbIndex(0)).slot.index() < CROWDED_SLOT_COUNT;
        let names = (0..).map(|number: u32| number.to_string().into_bytes());
        let mut latching = Latching::new(keyspace, 0, seed);
        latching.mode.now = Millis(1000);
        Self {
            latching,
            names: names.filter(is_crowded).take(KEY_COUNT).collect(),
            random: Random::new(seed),
            saved,
            expiry: ExpiryCycle::new(0),
            field_expiry: FieldExpiryCycle::new(0),
            defragmentation: DefragmentationCycle::new(0),
            evictor: Evictor::default(),
            large_count: 0,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn any_key(&self) -> (DbIndex, Vec<u8>) {
        let name = self.names[self.below(self.names.len() as u64) as usize].clone();
        (DbIndex(self.below(u64::from(DB_COUNT)) as u16), name)
    }

    /// Makes one random change.
    fn change(&mut self) {
        let hasher = self.latching.keyspace().hasher().clone();
        let ((db, name), (other_db, other_name)) = (self.any_key(), self.any_key());
        let (key, other) = (Key::new(&hasher, &name, db), Key::new(&hasher, &other_name, other_db));
        let mut slots = vec![key.slot, other.slot];
        slots.sort_unstable();
        slots.dedup();
        let choice = self.below(204);
        if choice < 180 {
            self.latching.latch_several(slots.into_iter(), Mode::Write).expect("no other thread");
            self.change_key(choice, key, other);
            self.latching.release();
            return;
        }
        let now = self.latching.mode.now.0;
        match choice {
            180..186 => self.latching.mode.now = Millis(now + 30),
            186..189 => self.expiry.run(&mut self.latching, 1, || true, drop),
            189..191 => self.field_expiry.run(&mut self.latching, 1, || true, |expired| drop(expired)),
            191..194 => while self.defragment() != Defragmentation::default() {},
            194..196 => self.evict(),
            _ => {
                self.latching.latch_all(Mode::Write).expect("no other thread");
                match choice {
                    196 => self.latching.clear(Some(db)).free(),
                    197 => self.latching.clear(None).free(),
                    198 => self.latching.make_inline(db),
                    199 => self.latching.swap(db, other_db),
                    200..203 => self.stage(&hasher, db, &name),
                    _ => self.latching.swap_in_staged().free(),
                }
                self.latching.release();
            }
        }
    }

    /// Sets keys beside the data, of which no snapshot has any.
    fn stage(&mut self, hasher: &KeyHasher, db: DbIndex, name: &[u8]) {
        let staged = Key::new(hasher, name, self.latching.keyspace().staged(db));
        let number = self.below(1 << 30);
        self.latching.set(staged, NewValue::Int(number as i64), ExpiryChange::Clear);
        for (at, name) in self.names.clone().iter().enumerate().take(10) {
            let staged = Key::new(hasher, name, staged.db);
            let Some(choice) = [0, 60, 91, 100].get(at % 5) else { continue };
            self.change_key(*choice, staged, staged);
        }
    }

    fn defragment(&mut self) -> Defragmentation {
        let done = self.defragmentation.run(&mut self.latching, 1, || true);
        Defragmentation { moved_count: done.moved_count, ..Defragmentation::default() }
    }

    fn evict(&mut self) {
        let policy = EvictionPolicy { volatile_only: false, order: EvictionOrder::Random };
        self.evictor.evict(&mut self.latching, policy, 1, 2, |_| std::ops::ControlFlow::Continue(()));
    }

    fn change_key(&mut self, choice: u64, key: Key<'_>, other: Key<'_>) {
        let now = self.latching.mode.now.0;
        let (number, soon) = (self.below(1 << 30), now + self.below(60) as i64);
        let latching = &mut self.latching;
        match choice {
            0..50 => drop(latching.set(key, NewValue::Int(number as i64), ExpiryChange::Clear)),
            50..70 => {
                let text = vec![b'x'; number as usize % 3000];
                latching.set(key, NewValue::Raw(&text), ExpiryChange::At(soon));
            }
            70..95 => drop(latching.edit_collection_or_new::<Hash, _>(key, |hash, alloc| {
                if number.is_multiple_of(7) {
                    for field in 0..LARGE_LEN {
                        hash.set(alloc, LIMITS, field.to_string().as_bytes(), b"v", ExpiryChange::Clear, now);
                    }
                }
                let field = (number % if hash.len() < 100 { 20 } else { LARGE_LEN + 100 }).to_string();
                hash.set(alloc, LIMITS, field.as_bytes(), &number.to_le_bytes(), ExpiryChange::Clear, now);
                if number.is_multiple_of(2) {
                    hash.set_expiry(alloc, field.as_bytes(), Some(soon), now);
                }
            })),
            95..115 => drop(latching.edit_collection_or_new::<List, _>(key, |list, _| {
                list.expect(1, 8, ListLimits::of_directive(-2));
                list.push(End::Right, &number.to_le_bytes());
            })),
            115..130 => drop(latching.set_expiry(key, Some(soon).filter(|_| number.is_multiple_of(3)))),
            130..150 => drop(latching.remove(key)),
            150..165 => {
                if let Some(moved) = latching.remove(key) {
                    latching.insert(other, moved);
                }
            }
            165..172 => drop(latching.copy(key, other)),
            _ => drop(latching.expire_if_due(key)),
        }
    }

    fn state(&mut self) -> State {
        self.latching.latch_all(Mode::Read).expect("no other thread");
        self.latching.mode.sees_expired = true;
        let mut state = State::new();
        for db in 0..DB_COUNT {
            self.latching.for_each(DbIndex(db), |entry| {
                let key = Key::new(self.latching.hasher(), entry.key(), DbIndex(db));
                let alloc = self.latching.alloc_context(key);
                state.insert((db, entry.key().to_vec()), shown(entry, alloc));
            });
        }
        self.latching.mode.sees_expired = false;
        self.latching.release();
        state
    }

    /// One snapshot, with changes between its portions. `cancel_at`: the portion before which it is cancelled.
    fn snapshot(&mut self, cancel_at: usize) -> (State, State) {
        let keyspace = self.latching.keyspace();
        let expected = self.state();
        let waiting = Waiting { token: 1, wait: &|| panic!("no other thread holds a latch") };
        let databases = keyspace.latch_all_slots(&waiting).begin_snapshot(|_| ());
        let mut slots: Vec<u16> = (0..CROWDED_SLOT_COUNT as u16).collect();
        let mut portion = 0;
        while !slots.is_empty() {
            portion += 1;
            if portion == cancel_at {
                keyspace.snapshot.cancel();
            }
            for _ in 0..self.below(8) {
                self.change();
            }
            self.walk_collections(&waiting, self.below(20) as usize);
            let place = self.below(slots.len() as u64) as usize;
            if self.walk(&databases, &waiting, slots[place], 1 + self.below(2) as usize) {
                slots.swap_remove(place);
            }
        }
        for slot in CROWDED_SLOT_COUNT as u16..SLOT_COUNT as u16 {
            assert!(self.walk(&databases, &waiting, slot, usize::MAX));
        }
        self.change();
        let saved = self.saved.clone();
        let see = |seen: CutEntry<'_>| saved.add(seen.db, seen.entry, seen.alloc);
        assert!(keyspace.snapshot_flushed(see, || false));
        self.walk_collections(&waiting, usize::MAX);
        keyspace.snapshot.cancel();
        let (saved, twice, _) = std::mem::take(&mut *self.saved.0.lock().expect("no test panics with it"));
        if cancel_at == usize::MAX {
            assert_eq!(twice, Vec::<String>::new());
        }
        (expected, saved)
    }

    /// Walks some portions of the large collections, or all, with changes between them.
    fn walk_collections(&mut self, waiting: &Waiting<'_>, portion_count: usize) {
        let (keyspace, mut left) = (self.latching.keyspace(), portion_count);
        while let Some(collection) = (left > 0).then(|| keyspace.next_collection()).flatten() {
            let limits = PortionLimits { len_max: 1 + self.below(3000) as usize, size_max: 1 };
            loop {
                left = left.saturating_sub(1);
                match keyspace.snapshot_collection(&collection, limits, waiting) {
                    CollectionStep::Portion => {}
                    CollectionStep::Done => break,
                    CollectionStep::Missing => self.latching.deferred.garbage.clear(),
                }
                for _ in 0..self.below(6) {
                    self.change();
                }
                if !keyspace.snapshot.is_on() {
                    break;
                }
            }
            let (len, cut_len) = collection.tracking.lens();
            if keyspace.snapshot.is_on() {
                assert_eq!(len, cut_len);
            }
            collection.tracking.take();
            keyspace.end_collection(&collection);
            self.large_count += 1;
            let mut saved = self.saved.0.lock().expect("no test panics with it");
            let (key, value) = saved.2.take().expect("the last call");
            if saved.0.insert((collection.db.0, key.clone()), value).is_some() {
                saved.1.push(format!("{} {key:?} twice", collection.db.0));
            }
        }
    }

    fn walk(&self, databases: &[CutDatabase], waiting: &Waiting<'_>, slot: u16, bucket_count: usize) -> bool {
        let mut left = bucket_count;
        let enough = || {
            left -= 1;
            left == 0
        };
        let see = |seen: CutEntry<'_>| self.saved.add(seen.db, seen.entry, seen.alloc);
        self.latching.keyspace().snapshot_slot(Slot::new(slot), databases, waiting, see, enough)
    }
}

fn with_trial(seed: u64, test: impl FnOnce(&mut Trial<'_>)) {
    let keyspace = Keyspace::new(usize::from(DB_COUNT), [seed, 2, 3, 4], |_| {});
    let saved = Saved::default();
    keyspace.snapshot.connect(Box::new(saved.clone()));
    let mut trial = Trial::new(&keyspace, seed, saved);
    for _ in 0..600 {
        trial.change();
    }
    test(&mut trial);
}

#[test]
fn a_snapshot_has_the_state_at_its_cut() {
    let (mut key_count, mut large_count) = (0, 0);
    for seed in 0..20 {
        with_trial(seed, |trial| {
            for _ in 0..5 {
                let (expected, saved) = trial.snapshot(usize::MAX);
                assert_eq!(saved, expected, "seed {seed}");
                key_count += expected.len();
            }
            large_count += trial.large_count;
        });
    }
    assert!(key_count > 3_500 && large_count > 80, "{key_count} {large_count}");
}

#[test]
fn after_a_cancelled_snapshot_the_next_one_is_whole() {
    let mut fault_count = 0;
    for seed in 0..20 {
        with_trial(seed, |trial| {
            let cancel_at = 1 + trial.below(15) as usize;
            let (expected, saved) = trial.snapshot(cancel_at);
            // Without preserving the state would be wrong, which the other test would notice.
            fault_count += usize::from(saved != expected);
            let (expected, saved) = trial.snapshot(usize::MAX);
            assert_eq!(saved, expected, "seed {seed}");
        });
    }
    assert!(fault_count > 4, "{fault_count}");
}
