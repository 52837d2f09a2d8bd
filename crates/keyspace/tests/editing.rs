//! Changing entries in place keeps the counters, whether the key is missing, live, or expired.

use base::{DbIndex, Millis, Slot};
use collections::{
    AllocContext, CollectionLimits, Encoding, ExpiryChange, FieldWas, Hash, NewValue, NotAString, ValueRef,
};
use keyspace::{DatabaseWalk, Edited, Key, Keyspace, Latching, NotOfThisType, Population};
use sync::Mode;

const NOW: i64 = 1000;
const LIMITS: CollectionLimits = CollectionLimits { entry_count_max: 128, value_size_max: 64 };

/// A latching at `NOW` of an empty keyspace with two databases.
fn with_view(test: impl FnOnce(&mut Latching<'_>)) {
    let keyspace = Keyspace::new(2, [1, 2, 3, 4], |_| ());
    let mut latching = Latching::new(&keyspace, 0, 1);
    latching.mode.now = Millis(NOW);
    test(&mut latching);
}

/// Latches the key's slot while `act` runs.
fn held<R>(latching: &mut Latching<'_>, name: &str, act: impl FnOnce(&mut Latching<'_>, Key<'_>) -> R) -> R {
    let key = Key::new(latching.keyspace().hasher(), name.as_bytes(), DbIndex(1));
    latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
    let result = act(latching, key);
    latching.release();
    result
}

fn population(latching: &Latching<'_>) -> Population {
    latching.keyspace().counters.population(1)
}

fn expired_count(latching: &Latching<'_>) -> u64 {
    latching.keyspace().counters.sum(|counters| &counters.expired_keys)
}

#[test]
fn editing_an_expired_key_deletes_it() {
    with_view(|latching| {
        for (expiry, edited) in [(NOW, None), (NOW - 1, None), (NOW + 1, Some(()))] {
            held(latching, "k", |latching, key| {
                latching.set(key, NewValue::Int(1), ExpiryChange::At(expiry));
                assert_eq!(latching.edit(key, |entry| drop(entry.set_int(2))), edited);
                assert_eq!(latching.peek(key).is_some(), edited.is_some());
            });
        }
        assert_eq!(expired_count(latching), 2);
        let expected =
            Population { keys: 1, volatile: 1, expiry_sum: NOW as u64 + 1, ..Population::default() };
        assert_eq!(population(latching), expected);
        held(latching, "k", |latching, key| latching.set_expiry(key, None));
        assert_eq!(population(latching), Population { keys: 1, ..Population::default() });
        assert_eq!(held(latching, "nothing", |latching, key| latching.edit(key, |_| ())), None);
    });
}

#[test]
fn overwriting_an_expired_key_counts_it_as_expired() {
    with_view(|latching| {
        held(latching, "k", |latching, key| {
            latching.set(key, NewValue::Int(1), ExpiryChange::At(NOW));
            assert!(!latching.set(key, NewValue::Int(2), ExpiryChange::Clear).0);
            assert!(latching.set(key, NewValue::Int(3), ExpiryChange::Clear).0);
        });
        assert_eq!(expired_count(latching), 1);
        assert_eq!(population(latching), Population { keys: 1, ..Population::default() });
    });
}

#[test]
fn a_string_grows_under_an_edit() {
    with_view(|latching| {
        held(latching, "k", |latching, key| {
            let filled = latching.edit_string(key, 3, |bytes| {
                bytes[1] = b'x';
                bytes.len()
            });
            assert_eq!(filled, Ok(3));
            assert_eq!(latching.edit_string(key, 1, |bytes| bytes.to_vec()), Ok(b"\0x\0".to_vec()));
            latching.set(key, NewValue::Auto(b"123"), ExpiryChange::At(NOW + 5));
            assert_eq!(latching.edit_string(key, 4, |bytes| bytes.to_vec()), Ok(b"123\0".to_vec()));
            let entry = latching.peek(key).expect("the key exists");
            assert_eq!((entry.encoding(), entry.expiry()), (Encoding::Raw, Some(NOW + 5)));
            latching.mode.now = Millis(NOW + 5);
            assert_eq!(latching.edit_string(key, 2, |bytes| bytes.to_vec()), Ok::<_, NotAString>(vec![0, 0]));
            let entry = latching.peek(key).expect("the key exists");
            assert!(matches!(entry.value(), ValueRef::Bytes([0, 0])));
            assert_eq!(entry.expiry(), None);
        });
        assert_eq!(expired_count(latching), 1);
        assert_eq!(population(latching), Population { keys: 1, ..Population::default() });
    });
}

#[test]
fn releasing_works_with_and_without_kept_memory() {
    with_view(|latching| {
        for _ in 0..3 {
            let slots = [3, 7, 9].map(Slot::new);
            latching.latch_several(slots.into_iter(), Mode::Write).expect("free");
            latching.release();
            latching.latch_all(Mode::Read).expect("free");
            latching.release();
            assert!(latching.holds_nothing());
            latching.latch(Slot::new(7), Mode::Write).expect("free");
            latching.release();
        }
    });
}

#[test]
fn collections_exist_from_first_to_last_element() {
    let set = |hash: &mut Hash, alloc: AllocContext<'_>| {
        hash.set(alloc, LIMITS, b"field", b"value", ExpiryChange::Clear, NOW) == FieldWas::Absent
    };
    let remove = |hash: &mut Hash, alloc: AllocContext<'_>| hash.remove(alloc, b"field", NOW);
    with_view(|latching| {
        held(latching, "k", |latching, key| {
            assert_eq!(latching.edit_collection(key, set), Ok(None));
            let nothing = latching.edit_collection_or_new(key, remove);
            assert_eq!(nothing, Ok(Edited { result: false, is_new: false, is_gone: true }));
            for is_new in [true, false] {
                let edited = latching.edit_collection_or_new(key, set);
                assert_eq!(edited, Ok(Edited { result: is_new, is_new, is_gone: false }));
            }
        });
        assert_eq!(population(latching), Population { keys: 1, ..Population::default() });
        held(latching, "k", |latching, key| {
            let edited = latching.edit_collection(key, remove);
            assert_eq!(edited, Ok(Some(Edited { result: true, is_new: false, is_gone: true })));
            latching.set(key, NewValue::Int(1), ExpiryChange::Clear);
            assert_eq!(latching.edit_collection(key, remove), Err(NotOfThisType));
            assert_eq!(latching.edit_collection_or_new(key, set), Err(NotOfThisType));
        });
        assert_eq!(population(latching), Population { keys: 1, ..Population::default() });
    });
}

