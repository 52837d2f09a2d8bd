//! Random operations on a sorted set, each compared with a map and a sorted list, with the invariants checked on the way.

mod random;

use std::collections::BTreeMap;

use collections::{AllocContext, Bound, Collection, Heap, KeyHasher, Object, SortedSet, SortedSetLimits};
use random::Random;

const LIMITS: SortedSetLimits =
    SortedSetLimits { entry_count_max: if cfg!(miri) { 12 } else { 128 }, value_size_max: 64 };

/// A member and its score.
type Element<'a> = (&'a [u8], f64);

/// How scores are chosen.
#[derive(Clone, Copy, Debug)]
enum Scores {
    AllEqual,
    Few,
    Rising,
    Falling,
    AnyBits,
    Crowded,
}

struct Driver {
    heap: Heap,
    hasher: KeyHasher,
    set: SortedSet,
    model: BTreeMap<Vec<u8>, f64>,
    random: Random,
    scores: Scores,
    member_count: usize,
    step: usize,
}

impl Driver {
    fn new(seed: u64, scores: Scores, member_count: usize) -> Self {
        Self {
            heap: Heap::new(),
            hasher: KeyHasher::new([1, 2, 3, 4]),
            set: SortedSet::new(),
            model: BTreeMap::new(),
            random: Random(seed),
            scores,
            member_count,
            step: 0,
        }
    }

    fn score(&mut self) -> f64 {
        match self.scores {
            Scores::AllEqual => [0.0, -0.0][self.random.below(2)],
            Scores::Few => self.random.below(5) as f64 - 2.0,
            Scores::Rising => self.step as f64,
            Scores::Falling => -(self.step as f64) / 3.0,
            Scores::AnyBits => loop {
                let score = f64::from_bits(self.random.bits());
                if !score.is_nan() {
                    return score;
                }
            },
            Scores::Crowded => match self.random.below(20) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => 1e300,
                _ => 1.0 + self.random.below(50) as f64 * f64::EPSILON,
            },
        }
    }

    fn member(&mut self) -> Vec<u8> {
        let number = self.random.below(self.member_count);
        let mut member = format!("{}", number.wrapping_mul(7919)).into_bytes();
        match number % 50 {
            0 => member.resize(200, b'x'),
            1 => member.insert(0, 0xFF),
            2 => member.extend_from_slice(&[0; 20]),
            3 if number == 3 => member.clear(),
            _ => {}
        }
        member
    }

    /// The model's elements in order.
    fn sorted(&self) -> Vec<Element<'_>> {
        let mut sorted: Vec<_> = self.model.iter().map(|(member, score)| (&member[..], *score)).collect();
        sorted.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(b.0)));
        sorted
    }

    fn step(&mut self, removal_percent: usize) {
        self.step += 1;
        let member = self.member();
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        if self.random.below(100) < removal_percent {
            assert_eq!(self.set.remove(alloc, &member), self.model.remove(&member));
            return;
        }
        let score = self.score();
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        if self.random.below(10) == 0 {
            let untouched = self.set.update(alloc, LIMITS, &member, |_| None);
            assert_eq!((untouched.old, untouched.new), (self.model.get(&member).copied(), None));
            return;
        }
        let old = self.set.insert(alloc, LIMITS, &member, score);
        assert_eq!(old, self.model.insert(member, score));
    }

    fn compare(&mut self) {
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        self.set.check(alloc).unwrap_or_else(|fault| panic!("{fault} after {} steps", self.step));
        let sorted = self.sorted();
        assert_eq!(self.set.len(), sorted.len());
        assert!(self.set.iter().eq(sorted.iter().copied()), "order after {} steps", self.step);
        for (rank, (member, score)) in sorted.iter().enumerate() {
            assert_eq!(self.set.rank(alloc, member), Some((rank, *score)));
            assert_eq!(self.set.score(alloc, member), Some(*score));
        }
        let mut seen = Vec::new();
        let mut position = Some(0);
        while let Some(from) = position {
            position = self.set.scan(from, |member, score| seen.push((member.to_vec(), score)));
        }
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        assert!(self.model.iter().eq(seen.iter().map(|(member, score)| (member, score))));
        let mut filled = SortedSet::new();
        filled.fill_in_order(alloc, LIMITS, sorted.iter().copied());
        filled.check(alloc).unwrap_or_else(|fault| panic!("filled in order: {fault}"));
        assert!(filled.iter().eq(sorted.iter().copied()));
        // The following operations use that set.
        if self.random.below(2) == 0 {
            self.set = filled;
        }
    }

    fn compare_ranges(&mut self) {
        let member = self.member();
        let score = self.score();
        let (a, b) = (self.random.bits() as usize, self.random.bits() as usize);
        let sorted = self.sorted();
        let count = |is_before: &dyn Fn(&Element<'_>) -> bool| sorted.iter().filter(|e| is_before(e)).count();
        assert_eq!(self.set.rank_of(Bound::BeforeScore(score)), count(&|e| e.1 < score));
        assert_eq!(self.set.rank_of(Bound::AfterScore(score)), count(&|e| e.1 <= score));
        if matches!(self.scores, Scores::AllEqual) {
            assert_eq!(self.set.rank_of(Bound::BeforeMember(&member)), count(&|e| e.0 < &member[..]));
            assert_eq!(self.set.rank_of(Bound::AfterMember(&member)), count(&|e| e.0 <= &member[..]));
        }
        if sorted.is_empty() {
            assert_eq!(self.set.range(0, 5).count(), 0);
            return;
        }
        let (start, count) = (a % sorted.len(), b % 200);
        let end = (start + count).min(sorted.len());
        assert!(self.set.range(start, count).eq(sorted[start..end].iter().copied()));
        let low = (start + 1).saturating_sub(count);
        assert!(self.set.range_backward(start, count).eq(sorted[low..=start].iter().rev().copied()));
        assert_eq!(self.set.at(start), sorted[start]);
    }

    fn remove_ranks(&mut self) {
        let len = self.set.len();
        if len == 0 {
            return;
        }
        let start = self.random.below(len);
        let count = self.random.below(len - start + 1);
        let gone: Vec<_> = self.set.range(start, count).map(|(member, _)| member.to_vec()).collect();
        let alloc = AllocContext { heap: &self.heap, hasher: &self.hasher };
        self.set.remove_ranks(alloc, start, count);
        gone.iter().for_each(|member| assert!(self.model.remove(member).is_some()));
    }
}

