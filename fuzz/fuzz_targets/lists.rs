//! A list of many nodes behaves like a standard deque under any sequence of pushes, inserts, sets and
//! removals.
//!
//! The input is a list of changes: a byte for the operation, one for the position and one for the element.

#![no_main]

use std::collections::VecDeque;

use collections::{Collection, DecimalBuffer, End, Heap, List, ListLimits};
use libfuzzer_sys::fuzz_target;

/// Number of changes between two full comparisons.
const COMPARISON_DISTANCE: usize = 64;
const CHANGE_COUNT_MAX: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let Some((fill, changes)) = data.split_first() else { return };
    let limits = ListLimits::of_directive(i64::from(*fill as i8));
    let heap = Heap::new();
    let mut list = List::new();
    let mut model: VecDeque<Vec<u8>> = VecDeque::new();
    for (step, change) in changes.as_chunks::<3>().0.iter().take(CHANGE_COUNT_MAX).enumerate() {
        change_both(*change, limits, &heap, &mut list, &mut model);
        if step % COMPARISON_DISTANCE == 0 {
            compare(&list, &model);
        }
    }
    compare(&list, &model);
});

fn change_both(
    change: [u8; 3],
    limits: ListLimits,
    heap: &Heap,
    list: &mut List,
    model: &mut VecDeque<Vec<u8>>,
) {
    let [kind, place, text] = change;
    let len = model.len();
    let index = usize::from(place) * len / 256;
    let element = match text {
        0..100 => (i64::from(text) << (place % 56)).to_string().into_bytes(),
        100..250 => vec![b'a'; usize::from(text)],
        _ => vec![b'b'; usize::from(text) * 40],
    };
    match kind % 12 {
        0 if len > 0 => {
            let count = (1 + usize::from(text)).min(len - index);
            list.remove_range(index, count);
            list.shrunk(limits);
            model.drain(index..index + count);
        }
        1 | 2 => {
            list.insert(index, &element);
            list.rebalance(limits);
            model.insert(index, element);
        }
        3 if len > 0 => {
            list.set(index, &element);
            model[index] = element;
        }
        4 | 5 if len > 0 => {
            list.take(index, |item| assert!(item.is(&model[index])));
            list.shrunk(limits);
            model.remove(index);
        }
        6 => *list = list.to_copy(heap),
        more => {
            list.expect(1, element.len(), limits);
            if more % 2 == 0 {
                list.push(End::Left, &element);
                model.push_front(element);
            } else {
                list.push(End::Right, &element);
                model.push_back(element);
            }
        }
    }
}

fn compare(list: &List, model: &VecDeque<Vec<u8>>) {
    list.check();
    let mut elements = Vec::new();
    list.walk(0, |_, item| {
        elements.push(item.text(&mut DecimalBuffer::new()).to_vec());
        true
    });
    assert!(list.len() == model.len() && elements.iter().eq(model));
    for (index, element) in model.iter().enumerate() {
        assert!(list.at(index).is(element), "{index}");
    }
}
