//! Large sets and large hashes behave like a standard set and map under any sequence of additions and
//! removals.
//!
//! The input is a list of changes: a byte for the operation, and two for the member.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use collections::{
    Collection, DecimalBuffer, ExpiryChange, Hash, Heap, AllocContext, Item, KeyHasher, CollectionLimits, Set, SetLimits,
};
use libfuzzer_sys::fuzz_target;

const SET_LIMITS: SetLimits =
    SetLimits { intset_len_max: 16, listpack_len_max: 8, listpack_value_size_max: 64 };
const HASH_LIMITS: CollectionLimits = CollectionLimits { entry_count_max: 8, value_size_max: 64 };

/// Number of changes between two full comparisons.
const COMPARISON_DISTANCE: usize = 64;
const CHANGE_COUNT_MAX: usize = 2_000;
/// No key expires during a run.
const NOW: i64 = 1_000;

fuzz_target!(|data: &[u8]| {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let (mut set, mut members) = (Set::new(), BTreeSet::new());
    let (mut hash, mut fields) = (Hash::new(), BTreeMap::new());
    for (step, change) in data.as_chunks::<3>().0.iter().take(CHANGE_COUNT_MAX).enumerate() {
        let [kind, high, low] = *change;
        let member = member(high, low);
        match kind % 8 {
            0..3 => assert_eq!(set.add(alloc, &member, SET_LIMITS), members.insert(member.clone())),
            3 => assert_eq!(set.remove(alloc, &member), members.remove(&member)),
            4 if !members.is_empty() => {
                let (mut popped, mut bits) = (Vec::new(), u64::from(low));
                let mut random = || {
                    bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                    bits ^ bits >> 31
                };
                set.pop(alloc, &mut random, |item| popped = text(item));
                assert!(members.remove(&popped), "{popped:?} was not there");
            }
            5..7 => {
                let change =
                    if kind & 64 == 0 { ExpiryChange::Clear } else { ExpiryChange::At(NOW + i64::from(low) + 1) };
                hash.set(alloc, HASH_LIMITS, &member, &[kind; 9][..usize::from(kind % 10)], change, NOW);
                fields.insert(member.clone(), vec![kind; usize::from(kind % 10)]);
            }
            _ => assert_eq!(hash.remove(alloc, &member, NOW), fields.remove(&member).is_some()),
        }
        assert_eq!(set.contains(alloc, &member), members.contains(&member));
        assert_eq!(hash.find(alloc, &member, NOW).is_some(), fields.contains_key(&member));
        if step % COMPARISON_DISTANCE == 0 {
            compare(alloc, &set, &members, &hash, &fields);
        }
    }
    compare(alloc, &set, &members, &hash, &fields);
});

/// Returns one of a thousand members, some of them long, some numeric.
fn member(high: u8, low: u8) -> Vec<u8> {
    let number = usize::from(high % 4) << 8 | usize::from(low);
    match high >> 2 {
        0..20 => number.to_string().into_bytes(),
        20..60 => format!("m{number}").into_bytes(),
        more => format!("{number}:{}", "x".repeat(usize::from(more) * 40)).into_bytes(),
    }
}

fn compare(
    alloc: AllocContext<'_>,
    set: &Set,
    members: &BTreeSet<Vec<u8>>,
    hash: &Hash,
    fields: &BTreeMap<Vec<u8>, Vec<u8>>,
) {
    set.check(alloc).expect("the invariants of the set hold");
    hash.check(alloc).expect("the invariants of the hash hold");
    let found: BTreeSet<Vec<u8>> = set.iter().map(text).collect();
    assert_eq!((set.len(), &found), (members.len(), members));
    let mut found = BTreeMap::new();
    hash.visit(NOW, |field, value| {
        assert!(found.insert(text(field), text(value)).is_none(), "a field twice");
        true
    });
    assert_eq!((hash.len(), &found), (fields.len(), fields));
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}