#[test]
fn costly_values_are_dropped_in_the_background() {
    with_view(|latching| {
        for (name, field_count, is_left) in [("small", 10u32, false), ("large", 10_000, true)] {
            held(latching, name, |latching, key| {
                latching
                    .edit_collection_or_new(key, |hash: &mut Hash, alloc| {
                        for field in 0..field_count {
                            hash.set(alloc, LIMITS, &field.to_le_bytes(), b"value", ExpiryChange::Clear, NOW);
                        }
                    })
                    .expect("the key is new");
                latching.set(key, NewValue::Int(1), ExpiryChange::Clear);
            });
            assert_eq!(latching.deferred.garbage.pop().is_some(), is_left);
        }
    });
}

#[test]
fn random_entries_come_from_every_slot() {
    with_view(|latching| {
        let names: Vec<String> = (0..20_000).map(|number| format!("k{number}")).collect();
        let slot =
            |name: &String| Key::new(latching.keyspace().hasher(), name.as_bytes(), DbIndex(1)).slot.index();
        let mut by_slot: Vec<(usize, &String)> = names.iter().map(|name| (slot(name), name)).collect();
        by_slot.sort();
        let neighbours =
            by_slot.windows(2).find(|pair| pair[0].0 + 1 == pair[1].0).expect("some are side by side");
        for (_, name) in neighbours {
            held(latching, name, |latching, key| latching.set(key, NewValue::Int(1), ExpiryChange::Clear));
        }
        let second = neighbours[1].1.as_bytes();
        let drawn = (0..400).filter(|_| {
            DatabaseWalk::new(latching, DbIndex(1))
                .with_random_entry(|entry| entry.key() == second)
                .expect("there are two")
        });
        assert!((120..280).contains(&drawn.count()));
    });
}
