//! Small collections of every type that are left after random deletions: `Table::defragment` moves their memory, so that whole
//! spans become vacant, and changes none of them.

mod random;

use collections::{
    AllocContext, Collection, CollectionLimits, DecimalBuffer, End, ExpiryChange, Hash, Heap, Item,
    KeyHasher, List, NewValue, Object, Set, SetLimits, SortedSet, SortedSetLimits, Table, ValueRef,
};
use random::Random;

const SET_LIMITS: SetLimits =
    SetLimits { intset_len_max: 512, listpack_len_max: 128, listpack_value_size_max: 64 };
const SORTED_SET_LIMITS: SortedSetLimits = SortedSetLimits { entry_count_max: 128, value_size_max: 64 };
const HASH_LIMITS: CollectionLimits = CollectionLimits { entry_count_max: 512, value_size_max: 64 };

/// Fewer and larger ones under Miri.
const KEY_COUNT: u64 = if cfg!(miri) { 60 } else { 20_000 };

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ints,
    Set,
    SortedSet,
    Hash,
    /// Some of the fields expire.
    Volatile,
    List,
    /// One that the global allocator has.
    ListElsewhere,
}

fn hash_of(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ number << 30
}

fn member(number: u64, index: usize) -> Vec<u8> {
    let width = if cfg!(miri) { 48 } else { 1 };
    format!("member:{number:06}:{index:0width$}").into_bytes()
}

/// A collection whose contents follow from the number.
fn object(kind: Kind, alloc: AllocContext<'_>, number: u64) -> Object {
    let len = if cfg!(miri) { 12 } else { 1 + number as usize % 24 };
    match kind {
        Kind::Ints => {
            let mut set = Set::suiting(b"1", len, SET_LIMITS);
            for index in 0..len as u64 {
                set.add(alloc, (number * 1000 + index).to_string().as_bytes(), SET_LIMITS);
            }
            assert!(set.is_intset());
            set.into_object()
        }
        Kind::Set => {
            let mut set = Set::new_listpack();
            (0..len).for_each(|index| assert!(set.add(alloc, &member(number, index), SET_LIMITS)));
            set.into_object()
        }
        Kind::SortedSet => {
            let mut set = SortedSet::new();
            for index in 0..len {
                let member = member(number, index);
                set.insert(alloc, SORTED_SET_LIMITS, &member, index as f64 * 1.5);
            }
            set.into_object()
        }
        Kind::Hash | Kind::Volatile => {
            let mut hash = Hash::new();
            let fields: Vec<Vec<u8>> = (0..len).map(|index| member(number, index)).collect();
            if number.is_multiple_of(2) {
                hash.reserve(
                    alloc.heap,
                    fields.iter().flat_map(|field| [&field[..], b"17"]).collect::<Vec<_>>().into_iter(),
                );
            }
            for (index, field) in fields.iter().enumerate() {
                let expires = matches!(kind, Kind::Volatile) && index.is_multiple_of(2);
                let expiry =
                    if expires { ExpiryChange::At(1_000 + index as i64) } else { ExpiryChange::Clear };
                hash.set(alloc, HASH_LIMITS, field, b"17", expiry, 0);
            }
            hash.into_object()
        }
        Kind::List | Kind::ListElsewhere => {
            let mut list = List::new();
            let elements: Vec<Vec<u8>> = (0..len).map(|index| member(number, index)).collect();
            if matches!(kind, Kind::List) {
                list.reserve(alloc.heap, elements.iter().take(1 + len / 2).map(|element| &element[..]));
            }
            elements.iter().for_each(|element| list.push(End::Right, element));
            list.into_object()
        }
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

/// The contents of a collection, which is verified.
fn contents(alloc: AllocContext<'_>, object: &Object) -> Vec<(Vec<u8>, Vec<u8>)> {
    match object {
        Object::Set(set) => {
            assert_eq!(set.check(alloc), Ok(()));
            set.iter().map(|member| (text(member), Vec::new())).collect()
        }
        Object::SortedSet(set) => {
            assert_eq!(set.check(alloc), Ok(()));
            set.iter().map(|(member, score)| (member.to_vec(), score.to_string().into_bytes())).collect()
        }
        Object::Hash(hash) => {
            assert_eq!(hash.check(alloc), Ok(()));
            let mut fields = Vec::new();
            let next = hash.scan_with_expiries(alloc, 0, |field, value, expiry| {
                fields.push((text(field), format!("{:?} {expiry:?}", text(value)).into_bytes()));
            });
            assert_eq!(next, None);
            fields
        }
        Object::List(list) => {
            list.check();
            let mut elements = Vec::new();
            list.walk(0, |_, element| {
                elements.push((text(element), Vec::new()));
                true
            });
            elements
        }
        _ => unreachable!("no other type is stored"),
    }
}

/// Walks the whole table. Returns the number of entries that have moved.
fn defragment(table: &mut Table, heap: &Heap) -> usize {
    let (mut next, mut moved_count) = (Some(0), 0);
    while let Some(from) = next {
        let done = table.defragment(heap, from, 3);
        moved_count += done.moved_count;
        next = done.next;
        drop(heap.take_retired());
    }
    assert_eq!(table.check(), Ok(()));
    moved_count
}

fn run(kind: Kind) {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let mut table = Table::new();
    for number in 0..KEY_COUNT {
        let value = NewValue::Object(Box::new(object(kind, alloc, number)));
        table.upsert(&heap, hash_of(number), &number.to_le_bytes(), value, ExpiryChange::Clear);
    }
    let mut random = Random(kind as u64 + 7);
    let (kept, dead): (Vec<u64>, Vec<u64>) = (0..KEY_COUNT).partition(|_| random.below(10) == 0);
    for number in dead {
        assert!(table.remove(&heap, hash_of(number), &number.to_le_bytes()).is_some());
    }
    drop(heap.take_retired());

    // Few spans may all be dense.
    assert!(defragment(&mut table, &heap) > 0 || cfg!(miri));
    for number in &kept {
        let entry = table.find(hash_of(*number), &number.to_le_bytes()).expect("not deleted");
        let ValueRef::Object(found) = entry.value() else { panic!("not a collection") };
        assert_eq!(contents(alloc, found), contents(alloc, &object(kind, alloc, *number)));
    }
    if !cfg!(miri) {
        heap.trim();
        let (used, resident) = (heap.used_bytes(), heap.resident_bytes());
        // A partly used span for each class in use.
        assert!(resident < used + used / 4 + 40 * 32 * 1024, "{kind:?}: {used} of {resident}");
        assert!(defragment(&mut table, &heap) < kept.len() / 4, "{kind:?}: the second walk finds little");
    }
    drop(table);
    drop(heap.take_retired());
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn small_collections_are_packed_after_random_deletions() {
    // Miri takes a minute for each; `packed.rs` moves blocks under it, too.
    let mut kinds = vec![Kind::Hash];
    if !cfg!(miri) {
        kinds.extend([
            Kind::Ints,
            Kind::Set,
            Kind::SortedSet,
            Kind::Volatile,
            Kind::List,
            Kind::ListElsewhere,
        ]);
    }
    kinds.into_iter().for_each(run);
}
