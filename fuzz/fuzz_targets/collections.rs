//! A packed sequence behaves like a vector of vectors and keeps its order under any sequence of changes.
//!
//! The input is a byte that selects the kind of sequence, and a list of changes: a byte for the operation,
//! one for the position, one for the length of the text, and the text. Numeric texts are stored as integers,
//! so the fuzzer should find digits.

#![no_main]

use collections::{DecimalBuffer, Item, Packed};
use libfuzzer_sys::fuzz_target;

/// Keeps a run short: each change is followed by a comparison of everything.
const CHANGE_COUNT_MAX: usize = 200;

fuzz_target!(|data: &[u8]| match data.split_first() {
    Some((0..85, changes)) => play::<1, false>(changes),
    Some((85..170, changes)) => play::<1, true>(changes),
    Some((_, changes)) => play::<2, true>(changes),
    None => {}
});

type Model<const N: usize> = Vec<[Vec<u8>; N]>;

fn play<const N: usize, const FIND: bool>(changes: &[u8]) {
    let mut packed = Packed::<N, FIND>::default();
    let mut model: Model<N> = Vec::new();
    let mut rest = changes;
    for _ in 0..CHANGE_COUNT_MAX {
        let [change, place, len, texts @ ..] = rest else { break };
        let (texts, after) = texts.split_at(texts.len().min(*len as usize));
        rest = after;
        change_both(*change, *place as usize, texts, &mut packed, &mut model);
        packed.check().expect("the invariants hold");
        assert_eq!(packed.len(), model.len());
        let groups: Model<N> = packed.iter().map(|group| group.map(text)).collect();
        assert_eq!(groups, model);
        let wanted = &texts[..texts.len() / N];
        let found = model.iter().position(|group| group[0] == wanted);
        assert_eq!(packed.find(wanted, 0), found);
    }
}

fn change_both<const N: usize, const FIND: bool>(
    change: u8,
    place: usize,
    texts: &[u8],
    packed: &mut Packed<N, FIND>,
    model: &mut Model<N>,
) {
    let part_len = texts.len() / N;
    let parts: [&[u8]; N] = std::array::from_fn(|part| &texts[part * part_len..][..part_len]);
    let group = parts.map(<[u8]>::to_vec);
    let index = place % (model.len() + 1);
    let existing = place % model.len().max(1);
    match change % 10 {
        0 | 1 if packed.fits(texts.len()) => {
            packed.insert(index, parts);
            model.insert(index, group);
        }
        2 if packed.fits(texts.len()) => {
            packed.push_front(parts);
            model.insert(0, group);
        }
        3 if packed.fits(texts.len()) => {
            packed.push_back(parts);
            model.push(group);
        }
        4 if !model.is_empty() && packed.fits(texts.len()) => {
            packed.replace(existing, place % N, parts[0]);
            model[existing][place % N] = parts[0].to_vec();
        }
        5 if !model.is_empty() => {
            packed.remove(existing);
            model.remove(existing);
        }
        6 => {
            let tail = packed.split_off(index);
            assert_eq!(tail.len(), model.len() - index);
            packed.append(&tail);
        }
        7 => {
            let count = (model.len() - index).min(3);
            packed.remove_range(index, count);
            model.drain(index..index + count);
            packed.shrink();
        }
        8 if !model.is_empty() => {
            packed.take(0, |group| assert_eq!(group.map(text), model[0]));
            model.remove(0);
        }
        9 => packed.reserve(place, 8 * place),
        _ => {}
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}
