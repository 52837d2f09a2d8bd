//! Random operations on a set, each compared with a standard set, with the invariants checked on the way.

mod random;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use collections::{AllocContext, Collection, DecimalBuffer, Heap, Item, KeyHasher, Set, SetLimits};
use random::Random;

const LIMITS: SetLimits = if cfg!(miri) {
    SetLimits { intset_len_max: 30, listpack_len_max: 12, listpack_value_size_max: 64 }
} else {
    SetLimits { intset_len_max: 512, listpack_len_max: 128, listpack_value_size_max: 64 }
};

/// Number of full comparisons during one sequence of changes.
const COMPARISON_COUNT: usize = if cfg!(miri) { 4 } else { 40 };

/// The form of the members.
#[derive(Clone, Copy, Debug)]
enum Words {
    Ints,
    Short,
    /// Some are too long for a leaf.
    Mixed,
}

fn word(random: &mut Random, words: Words, count: usize) -> Vec<u8> {
    let number = random.below(count);
    match words {
        Words::Ints => {
            (number as i64 * if number.is_multiple_of(7) { 1 << 33 } else { 1 } - 50).to_string().into()
        }
        Words::Short => format!("m{number}").into(),
        Words::Mixed => {
            let huge = if cfg!(miri) { 5_000 } else { 70_000 };
            let len = [3, 8, 20, 64, 65, 200, 255, 256, 1_000, huge][number % 10];
            let mut word = format!("{number}:").into_bytes();
            word.resize(word.len().max(len), b'x');
            word
        }
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

fn all(set: &Set) -> BTreeSet<Vec<u8>> {
    let members: Vec<_> = set.iter().map(text).collect();
    let len = members.len();
    let members: BTreeSet<_> = members.into_iter().collect();
    assert_eq!(members.len(), len, "a member is given twice");
    members
}

fn run(seed: u64, words: Words, word_count: usize, steps: usize) {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([seed, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let mut random = Random(seed);
    let (mut set, mut model) = (Set::new(), BTreeSet::new());
    for step in 0..steps {
        // Phases of growth and of removal.
        let removes = step / (steps / 6).max(1) % 2 == 1;
        let member = word(&mut random, words, word_count);
        match random.below(10) {
            0..=5 if removes => assert_eq!(set.remove(alloc, &member), model.remove(&member)),
            6..=7 if removes && !model.is_empty() => {
                let mut popped = Vec::new();
                set.pop(alloc, &mut || random.bits(), |item| popped = text(item));
                assert!(model.remove(&popped), "{popped:?} was not there");
            }
            _ => assert_eq!(set.add(alloc, &member, LIMITS), model.insert(member.clone())),
        }
        assert_eq!((set.len(), set.contains(alloc, &member)), (model.len(), model.contains(&member)));
        if step % (steps / COMPARISON_COUNT).max(1) == 0 {
            assert_eq!(set.check(alloc), Ok(()));
            assert_eq!(all(&set), model);
        }
    }
    let copy = set.to_copy(&heap);
    assert_eq!((copy.encoding_name(), copy.check(alloc)), (set.encoding_name(), Ok(())));
    assert_eq!(all(&copy), model);
    while let Some(member) = model.pop_first() {
        assert!(set.remove(alloc, &member) && !set.remove(alloc, &member));
    }
    assert!(set.is_empty() && set.memory_bytes() < 1_000, "{} bytes are left", set.memory_bytes());
    assert_eq!(all(&copy).len(), copy.len());
}

#[test]
fn agrees_with_a_standard_set() {
    if cfg!(miri) {
        run(1, Words::Ints, 60, 90);
        run(2, Words::Short, 120, 150);
        run(3, Words::Mixed, 50, 90);
        return;
    }
    for seed in 1..=3 {
        run(seed, Words::Ints, 400, 3_000);
        run(seed, Words::Ints, 5_000, 30_000);
        run(seed, Words::Short, 14, 2_000);
        run(seed, Words::Mixed, 20, 2_000);
        run(seed, Words::Short, 100, 3_000);
        run(seed, Words::Short, 30_000, 60_000);
        run(seed, Words::Mixed, 300, 6_000);
    }
}

#[test]
fn encodings_follow_the_thresholds_and_stay() {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let long = [b'x'; 65];
    let of = |members: &[&[u8]]| {
        let mut set = Set::new();
        members.iter().for_each(|member| assert!(set.add(alloc, member, LIMITS)));
        set
    };
    assert_eq!(of(&[b"1", b"-2"]).encoding_name(), "intset");
    assert_eq!(of(&[b"1", b"01"]).encoding_name(), "listpack");
    assert_eq!(of(&[b"1", &long]).encoding_name(), "hashtable");
    for (name, limit) in [("intset", LIMITS.intset_len_max), ("listpack", LIMITS.listpack_len_max)] {
        let prefix = if name == "intset" { "" } else { "m" };
        let mut set = Set::suiting(prefix.as_bytes(), 1, LIMITS);
        if name == "intset" {
            set = Set::new();
        }
        for number in 0..limit {
            set.add(alloc, format!("{prefix}{number}").as_bytes(), LIMITS);
        }
        assert_eq!((set.encoding_name(), all(&set.to_copy(&heap)) == all(&set)), (name, true));
        set.add(alloc, format!("{prefix}{limit}").as_bytes(), LIMITS);
        assert_eq!(set.encoding_name(), "hashtable");
        (0..limit).for_each(|number| assert!(set.remove(alloc, format!("{prefix}{number}").as_bytes())));
        assert_eq!((set.encoding_name(), set.len()), ("hashtable", 1));
    }
    let mut set = of(&[b"b", b"a"]);
    set.become_intset_if_all(alloc, LIMITS);
    assert_eq!(set.encoding_name(), "listpack");
    let mut set = Set::new_hashtable();
    [b"7", b"3"].iter().for_each(|member| assert!(set.add(alloc, *member, LIMITS)));
    set.become_intset_if_all(alloc, LIMITS);
    assert_eq!((set.encoding_name(), set.iter().map(text).next()), ("intset", Some(b"3".to_vec())));
}

/// A member that exists during a whole walk is visited exactly once, while other members are added and
/// removed.
#[test]
fn a_scan_visits_permanent_members_exactly_once() {
    for seed in 0..if cfg!(miri) { 2 } else { 30 } {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([seed, 2, 3, 4]));
        let alloc = AllocContext { heap: &heap, hasher: &hasher };
        let mut random = Random(seed);
        let mut set = Set::new_hashtable();
        let stable_count = 20 + random.below(if cfg!(miri) { 10 } else { 2_000 });
        let stable = |number: usize| format!("stays:{number}{}", "y".repeat(number % 5 * 80)).into_bytes();
        (0..stable_count).for_each(|number| assert!(set.add(alloc, &stable(number), LIMITS)));
        let mut visits: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut from, mut passing) = (Some(0), 0);
        let grows = seed.is_multiple_of(2);
        if !grows {
            (0..stable_count * 4).for_each(|number| {
                set.add(alloc, format!("goes:{number}").as_bytes(), LIMITS);
            });
        }
        while let Some(position) = from {
            from = set.scan(alloc, position, |item| *visits.entry(text(item)).or_default() += 1);
            for _ in 0..random.below(if cfg!(miri) { 10 } else { 100 }) {
                let member = format!("goes:{passing}");
                passing += 1;
                if grows {
                    set.add(alloc, member.as_bytes(), LIMITS);
                } else {
                    set.remove(alloc, member.as_bytes());
                }
            }
        }
        for number in 0..stable_count {
            assert_eq!(visits.get(&stable(number)), Some(&1), "seed {seed}, member {number}");
        }
        assert_eq!(set.check(alloc), Ok(()));
    }
}

/// Members are drawn uniformly, in any state of the set's growth: chi-square over all members.
#[test]
#[cfg(not(miri))]
fn random_members_are_drawn_fairly() {
    for (len, removed) in
        [(7, 0), (48, 0), (50, 0), (300, 0), (1_000, 0), (1_400, 0), (2_000, 1_900), (700, 200)]
    {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([len as u64, 2, 3, 4]));
        let alloc = AllocContext { heap: &heap, hasher: &hasher };
        let mut set = Set::new_hashtable();
        for number in 0..len {
            // One in 64 is overlong.
            let member =
                format!("{number}:{}", if number % 64 == 5 { "z".repeat(300) } else { String::new() });
            set.add(alloc, member.as_bytes(), LIMITS);
        }
        let members: Vec<_> = set.iter().map(text).collect();
        members.iter().take(removed).for_each(|member| assert!(set.remove(alloc, member)));
        let mut random = Random(len as u64);
        let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let (degrees, draws_each) = (set.len() - 1, 200);
        for _ in 0..draws_each * set.len() {
            *counts.entry(text(set.sample(&mut || random.bits()).item)).or_default() += 1;
        }
        let expected = draws_each as f64;
        let drawn: f64 = counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
        let chi_square = drawn + expected * (set.len() - counts.len()) as f64;
        // Within six standard deviations of a uniform distribution.
        let bound = degrees as f64 + 6.0 * (2.0 * degrees as f64).sqrt();
        assert!(chi_square < bound, "{len} members: {chi_square} is above {bound}");
    }
}

#[test]
fn space_reserved_for_equal_members_is_given_back() {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let count = if cfg!(miri) { 12 } else { 128 };
    for member in [[b'x'; 100].as_slice(), b"1234567890123456789"] {
        let mut set = Set::suiting(member, count, LIMITS);
        set.reserve(alloc, std::iter::repeat_n(member, count));
        (0..count).for_each(|_| _ = set.add(alloc, member, LIMITS));
        set.shrink_if_roomy(alloc);
        assert_eq!(set.check(alloc), Ok(()));
        assert!(set.contains(alloc, member) && set.memory_bytes() < 140, "{} bytes", set.memory_bytes());
    }
}
