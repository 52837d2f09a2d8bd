//! A stream of many nodes behaves like a sorted map under any sequence of appends, deletions and trims.
//!
//! The input is the node size and a list of changes: a byte for the operation, one for the id and one for the
//! entry.

#![no_main]

use std::collections::BTreeMap;

use collections::stream::{NodeLimits, Stream, StreamId, TrimTo};
use libfuzzer_sys::fuzz_target;

/// Number of changes between two full comparisons.
const COMPARISON_DISTANCE: usize = 64;
const CHANGE_COUNT_MAX: usize = 2_000;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Model = BTreeMap<StreamId, Pairs>;

fuzz_target!(|data: &[u8]| {
    let Some((size, changes)) = data.split_first() else { return };
    let limits = NodeLimits { entry_count_max: u32::from(*size % 16), size_max: usize::from(*size >> 4) * 64 };
    let (mut stream, mut model) = (Stream::new(), Model::new());
    let mut last = StreamId::MIN;
    for (step, change) in changes.as_chunks::<3>().0.iter().take(CHANGE_COUNT_MAX).enumerate() {
        let [kind, place, text] = *change;
        // An existing id, or one next to it.
        let near = model.keys().nth(usize::from(place) * model.len() / 256).copied().unwrap_or(StreamId::MIN);
        match kind % 8 {
            0..4 => {
                let id = match kind >> 6 {
                    0 => StreamId::new(last.ms + 1 + u64::from(place), u64::from(text)),
                    _ => last.next().expect("far from the largest"),
                };
                let pairs = pairs(place, text);
                let fields = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
                assert_eq!(stream.append(id, fields, limits), Ok(()));
                model.insert(id, pairs);
                last = id;
            }
            4..7 => {
                let id = if text < 200 { near } else { StreamId::new(near.ms, near.seq ^ 1) };
                assert_eq!(stream.delete(id), model.remove(&id).is_some());
            }
            _ => {
                let to = if text < 128 {
                    TrimTo::Len(model.len().saturating_sub(usize::from(text)) as u64)
                } else {
                    TrimTo::Id(near)
                };
                let is_whole = kind >> 7 == 1;
                let due = match to {
                    TrimTo::Len(len) => model.len() - len as usize,
                    TrimTo::Id(id) => model.range(..id).count(),
                };
                let deleted = stream.trim(to, is_whole, 0) as usize;
                assert!(if is_whole { deleted <= due } else { deleted == due });
                (0..deleted).for_each(|_| drop(model.pop_first()));
            }
        }
        if step % COMPARISON_DISTANCE == 0 {
            compare(&stream, &model);
        }
    }
    compare(&stream, &model);
});

/// Returns up to four pairs, often with the names of the previous entry.
fn pairs(place: u8, text: u8) -> Pairs {
    let count = 1 + usize::from(place % 4);
    (0..count).map(|index| (vec![b'f', b'0' + index as u8 + (text & 1)], vec![text; usize::from(text)])).collect()
}

fn compare(stream: &Stream, model: &Model) {
    stream.check();
    assert_eq!(stream.len(), model.len() as u64);
    assert_eq!(stream.last_entry_id(), model.last_key_value().map(|(id, _)| *id));
    let owned = |entry: collections::stream::StreamEntry<'_>| {
        let pairs: Pairs = entry.pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        (entry.id, pairs)
    };
    let expected = model.iter().map(|(id, pairs)| (*id, pairs.clone()));
    assert!(stream.range(StreamId::MIN, StreamId::MAX).map(owned).eq(expected.clone()));
    assert!(stream.range_down(StreamId::MIN, StreamId::MAX).map(owned).eq(expected.rev()));
}