fn run(scores: Scores, member_count: usize, step_count: usize) {
    let mut driver = Driver::new(member_count as u64, scores, member_count);
    let (round, comparison_count) = if cfg!(miri) { (30, 3) } else { (step_count / 20, 10) };
    for step in 0..step_count {
        // The set grows and shrinks in turns.
        driver.step(if (step / (step_count / 4)).is_multiple_of(2) { 10 } else { 80 });
        if step % (round / comparison_count).max(1) == 0 {
            driver.compare_ranges();
        }
        if step % round == 0 {
            driver.compare();
        }
    }
    driver.compare();
    driver.remove_ranks();
    driver.compare();
    let mut copy = Driver::new(7, scores, member_count);
    let Object::SortedSet(set) = driver.set.into_object().to_copy(&copy.heap) else {
        panic!("a copy has the same type")
    };
    (copy.set, copy.model) = (set, driver.model);
    copy.compare();
    while !copy.set.is_empty() {
        copy.remove_ranks();
        copy.compare();
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    let scores =
        [Scores::AllEqual, Scores::Few, Scores::Rising, Scores::Falling, Scores::AnyBits, Scores::Crowded];
    for scores in scores {
        if cfg!(miri) {
            run(scores, 50, 60);
            run(scores, 7, 40);
            continue;
        }
        run(scores, 12, 2_000);
        run(scores, 100, 4_000);
        run(scores, 3_000, 30_000);
    }
}

#[test]
fn a_small_set_keeps_its_order() {
    run(Scores::Few, 10, 20);
}

#[test]
fn a_large_set_keeps_its_order() {
    let scale = if cfg!(miri) { 2_000 } else { 1 };
    let mut driver = Driver::new(1, Scores::AnyBits, 100_000);
    for _ in 0..200_000 / scale {
        driver.step(5);
    }
    driver.compare();
    for scores in [Scores::Rising, Scores::Falling] {
        driver.scores = scores;
        for _ in 0..50_000 / scale {
            driver.step(30);
        }
        driver.compare_ranges();
    }
    driver.compare();
    for _ in 0..100 / scale.min(30) {
        driver.remove_ranks();
        driver.compare_ranges();
    }
    driver.compare();
}

#[test]
fn the_encoding_follows_the_thresholds_and_never_reverts() {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let mut set = SortedSet::new();
    let limit = LIMITS.entry_count_max;
    for number in 0..limit {
        set.insert(alloc, LIMITS, number.to_string().as_bytes(), 1.0);
        assert_eq!(set.encoding_name(), "listpack");
    }
    set.insert(alloc, LIMITS, b"0", 2.0);
    assert_eq!(set.encoding_name(), "listpack");
    set.insert(alloc, LIMITS, b"one more", 1.0);
    assert_eq!(set.encoding_name(), "skiplist");
    set.remove_ranks(alloc, 1, limit);
    assert_eq!((set.encoding_name(), set.len()), ("skiplist", 1));

    let mut set = SortedSet::new();
    set.insert(alloc, LIMITS, &[b'x'; 64], 1.0);
    assert_eq!(set.encoding_name(), "listpack");
    set.insert(alloc, LIMITS, &[b'x'; 65], 1.0);
    assert_eq!(set.encoding_name(), "skiplist");

    let high =
        SortedSetLimits { entry_count_max: if cfg!(miri) { 30 } else { 1_000 }, value_size_max: 10_000 };
    let mut set = SortedSet::new();
    for number in 0..high.entry_count_max {
        set.insert(alloc, high, number.to_string().as_bytes(), 1.0);
    }
    set.remove(alloc, b"7");
    set.insert(alloc, high, &[b'x'; 10_000], 1.0);
    assert_eq!(set.encoding_name(), "listpack");
    set.insert(alloc, high, b"7", 1.0);
    assert_eq!(set.encoding_name(), "skiplist");
    assert_eq!(SortedSet::new_skiplist().encoding_name(), "skiplist");
    assert_eq!(set.check(alloc), Ok(()));
}

#[test]
fn space_reserved_for_equal_members_is_given_back() {
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let long: Vec<Vec<u8>> = (0..18).map(|number| vec![number; 120]).collect();
    // With few bytes they are brief from the start, with more they become brief, and many remain small.
    for (distinct_count, count, member_size) in [(1, 6, 60), (2, 18, 120), (18, 54, 120)] {
        let elements = (0..count).map(|index| (&long[index % distinct_count][..member_size], 1.5));
        let mut set = SortedSet::new();
        set.reserve(alloc, elements.clone());
        for (member, score) in elements.clone() {
            set.insert(alloc, LIMITS, member, score);
        }
        set.shrink_if_roomy(alloc);
        assert_eq!(set.check(alloc), Ok(()));
        assert!(set.iter().eq(elements.take(distinct_count)));
        let (used, size) = (distinct_count * (member_size + 12), Object::SortedSet(set).memory_bytes());
        assert!(size <= 2 * used + 128, "{size} bytes for {used}");
    }
}
