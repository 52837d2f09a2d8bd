//! Whatever is done to a packed sequence, it stays in order and does what a vector of vectors does.
//!
//! The input is a list of changes: a byte that chooses one, a byte for the place, a byte for the length of the text,
//! and the text. Texts of digits are kept as integers inside, so digits are what the fuzzer should come upon.

#![no_main]

use collections::{DecimalBuffer, Item, Packed};
use libfuzzer_sys::fuzz_target;

/// So that a run stays short: each change is followed by a comparison of everything.
const CHANGE_COUNT_MAX: usize = 200;

fuzz_target!(|data: &[u8]| {
    let mut packed = Packed::<2>::default();
    let mut model: Vec<[Vec<u8>; 2]> = Vec::new();
    let mut rest = data;
    for _ in 0..CHANGE_COUNT_MAX {
        let [change, place, len, texts @ ..] = rest else { break };
        let (texts, after) = texts.split_at(texts.len().min(*len as usize));
        rest = after;
        change_both(*change, *place as usize, texts, &mut packed, &mut model);
        packed.check().expect("the invariants hold");
        assert_eq!(packed.len(), model.len());
        let groups: Vec<[Vec<u8>; 2]> = packed.iter().map(|group| group.map(text)).collect();
        assert_eq!(groups, model);
        let wanted = &texts[..texts.len() / 2];
        let found = model.iter().position(|group| group[0] == wanted);
        assert_eq!(packed.find(wanted, 0), found);
    }
});

fn change_both(
    change: u8,
    place: usize,
    texts: &[u8],
    packed: &mut Packed<2>,
    model: &mut Vec<[Vec<u8>; 2]>,
) {
    let (first, second) = texts.split_at(texts.len() / 2);
    let group = [first.to_vec(), second.to_vec()];
    let index = place % (model.len() + 1);
    let existing = place % model.len().max(1);
    match change % 8 {
        0 | 1 if packed.fits(texts.len()) => {
            packed.insert(index, [first, second]);
            model.insert(index, group);
        }
        2 if packed.fits(texts.len()) => {
            packed.push_front([first, second]);
            model.insert(0, group);
        }
        3 if packed.fits(texts.len()) => {
            packed.push_back([first, second]);
            model.push(group);
        }
        4 if !model.is_empty() && packed.fits(texts.len()) => {
            packed.replace(existing, place % 2, first);
            model[existing][place % 2] = first.to_vec();
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
        _ => {}
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}
