//! A sorted set and its tree keep their order and their ranks under any sequence of additions, moves and
//! removals.
//!
//! The input is a list of changes: a byte for the operation, and two for member and score.

#![no_main]

use std::collections::BTreeMap;

use collections::{Collection, Heap, AllocContext, KeyHasher, SortedSet, SortedSetLimits};
use libfuzzer_sys::fuzz_target;

const LIMITS: SortedSetLimits = SortedSetLimits { entry_count_max: 8, value_size_max: 64 };

/// Number of changes between two full comparisons.
const COMPARISON_DISTANCE: usize = 64;
const CHANGE_COUNT_MAX: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let mut set = SortedSet::new();
    let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for (step, change) in data.as_chunks::<3>().0.iter().take(CHANGE_COUNT_MAX).enumerate() {
        let [kind, high, low] = *change;
        let number = usize::from(high % 4) << 8 | usize::from(low);
        let member = match high >> 5 {
            7 => format!("{number}:{}", "x".repeat(number)).into_bytes(),
            _ => format!("m{number}").into_bytes(),
        };
        match kind % 8 {
            0..5 => {
                // Few scores, so that many are equal. 0 is never -0, which a listpack does not preserve.
                let score = f64::from(kind >> 3) - 7.0 + f64::from(high >> 6);
                assert_eq!(set.insert(alloc, LIMITS, &member, score), model.insert(member.clone(), score));
            }
            5..7 => assert_eq!(set.remove(alloc, &member), model.remove(&member)),
            _ if !model.is_empty() => {
                let start = number % model.len();
                let count = (1 + usize::from(kind >> 3)).min(model.len() - start);
                let gone: Vec<Vec<u8>> =
                    set.range(start, count).map(|(member, _)| member.to_vec()).collect();
                set.remove_ranks(alloc, start, count);
                assert!(gone.iter().all(|member| model.remove(member).is_some()));
            }
            _ => {}
        }
        assert_eq!(set.score(alloc, &member), model.get(&member).copied());
        if step % COMPARISON_DISTANCE == 0 {
            compare(alloc, &set, &model);
        }
    }
    compare(alloc, &set, &model);
});

fn compare(alloc: AllocContext<'_>, set: &SortedSet, model: &BTreeMap<Vec<u8>, f64>) {
    set.check(alloc).expect("the invariants hold");
    let mut expected: Vec<(&[u8], f64)> = model.iter().map(|(member, score)| (&member[..], *score)).collect();
    expected.sort_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| a.cmp(b)));
    assert_eq!(set.len(), expected.len());
    assert!(set.iter().eq(expected.iter().copied()));
    for (rank, (member, score)) in expected.iter().enumerate() {
        assert_eq!(set.rank(alloc, member), Some((rank, *score)));
    }
}
