//! Random changes of large collections while a snapshot walks them in portions: the sink receives the elements
//! of the cut.

mod random;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use collections::stream::{NodeLimits, Stream, StreamEntry, StreamId, TrimTo};
use collections::{
    AllocContext, Collection, CollectionLimits, DecimalBuffer, Element, ElementSink, End, ExpiryChange, Hash,
    Heap, Item, KeyHasher, List, Object, PortionLimits, Set, SetLimits, SortedSet, SortedSetLimits, Tracking,
};
use random::Random;

/// Elements by name, as clients could see them. Those of lists are named by their index.
type Elements = BTreeMap<Vec<u8>, String>;

/// Bytes of the elements that were preserved and not passed to the sink, and whether the end was reported.
#[derive(Default)]
struct Reported {
    kept_size: usize,
    has_finished: bool,
}

/// Receives elements; an element that it receives twice is a fault.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<(Elements, Vec<String>, Reported)>>);

impl ElementSink for Sink {
    fn add(&mut self, element: Element<'_>) {
        let mut saved = self.0.lock().expect("no test panics with it");
        let (saved, faults, _) = &mut *saved;
        let before = saved.len();
        let mut elements = Vec::new();
        match element {
            Element::Items(part) => part.for_each(|item| {
                elements.push(shown_item(before + elements.len(), item));
            }),
            Element::Entries(part) => elements.extend(part.entries().map(shown_entry)),
            element => elements.push(shown(element)),
        }
        assert_eq!(elements.len(), element.len());
        for (name, value) in elements {
            // Entries of streams arrive in order; for lists, the names of the items show the order.
            if matches!(element, Element::Entries(_))
                && saved.last_key_value().is_some_and(|last| *last.0 >= name)
            {
                faults.push(format!("{value} is not in order"));
            }
            if saved.insert(name.clone(), value).is_some() {
                faults.push(format!("{:?} twice", String::from_utf8_lossy(&name)));
            }
        }
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no test panics with it").0.len()
    }

    fn size(&self) -> usize {
        0
    }

    fn settle(&mut self, kept_size: usize) {
        self.0.lock().expect("no test panics with it").2.kept_size = kept_size;
    }

    fn finish(&mut self) {
        let mut saved = self.0.lock().expect("no test panics with it");
        assert!(!std::mem::replace(&mut saved.2.has_finished, true));
    }

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
        Element::Items(_) | Element::Entries(_) => unreachable!("shown one by one"),
    }
}

fn shown_item(index: usize, item: Item<'_>) -> (Vec<u8>, String) {
    (index.to_be_bytes().to_vec(), String::from_utf8_lossy(&text(item)).into_owned())
}

fn shown_entry(entry: StreamEntry<'_>) -> (Vec<u8>, String) {
    let id = (u128::from(entry.id.ms) << 64 | u128::from(entry.id.seq)).to_be_bytes();
    let pairs = entry.pairs().map(|(name, value)| [name, value].map(String::from_utf8_lossy).concat());
    (id.to_vec(), pairs.collect::<Vec<_>>().join(" "))
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Set,
    Hash,
    SortedSet,
    List,
    Stream,
}

const KINDS: [Kind; 5] = [Kind::Set, Kind::Hash, Kind::SortedSet, Kind::List, Kind::Stream];

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
            Kind::List => List::new().into_object(),
            Kind::Stream => Stream::new().into_object(),
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
            Object::List(list) => list.walk(0, |index, item| {
                elements.extend([shown_item(index, item)]);
                true
            }),
            Object::Stream(stream) => {
                elements.extend(stream.range(StreamId::MIN, StreamId::MAX).map(shown_entry));
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
            Object::List(list) => {
                list.report_as_quicklist();
                let place = self.random.below(list.len() + 1);
                match bits % 5 {
                    0 => list.push(End::Left, &name),
                    1 => list.insert(place, &name),
                    2 if place < list.len() => list.set(place, &name),
                    3 if bits < 50 => list.push(End::Right, &vec![b'l'; LONG_SIZES[bits % 2]]),
                    _ => list.push(End::Right, &name),
                }
            }
            Object::Stream(stream) => append(stream, &name, bits),
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
                    // Sometimes nearly all elements are removed, so that the remaining ones are copied.
                    let count = if rank.is_multiple_of(512) { set.len() } else { 20 };
                    set.remove_ranks(alloc, start, (set.len() - start).min(count));
                }
                Object::SortedSet(set) => drop(set.remove(alloc, &name)),
                Object::List(list) => remove_items(list, &name, rank),
                Object::Stream(stream) => remove_entries(stream, rank),
                _ => unreachable!("not made here"),
            }
        }
    }

    /// Deletes expired fields, if the collection is a hash.
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

