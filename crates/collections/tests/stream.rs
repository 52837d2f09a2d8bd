//! Random operations on a stream, each compared with a sorted map, with the invariants checked on the way.

mod random;

use std::collections::BTreeMap;

use collections::stream::{AppendError, Delivery, Group, NodeLimits, Stream, StreamEntry, StreamId, TrimTo};
use random::Random;

/// Changes for each seed; fewer under Miri.
const STEP_COUNT: usize = if cfg!(miri) { 64 } else { 3_000 };

/// Changes between two comparisons.
const COMPARISON_DISTANCE: usize = if cfg!(miri) { 8 } else { 1 };

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(random: &mut Random) -> Pairs {
    let count = if random.below(3) == 0 { 1 + random.below(4) } else { 2 };
    (0..count)
        .map(|index| {
            let name =
                if random.below(5) == 0 { format!("other{}", random.below(9)) } else { format!("f{index}") };
            (name.into_bytes(), vec![b'v'; random.below(200)])
        })
        .collect()
}

/// An id near those up to `last`.
fn random_id(random: &mut Random, last: StreamId) -> StreamId {
    StreamId::new(random.below(last.ms as usize + 2) as u64, random.below(4) as u64)
}

fn append(stream: &mut Stream, id: StreamId, pairs: &Pairs, limits: NodeLimits) -> Result<(), AppendError> {
    stream.append(id, pairs.iter().map(|(name, value)| (&name[..], &value[..])), limits)
}

fn owned(entry: StreamEntry<'_>) -> (StreamId, Pairs) {
    let pairs: Pairs = entry.pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!(pairs.len(), entry.pair_count());
    (entry.id, pairs)
}

fn between(model: &BTreeMap<StreamId, Pairs>, start: StreamId, end: StreamId) -> Vec<(StreamId, Pairs)> {
    if start > end {
        return Vec::new();
    }
    model.range(start..=end).map(|(id, pairs)| (*id, pairs.clone())).collect()
}

fn drive(seed: u64, limits: NodeLimits) {
    let mut random = Random(seed);
    let mut stream = Stream::new();
    let mut model = BTreeMap::new();
    let mut last = StreamId::MIN;
    for step in 0..STEP_COUNT {
        match random.below(10) {
            0..6 => {
                let id = match random.below(3) {
                    0 => StreamId::new(last.ms + 1 + random.below(3) as u64, random.below(3) as u64),
                    _ => last.next().expect("far from the largest"),
                };
                let pairs = pairs(&mut random);
                assert_eq!(append(&mut stream, id, &pairs, limits), Ok(()));
                assert_eq!(append(&mut stream, id, &pairs, limits), Err(AppendError::NotAboveLast));
                model.insert(id, pairs);
                last = id;
            }
            6 if random.below(4) == 0 => trim_some(&mut random, &mut stream, &mut model),
            6..9 => {
                let id = random_id(&mut random, last);
                assert_eq!(stream.delete(id), model.remove(&id).is_some(), "{seed} {step}");
            }
            _ => {
                let to = if random.below(2) == 0 {
                    TrimTo::Len((model.len() - random.below(20).min(model.len())) as u64)
                } else {
                    let nth = random.below(20);
                    TrimTo::Id(model.keys().nth(nth).copied().unwrap_or(StreamId::MIN))
                };
                let whole = random.below(2) == 0;
                let before = model.len();
                let deleted = stream.trim(to, whole, 0) as usize;
                let mut expected = model.clone();
                match to {
                    TrimTo::Len(len) => {
                        while expected.len() as u64 > len {
                            expected.pop_first();
                        }
                    }
                    TrimTo::Id(id) => expected.retain(|own, _| *own >= id),
                }
                assert!(if whole {
                    deleted <= before - expected.len()
                } else {
                    deleted == before - expected.len()
                });
                (0..deleted).for_each(|_| drop(model.pop_first()));
            }
        }
        assert_eq!(stream.len(), model.len() as u64);
        if !step.is_multiple_of(COMPARISON_DISTANCE) {
            continue;
        }
        stream.check();
        let first = model.first_key_value().map_or(StreamId::MIN, |(id, _)| *id);
        assert_eq!(stream.first_id(), first, "{seed} {step}");
        assert_eq!(stream.last_entry_id(), model.last_key_value().map(|(id, _)| *id));
        if step % 16 == 0 {
            let [one, other] = [0, 1].map(|_| random_id(&mut random, last));
            let expected = between(&model, one, other);
            assert_eq!(stream.range(one, other).map(owned).collect::<Vec<_>>(), expected);
            let mut down: Vec<_> = stream.range_down(one, other).map(owned).collect();
            down.reverse();
            assert_eq!(down, expected);
            assert_eq!(stream.find(one).map(owned), model.get(&one).map(|pairs| (one, pairs.clone())));
        }
    }
    assert!(stream.memory_bytes() >= stream.len() as usize);
}

