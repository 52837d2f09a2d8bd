//! The slot table behaves like a standard map under any sequence of sets, appends, expiries and removals.
//! Keys hash well, or so badly that all fall on a few positions.
//!
//! The input is a byte for the hashing and a list of changes: a byte for the operation, and two for the key.

#![no_main]

use std::collections::HashMap;

use collections::{DecimalBuffer, ExpiryChange, Heap, Table};
use libfuzzer_sys::fuzz_target;

const CHANGE_COUNT_MAX: usize = 4_000;
/// Number of changes between two checks of the invariants.
const CHECK_DISTANCE: usize = 256;

#[derive(Clone, Debug, PartialEq)]
struct Expected {
    text: Vec<u8>,
    expiry: Option<i64>,
}

fuzz_target!(|data: &[u8]| {
    let Some((hashing, changes)) = data.split_first() else { return };
    let (heap, mut table) = (Heap::new(), Table::new());
    let mut model: HashMap<Vec<u8>, Expected> = HashMap::new();
    for (step, change) in changes.as_chunks::<3>().0.iter().take(CHANGE_COUNT_MAX).enumerate() {
        let [kind, high, low] = *change;
        // If all keys fall on a few positions, fewer keys are enough.
        let number = u64::from(high % if hashing % 3 == 0 { 16 } else { 1 }) << 8 | u64::from(low);
        let key = format!("{number}{}", "k".repeat(usize::from(high >> 4) * 20)).into_bytes();
        let hash = hash_of(*hashing, number ^ u64::from(high >> 4) << 40);
        let text = match kind >> 4 {
            0..4 => number.to_string().into_bytes(),
            4..12 => vec![kind; usize::from(low)],
            _ => vec![kind; usize::from(low) * 16],
        };
        match kind % 8 {
            0..3 => {
                let existed =
                    table.upsert_string(&heap, hash, &key, &text, ExpiryChange::Clear).existed;
                let old = model.insert(key.clone(), Expected { text, expiry: None });
                assert_eq!(existed, old.is_some());
            }
            3 => {
                let expiry = (low > 50).then_some(i64::from(low));
                assert_eq!(table.set_expiry(&heap, hash, &key, expiry), model.contains_key(&key));
                model.entry(key.clone()).and_modify(|expected| expected.expiry = expiry);
            }
            4 => {
                let expected = model.entry(key.clone()).or_insert(Expected { text: Vec::new(), expiry: None });
                expected.text.extend_from_slice(&text);
                assert_eq!(table.append(&heap, hash, &key, &text), Ok(expected.text.len()));
            }
            _ => assert_eq!(table.remove(&heap, hash, &key).is_some(), model.remove(&key).is_some()),
        }
        let found = table.find(hash, &key).map(|entry| {
            let mut buffer = DecimalBuffer::new();
            let text = entry.value().text(&mut buffer).expect("a string").to_vec();
            Expected { text, expiry: entry.expiry() }
        });
        assert_eq!(found.as_ref(), model.get(&key));
        assert_eq!(table.len(), model.len());
        if step % CHECK_DISTANCE == 0 {
            table.check().expect("the invariants hold");
        }
    }
});

fn hash_of(hashing: u8, number: u64) -> u64 {
    let mut hash = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    match hashing % 3 {
        0 => hash,
        1 => hash & 0x0003_8000_1400_0000,
        _ => hash & !(0xff_c000 << 26) | 0x5a_4000 << 26,
    }
}
