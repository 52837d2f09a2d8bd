//! Random changes of large collections while a snapshot walks them in portions: the sink gets the elements of the cut.

mod random;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use collections::{
    AllocContext, Collection, CollectionLimits, DecimalBuffer, Element, ElementSink, ExpiryChange, Hash,
    Heap, Item, KeyHasher, Object, PortionLimits, Set, SetLimits, SortedSet, SortedSetLimits, Tracking,
};
use random::Random;

/// Elements by name, as clients could see them.
type Elements = BTreeMap<Vec<u8>, String>;

/// Gets elements; one that comes twice is a fault.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<(Elements, Vec<String>)>>);

impl ElementSink for Sink {
    fn add(&mut self, element: Element<'_>) {
        let mut saved = self.0.lock().expect("no test panics with it");
        let (name, value) = shown(element);
        if saved.0.insert(name.clone(), value).is_some() {
            saved.1.push(format!("{:?} twice", String::from_utf8_lossy(&name)));
        }
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no test panics with it").0.len()
    }

    fn size(&self) -> usize {
        0
    }

    fn settle(&mut self) {}

    fn take(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

fn shown(element: Element<'_>) -> (Vec<u8>, String) {
    match element {
        Element::Member(member) => (member.to_vec(), String::new()),
        Element::Scored(member, score) => (member.to_vec(), format!("{score:?}")),
        Element::Field(field, value, expiry) => {
            (text(field), format!("{:?} {expiry:?}", String::from_utf8_lossy(&text(value))))
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Set,
    Hash,
    SortedSet,
}

struct Driver {
    heap: Heap,
    hasher: KeyHasher,
    object: Object,
    random: Random,
    /// Names are below this number.
    name_count: usize,
    now: i64,
}

impl Driver {
    fn new(kind: Kind, seed: u64, name_count: usize) -> Self {
        let object = match kind {
            Kind::Set => Set::new_hashtable().into_object(),
            Kind::Hash => Hash::new().into_object(),
            Kind::SortedSet => SortedSet::new_skiplist().into_object(),
        };
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, seed]));
        let mut driver = Self { heap, hasher, object, random: Random(seed), name_count, now: 0 };
        while !driver.object.is_large() {
            driver.add();
        }
        driver
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(self.name_count);
        let mut name = number.to_string().into_bytes();
        if number.is_multiple_of(10) {
            name.resize(300, b'x');
        }
        name
    }

    fn elements(&self) -> Elements {
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        let mut elements = Elements::new();
        match &self.object {
            Object::Set(set) => {
                elements.extend(set.iter().map(|member| shown(Element::Member(&text(member)))));
            }
            Object::Hash(hash) => {
                let mut from = Some(0);
                while let Some(at) = from {
                    from = hash.scan_with_expiries(alloc, at, |field, value, expiry| {
                        let (name, value) = shown(Element::Field(field, value, expiry));
                        elements.insert(name, value);
                    });
                }
            }
            Object::SortedSet(set) => {
                elements.extend(set.iter().map(|(member, score)| shown(Element::Scored(member, score))));
            }
            _ => unreachable!("not made here"),
        }
        elements
    }

    fn add(&mut self) {
        let (name, bits) = (self.name(), self.random.below(1000));
        let expiry =
            if bits < 30 { ExpiryChange::At(self.now + 1 + bits as i64) } else { ExpiryChange::Keep };
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        let limits = CollectionLimits { entry_count_max: 0, value_size_max: 0 };
        match &mut self.object {
            Object::Set(set) => {
                let limits = SetLimits { intset_len_max: 0, listpack_len_max: 0, listpack_value_size_max: 0 };
                set.add(alloc, &name, limits);
            }
            Object::Hash(hash) => {
                let value = "v".repeat(bits % 200);
                hash.set(alloc, limits, &name, value.as_bytes(), expiry, self.now);
            }
            Object::SortedSet(set) => {
                let limits = SortedSetLimits { entry_count_max: 0, value_size_max: 0 };
                set.insert(alloc, limits, &name, (bits % 100) as f64);
            }
            _ => unreachable!("not made here"),
        }
    }

    fn remove(&mut self, count: usize) {
        for _ in 0..count {
            let (name, rank) = (self.name(), self.random.below(1 << 20));
            let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
            match &mut self.object {
                Object::Set(set) if rank.is_multiple_of(4) && !set.is_empty() => {
                    set.pop(alloc, &mut || self.random.bits(), |_| ());
                }
                Object::Set(set) => drop(set.remove(alloc, &name)),
                Object::Hash(hash) => drop(hash.remove(alloc, &name, self.now)),
                Object::SortedSet(set) if rank.is_multiple_of(4) && !set.is_empty() => {
                    let start = rank % set.len();
                    // Sometimes nearly all, so that the others are copied.
                    let count = if rank.is_multiple_of(512) { set.len() } else { 20 };
                    set.remove_ranks(alloc, start, (set.len() - start).min(count));
                }
                Object::SortedSet(set) => drop(set.remove(alloc, &name)),
                _ => unreachable!("not made here"),
            }
        }
    }

    /// Changes that only a hash has.
    fn expire(&mut self) {
        let (name, at) = (self.name(), self.random.below(60) as i64);
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        if let Object::Hash(hash) = &mut self.object {
            let expiry = (at < 50).then_some(self.now + at);
            hash.set_expiry(alloc, &name, expiry, self.now);
            self.now += 1;
            hash.expire(&self.heap, self.now, |_| ());
        }
    }

    /// `removed`: of 100 changes, those that remove elements.
    fn change(&mut self, removed: usize) {
        match self.random.below(100) {
            0..5 => self.expire(),
            choice if choice < removed => self.remove(3),
            _ => self.add(),
        }
    }
}

/// Walks a collection while it changes. `drop_at`: the portion at which it is dropped.
fn run(kind: Kind, seed: u64, removed: usize, drop_at: usize) {
    let mut driver = Driver::new(kind, seed, if cfg!(any(miri, feature = "tiny")) { 100 } else { 9_000 });
    for _ in 0..driver.random.below(500) {
        driver.add();
    }
    let (sink, expected) = (Sink::default(), driver.elements());
    let tracking =
        Tracking::begin(&driver.object, &driver.hasher, Box::new(sink.clone())).expect("it is large");
    assert!(tracking.is_of(&driver.object));
    let limits =
        PortionLimits { len_max: 1 + driver.random.below(driver.object.element_count() / 4), size_max: 1 };
    let copy = driver.object.to_copy(&driver.heap);
    assert!(!tracking.is_of(&copy) && copy.tracking().is_none());
    let (mut portion, mut is_done) = (0, false);
    while !is_done {
        for _ in 0..driver.random.below(limits.len_max + 1) {
            driver.change(removed);
        }
        if portion == drop_at {
            driver.object = Set::new_hashtable().into_object();
            driver.object = copy.to_copy(&driver.heap);
        }
        portion += 1;
        is_done = if tracking.is_of(&driver.object) {
            tracking.walk(&driver.object, limits)
        } else {
            tracking.walk_detached(limits).expect("it was dropped")
        };
    }
    assert!(!tracking.is_of(&driver.object));
    driver.change(removed);
    assert_eq!(tracking.lens(), (expected.len(), expected.len()), "{kind:?} {seed}");
    let saved = sink.0.lock().expect("no test panics with it");
    assert_eq!(saved.1, Vec::<String>::new(), "{kind:?} {seed}");
    assert!(saved.0 == expected, "{kind:?} {seed}: {} of {}", saved.0.len(), expected.len());
    let alloc = AllocContext { heap: &driver.heap, hasher: &driver.hasher };
    let checked = match &driver.object {
        Object::Set(set) => set.check(alloc),
        Object::Hash(hash) => hash.check(alloc),
        Object::SortedSet(set) => set.check(alloc),
        _ => Ok(()),
    };
    assert_eq!(checked, Ok(()));
}

#[test]
fn the_elements_of_the_cut_are_saved_once_whatever_changes() {
    for seed in 0..if cfg!(miri) { 1 } else { 16 } {
        for kind in [Kind::Set, Kind::Hash, Kind::SortedSet] {
            let removed = [20, 45, 95][seed as usize % 3];
            run(kind, seed, removed, if seed.is_multiple_of(4) { seed as usize % 7 } else { usize::MAX });
        }
    }
}

#[test]
fn a_closed_tracking_keeps_nothing() {
    for kind in [Kind::Set, Kind::Hash, Kind::SortedSet] {
        let mut driver = Driver::new(kind, 1, 9_000);
        let sink = Sink::default();
        let tracking =
            Tracking::begin(&driver.object, &driver.hasher, Box::new(sink.clone())).expect("it is large");
        tracking.close();
        (0..100).for_each(|_| driver.change(50));
        assert_eq!((sink.len(), tracking.is_of(&driver.object)), (0, false));
        driver.object = Set::new().into_object();
        let limits = PortionLimits { len_max: 1, size_max: 1 };
        assert_eq!(tracking.walk_detached(limits), None);
        driver.heap.trim();
    }
}