/// Trims with every third id refused: the others are deleted in order until enough are.
fn trim_some(random: &mut Random, stream: &mut Stream, model: &mut BTreeMap<StreamId, Pairs>) {
    let may_go = |_: &Stream, id: StreamId| !(id.ms + id.seq).is_multiple_of(3);
    let len_max = random.below(model.len() + 1);
    let mut expected: Vec<_> = model.keys().copied().filter(|id| may_go(stream, *id)).collect();
    let to = if random.below(2) == 0 {
        expected.truncate(model.len() - len_max);
        TrimTo::Len(len_max as u64)
    } else {
        let min = random_id(random, stream.last_id);
        expected.retain(|id| *id < min);
        TrimTo::Id(min)
    };
    let deleted = stream.trim_some(to, 0, may_go).deleted;
    assert_eq!(expected, deleted);
    deleted.iter().for_each(|id| drop(model.remove(id)));
}

#[test]
fn a_stream_behaves_like_a_sorted_map() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        drive(seed, NodeLimits { entry_count_max: 100, size_max: 4096 });
        drive(seed, NodeLimits { entry_count_max: 3, size_max: 0 });
        drive(seed, NodeLimits { entry_count_max: 0, size_max: 0 });
    }
}

#[test]
fn ids_that_span_the_whole_range_are_kept() {
    let mut stream = Stream::new();
    let limits = NodeLimits { entry_count_max: 0, size_max: 0 };
    let ids = [
        StreamId::new(0, 1),
        StreamId::new(0, u64::MAX),
        StreamId::new(1, 0),
        StreamId::new(u64::MAX, u64::MAX - 1),
        StreamId::MAX,
    ];
    for id in ids {
        assert_eq!(append(&mut stream, id, &vec![(b"f".to_vec(), b"v".to_vec())], limits), Ok(()));
    }
    assert_eq!(stream.range(StreamId::MIN, StreamId::MAX).map(|entry| entry.id).collect::<Vec<_>>(), ids);
    assert_eq!(stream.last_entry_id(), Some(StreamId::MAX));
}

#[test]
fn many_deletions_within_a_node_free_memory() {
    let mut stream = Stream::new();
    let limits = NodeLimits { entry_count_max: 0, size_max: 0 };
    let count = if cfg!(miri) { 60 } else { 1_000 };
    for seq in 1..=count {
        assert_eq!(
            append(&mut stream, StreamId::new(1, seq), &vec![(b"f".to_vec(), vec![b'x'; 100])], limits),
            Ok(())
        );
    }
    let full = stream.memory_bytes();
    for seq in 2..count {
        assert!(stream.delete(StreamId::new(1, seq)));
    }
    stream.check();
    assert!(stream.memory_bytes() < full / 10, "{} of {full}", stream.memory_bytes());
    assert_eq!(stream.max_deleted_id, StreamId::new(1, count - 1));
}

#[test]
fn consumers_are_added_and_removed() {
    let mut random = Random(11);
    let mut group = Group::new(StreamId::MIN, None);
    let mut model: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    for step in 0..STEP_COUNT as i64 {
        let name = format!("c{}", random.below(60)).into_bytes();
        if random.below(5) < 2 {
            assert_eq!(group.remove_consumer(&name), model.remove(&name).map(|_| 0));
        } else if let Some(added_at) = model.get(&name) {
            let index = group.find_consumer(&name).expect("it was added");
            assert_eq!(group.consumer(index).seen_at, *added_at);
        } else {
            group.add_consumer(&name, step);
            model.insert(name, step);
        }
        group.check();
        assert_eq!(group.consumer_count(), model.len());
        let names = group.consumers().map(|(_, consumer)| (consumer.name.to_vec(), consumer.seen_at));
        assert!(names.eq(model.iter().map(|(name, added_at)| (name.clone(), *added_at))));
    }
}