/// Sizes of elements of lists that get nodes of their own.
const LONG_SIZES: [usize; 2] = if cfg!(any(miri, feature = "tiny")) { [300, 600] } else { [2500, 9000] };

fn append(stream: &mut Stream, name: &[u8], bits: usize) {
    let last = stream.last_id;
    let id = match bits % 3 {
        0 => StreamId { ms: last.ms + 1, seq: 0 },
        _ => StreamId { ms: last.ms, seq: last.seq + 1 + bits as u64 % 2 },
    };
    let limits = NodeLimits { entry_count_max: 7, size_max: 4096 };
    stream.append(id, [(&b"n"[..], name)].into_iter(), limits).expect("the id is above the last one");
}

fn remove_items(list: &mut List, name: &[u8], rank: usize) {
    if list.is_empty() {
        return;
    }
    let index = rank % list.len();
    match rank % 7 {
        0 => drop(list.remove_equal(
            name,
            if rank.is_multiple_of(2) { End::Left } else { End::Right },
            1 + rank % 3,
        )),
        1 => drop(list.cut(index, (list.len() - index).min(30))),
        2 => list.take(list.index_of_end(End::Right), |_| ()),
        3 => list.take(0, |_| ()),
        _ => list.take(index, |_| ()),
    }
}

fn remove_entries(stream: &mut Stream, rank: usize) {
    let place = rank as u64 % (stream.len() + 1);
    match rank % 20 {
        0 => drop(stream.trim(TrimTo::Len(stream.len() - place.min(20)), rank.is_multiple_of(40), 0)),
        // `XSETID` may lower the last id of an empty stream. The next nodes begin where others began.
        1 if rank.is_multiple_of(3) => {
            stream.trim(TrimTo::Len(0), false, 0);
            stream.last_id = StreamId::MIN;
        }
        2 => {
            while let Some(last) = stream.last_entry_id().filter(|last| last.seq % 5 > 0) {
                stream.delete(last);
            }
        }
        _ => {
            let last = stream.last_id;
            let from = StreamId { ms: rank as u64 % (last.ms + 1), seq: rank as u64 % 3 };
            let id = stream.range(from, StreamId::MAX).next().map(|entry| entry.id);
            if let Some(id) = id {
                stream.delete(id);
            }
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
    assert!(saved.2.has_finished && saved.2.kept_size == 0, "{kind:?} {seed}: {}", saved.2.kept_size);
    assert_eq!(saved.1, Vec::<String>::new(), "{kind:?} {seed}");
    assert!(saved.0 == expected, "{kind:?} {seed}: {} of {}", saved.0.len(), expected.len());
    let alloc = AllocContext { heap: &driver.heap, hasher: &driver.hasher };
    let checked = match &driver.object {
        Object::Set(set) => set.check(alloc),
        Object::Hash(hash) => hash.check(alloc),
        Object::SortedSet(set) => set.check(alloc),
        Object::List(list) => {
            list.check();
            Ok(())
        }
        Object::Stream(stream) => {
            stream.check();
            Ok(())
        }
        _ => Ok(()),
    };
    assert_eq!(checked, Ok(()));
}

#[test]
fn the_elements_of_the_cut_are_saved_once_whatever_changes() {
    for seed in 0..if cfg!(miri) { 1 } else { 16 } {
        for kind in KINDS {
            let removed = [20, 45, 95][seed as usize % 3];
            run(kind, seed, removed, if seed.is_multiple_of(4) { seed as usize % 7 } else { usize::MAX });
        }
    }
}

#[test]
fn a_closed_tracking_keeps_nothing() {
    for kind in KINDS {
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
