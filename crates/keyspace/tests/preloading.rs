//! Collections of every type and size are preloaded: nothing changes, and no latch remains.

use base::{DbIndex, Millis};
use collections::{
    AllocContext, Collection, CollectionLimits, Hash, List, Set, SetLimits, SortedSet, SortedSetLimits,
};
use collections::{End, ExpiryChange, ListLimits, NewValue};
use keyspace::{Key, Keyspace, Latching, PRELOADED_KEY_COUNT_MAX, Preloaded};
use sync::Mode;

const KEY_COUNT: usize = 12;

/// Number of elements of the large collections: none is a packed sequence any more.
const LARGE_LEN: usize = 4_000;

fn edit<T: Collection>(
    latching: &mut Latching<'_>,
    key: Key<'_>,
    change: impl FnOnce(&mut T, AllocContext<'_>),
) {
    latching.edit_collection_or_new(key, change).expect("a new key has no other type");
}

/// Fills a key: the types alternate; the first few are small, the others large.
fn fill(latching: &mut Latching<'_>, key: Key<'_>, number: usize) {
    let len = if number < KEY_COUNT / 2 { 20 } else { LARGE_LEN };
    let texts = || (0..len).map(|index| format!("element-{index}-of-{number}").into_bytes());
    match number % 6 {
        0 => edit(latching, key, |list: &mut List, _| {
            texts().for_each(|text| list.push(End::Right, &text));
            list.rebalance(ListLimits::of_directive(-2));
        }),
        1 => edit(latching, key, |hash: &mut Hash, alloc| {
            let limits = CollectionLimits { entry_count_max: 512, value_size_max: 64 };
            texts().for_each(|text| {
                hash.set(alloc, limits, &text, b"value", ExpiryChange::Clear, 0);
            });
        }),
        2 | 3 => edit(latching, key, |set: &mut Set, alloc| {
            let limits =
                SetLimits { intset_len_max: 512, listpack_len_max: 128, listpack_value_size_max: 64 };
            if number % 6 == 2 {
                texts().for_each(|text| assert!(set.add(alloc, &text, limits)));
            } else {
                (0..len).for_each(|index| assert!(set.add(alloc, index.to_string().as_bytes(), limits)));
            }
        }),
        4 => edit(latching, key, |set: &mut SortedSet, alloc| {
            let limits = SortedSetLimits { entry_count_max: 128, value_size_max: 64 };
            texts().for_each(|text| {
                set.insert(alloc, limits, &text, 1.5);
            });
        }),
        _ => {
            latching.set(key, NewValue::Raw(b"a string"), ExpiryChange::Clear);
        }
    }
}

#[test]
fn preloading_changes_no_data_and_keeps_no_latch() {
    let keyspace = Keyspace::new(2, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 7);
    latching.mode.now = Millis(1);
    let names: Vec<String> = (0..KEY_COUNT + 2).map(|number| format!("key:{number}")).collect();
    // The last two do not exist, and the last one is in an empty database.
    let keys: Vec<Key<'_>> = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let db = DbIndex(u16::from(number == KEY_COUNT + 1));
            Key::new(keyspace.hasher(), name.as_bytes(), db)
        })
        .collect();
    for (number, key) in keys[..KEY_COUNT].iter().enumerate() {
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        fill(&mut latching, *key, number);
        latching.release();
    }

    // A slot that is latched for writing is skipped.
    latching.latch(keys[3].slot, Mode::Write).expect("no other session holds a latch");
    keyspace.preload(&[]);
    for member in [None, Some(&b"element-7-of-2"[..]), Some(b"element-7-of-8"), Some(b"not there")] {
        let wanted: Vec<_> =
            keys.iter().flat_map(|key| [Some(Preloaded { key: *key, member }), None]).collect();
        keyspace.preload(&wanted);
        let again = Preloaded { key: keys[2], member };
        keyspace.preload(&[Some(again); 2 * PRELOADED_KEY_COUNT_MAX]);
    }
    latching.release();

    for (number, key) in keys.iter().enumerate() {
        latching.latch(key.slot, Mode::Write).expect("no read latch is left");
        assert_eq!(latching.peek(*key).is_some(), number < KEY_COUNT);
        assert!(
            latching.counters.hits.value() + latching.counters.misses.value() == 0,
            "the entry was not prefetched"
        );
        latching.release();
    }
}