#[test]
fn deliveries_move_between_consumers() {
    let mut group = Group::new(StreamId::MIN, None);
    let (one, other) = (group.add_consumer(b"one", 1), group.add_consumer(b"other", 1));
    let mut random = Random(7);
    let mut model: BTreeMap<StreamId, bool> = BTreeMap::new();
    for step in 0..STEP_COUNT as i64 {
        let id = StreamId::new(1, random.below(50) as u64);
        match random.below(3) {
            0 => assert_eq!(group.acknowledge(id), model.remove(&id).is_some()),
            choice => {
                let consumer = if choice == 1 { one } else { other };
                group.deliver(id, Delivery { consumer, at: step, count: 1 });
                model.insert(id, choice == 1);
            }
        }
        assert_eq!(group.pending_count(), model.len());
        if !(step as usize).is_multiple_of(COMPARISON_DISTANCE) {
            continue;
        }
        group.check();
        let of_one: Vec<StreamId> = model.iter().filter(|(_, is_one)| **is_one).map(|(id, _)| *id).collect();
        let pending = group.pending_of(one, StreamId::MIN).map(|(id, _)| id);
        assert_eq!(pending.collect::<Vec<_>>(), of_one);
    }
    let of_one = model.values().filter(|is_one| **is_one).count();
    assert_eq!(group.remove_consumer(b"one"), Some(of_one));
    assert_eq!(group.remove_consumer(b"one"), None);
    group.check();
    assert_eq!(group.pending_count(), model.len() - of_one);
    let third = group.add_consumer(b"third", 2);
    assert_eq!(group.consumer(third).pending_count(), 0);
    assert_eq!(
        group.consumers().map(|(_, consumer)| &*consumer.name).collect::<Vec<_>>(),
        [&b"other"[..], b"third"]
    );
}

/// Makes the pairs of an entry from its number.
type MakePairs = fn(u64) -> Pairs;

fn words<const N: usize>(words: [String; N]) -> Pairs {
    words.as_chunks().0.iter().map(|[name, value]| (name.clone().into(), value.clone().into())).collect()
}

#[test]
fn nodes_have_the_boundaries_of_redis() {
    // Number of entries, what they are, and as measured in Valkey 9.1 and Redis 8.6: the number of nodes, and of entries that
    // `XTRIM MAXLEN ~ 5` deletes.
    let cases: &[(u64, MakePairs, usize, u64)] = &[
        (60, |_| words(["f".into(), "v".repeat(70)]), 2, 48),
        (60, |_| words(["field".into(), "x".repeat(500)]), 9, 49),
        (300, |n| words(["n".into(), (n * 1_000_003).to_string()]), 3, 200),
        (
            200,
            |n| words([format!("f{}", n % 7), "v".repeat(n as usize % 90), "g".into(), n.to_string()]),
            4,
            179,
        ),
        (10, |_| words(["f".into(), "x".repeat(5000)]), 10, 5),
        (150, |n| words(["a".into(), format!("-{n}"), "b".into(), "y".repeat(30)]), 2, 88),
    ];
    for (case, (count, pairs_of, node_count, trimmed)) in cases.iter().enumerate() {
        let mut stream = Stream::new();
        for number in 0..*count {
            let pairs = pairs_of(number);
            let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
            let id = StreamId::new(1000 + number / 3 * 70_000, number % 3 + 1);
            let limits = NodeLimits { entry_count_max: 100, size_max: 4096 };
            stream.append(id, pairs, limits).unwrap();
        }
        assert_eq!(stream.node_count(), *node_count, "case {case}");
        assert_eq!(stream.trim(TrimTo::Len(5), true, 10_000), *trimmed, "case {case}");
    }
}
