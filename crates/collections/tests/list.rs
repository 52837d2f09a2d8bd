//! Lists against a deque of byte strings, with elements of all sizes.
#![allow(clippy::unwrap_used)]

mod random;

use std::collections::VecDeque;

use collections::{Collection, DecimalBuffer, End, Heap, Item, List, ListBuilder, ListLimits};
use random::Random;

/// Nodes are smaller under Miri, and so are elements.
const SCALE: usize = if cfg!(miri) { 8 } else { 1 };

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => vec![b'x'; (3000 + random.below(9000)) / SCALE],
        1 => vec![b'y'; random.below(70_000) / SCALE],
        2..10 => vec![b'z'; random.below(300) / SCALE],
        10..25 => (random.below(100_000) as i64 - 50_000).to_string().into_bytes(),
        _ => format!("e{}", random.below(50)).into_bytes(),
    }
}

/// Mostly equally long strings; now and then as many or more bytes that are something else.
fn equally_long(random: &mut Random) -> Vec<u8> {
    match random.below(300) {
        0 => element(random),
        1 => vec![b'1'; 12],
        _ => format!("e{:011}", random.below(60)).into_bytes(),
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::default()).to_vec()
}

fn assert_same(list: &List, model: &VecDeque<Vec<u8>>) {
    list.check();
    assert_eq!(list.len(), model.len());
    let mut forward = Vec::new();
    list.walk(0, |index, item| {
        assert_eq!(index, forward.len());
        forward.push(text(item));
        true
    });
    assert!(forward.iter().eq(model));
    let mut backward = Vec::new();
    if !model.is_empty() {
        list.walk_back(model.len() - 1, |index, item| {
            assert_eq!(index + backward.len() + 1, model.len());
            backward.push(text(item));
            true
        });
    }
    assert!(backward.iter().rev().eq(model));
    for (index, element) in model.iter().enumerate() {
        assert!(list.at(index).is(element), "{index}");
    }
}

fn run(seed: u64, steps: usize, bias: usize, element: fn(&mut Random) -> Vec<u8>) {
    let heap = Heap::new();
    let mut random = Random(seed);
    let limits = ListLimits::of_directive(-2);
    let mut list = List::new();
    let mut model: VecDeque<Vec<u8>> = VecDeque::new();
    for step in 0..steps {
        let len = model.len();
        match random.below(10 + bias) {
            0 | 1 if len > 0 => {
                let index = random.below(len);
                let count = (1 + random.below(20)).min(len - index);
                list.remove_range(index, count);
                list.shrunk(limits);
                model.drain(index..index + count);
            }
            2 | 3 => {
                let (index, element) = (random.below(len + 1), element(&mut random));
                list.insert(index, &element);
                model.insert(index, element);
            }
            4 | 5 if len > 0 => {
                let (index, element) = (random.below(len), element(&mut random));
                list.set(index, &element);
                model[index] = element;
            }
            6 if random.below(40) == 0 => {
                let cut = list.cut(0, len);
                assert!(cut.as_ref().is_none_or(|cut| cut.is_costly_to_drop() && cut.len() == len));
                cut.iter().for_each(List::check);
                model.clear();
            }
            6 | 8 if len > 0 => {
                let index = [0, len - 1, random.below(len)][random.below(3)];
                list.take(index, |item| assert!(item.is(&model[index])));
                list.shrunk(limits);
                model.remove(index);
            }
            9 if len > 0 => {
                // An element that occurs, in few or many places.
                let element = model[random.below(len)].clone();
                let from = [End::Left, End::Right][random.below(2)];
                let count_max = [1, 1 + random.below(5), usize::MAX][random.below(3)];
                let mut places: Vec<usize> = (0..len).filter(|index| model[*index] == element).collect();
                let removed_count = count_max.min(places.len());
                if from == End::Right {
                    places.drain(..places.len() - removed_count);
                }
                assert_eq!(list.remove_equal(&element, from, count_max), removed_count);
                list.shrunk(limits);
                places.truncate(removed_count);
                places.iter().rev().for_each(|index| drop(model.remove(*index)));
            }
            7 => {
                let copy = list.to_copy(&heap);
                assert_same(&copy, &model);
                list = copy;
            }
            more => {
                let element = element(&mut random);
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
        if step % 16 == 0 {
            assert_same(&list, &model);
        }
    }
    assert_same(&list, &model);
}

#[test]
fn behaves_as_a_deque() {
    let (seed_count, step_count) = if cfg!(miri) { (2, 40) } else { (20, 400) };
    for seed in 1..seed_count {
        run(seed, step_count, seed as usize % 5, element);
    }
    run(99, 8 * step_count, 20, element);
    for (seed, bias) in [(1, 60), (2, 120), (3, 300)] {
        run(seed, 12 * step_count, bias, equally_long);
    }
}

/// Elements as a loader has them: integers may come as their text.
fn check_built(elements: &[Vec<u8>]) {
    let (heap, mut builder) = (Heap::new(), ListBuilder::new());
    let mut pushed = List::new();
    for (index, element) in elements.iter().enumerate() {
        builder.push(if index % 2 == 0 { Item::of_text(element) } else { Item::Bytes(element) });
        pushed.push(End::Right, element);
    }
    let mut built = builder.finish(&heap);
    let mut model: VecDeque<Vec<u8>> = elements.iter().cloned().collect();
    assert_same(&built, &model);
    // One form for the same elements, and as good for changes.
    assert_eq!(built.node_count() > 1, pushed.node_count() > 1, "{}", elements.len());
    built.rebalance(ListLimits::of_directive(-2));
    pushed.rebalance(ListLimits::of_directive(-2));
    assert_eq!(built.encoding_name(), pushed.encoding_name());
    built.insert(elements.len() / 2, b"in the middle");
    model.insert(elements.len() / 2, b"in the middle".to_vec());
    for (end, index) in [(End::Left, 0), (End::Right, elements.len() + 2)] {
        built.push(end, b"at an end");
        model.insert(index, b"at an end".to_vec());
    }
    assert_same(&built, &model);
}

#[test]
fn a_built_list_equals_one_that_was_filled() {
    let mut random = Random(7);
    for len in [0, 1, 2, 10, 100, 1000 / SCALE] {
        check_built(&(0..len).map(|_| element(&mut random)).collect::<Vec<_>>());
        check_built(&(0..len).map(|number| number.to_string().into_bytes()).collect::<Vec<_>>());
    }
    for size in [2047, 2048, 2049, 4093, 4096, 4097] {
        let size = size / SCALE;
        check_built(&[vec![b'x'; size]]);
        check_built(&[b"before".to_vec(), vec![b'x'; size], b"behind".to_vec()]);
    }
}

#[test]
fn equal_elements_are_removed_from_either_end() {
    let count = if cfg!(miri) { 60 } else { 20_000 };
    for from in [End::Left, End::Right] {
        for count_max in [1, count / 4, count / 2, usize::MAX] {
            let mut list = List::new();
            let mut model = VecDeque::new();
            for number in 0..count {
                let element = if number % 2 == 0 { b"x".to_vec() } else { number.to_string().into_bytes() };
                list.push(End::Right, &element);
                model.push_back(element);
            }
            let expected = count_max.min(count / 2);
            assert_eq!(list.remove_equal(b"x", from, count_max), expected);
            let stays = count / 2 - expected;
            let mut nth = 0;
            model.retain(|element| {
                nth += usize::from(element == b"x");
                let is_removed = if from == End::Left { nth <= expected } else { nth > stays };
                element != b"x" || !is_removed
            });
            assert_same(&list, &model);
            assert_eq!(list.remove_equal(b"y", from, usize::MAX), 0);
        }
        let mut list = List::new();
        (0..count).for_each(|_| list.push(from, b"x"));
        assert_eq!(list.remove_equal(b"x", from, usize::MAX), count);
        assert_same(&list, &VecDeque::new());
    }
}

#[test]
fn equally_long_elements_take_little_more_than_their_bytes() {
    let count = if cfg!(miri) { 100 } else { 50_000 };
    let element = |number: usize| format!("element {number:012}").into_bytes();
    let heap = Heap::new();
    for end in [End::Left, End::Right] {
        let mut list = List::new();
        let mut built = ListBuilder::new();
        for number in 0..count {
            list.push(end, &element(number));
            built.push(Item::Bytes(&element(number)));
        }
        for list in [&list, &built.finish(&heap)] {
            list.check();
            assert!(cfg!(miri) || list.memory_bytes() < 41 * count / 2, "{} bytes", list.memory_bytes());
        }
        // A queue, then a stack.
        let other = if end == End::Left { End::Right } else { End::Left };
        for number in 0..count / 2 {
            list.take(list.index_of_end(other), |item| assert!(item.is(&element(number))));
        }
        for number in (count / 2..count).rev() {
            list.take(list.index_of_end(end), |item| assert!(item.is(&element(number))));
        }
        assert_eq!(list.len(), 0);
    }
}

#[test]
fn sealed_nodes_that_are_split_have_no_room_for_more() {
    let count = 4000 / SCALE;
    let (mut list, mut model) = (List::new(), VecDeque::new());
    for number in 0..count {
        model.push_back(format!("element {number:012}").into_bytes());
        list.push(End::Right, model.back().unwrap());
    }
    for index in (0..count).step_by(200 / SCALE) {
        model[index] = vec![b'x'; 21];
        list.set(index, &model[index]);
    }
    assert_same(&list, &model);
    assert!(cfg!(miri) || list.memory_bytes() < 26 * count, "{} bytes", list.memory_bytes());
}

#[test]
fn popping_a_queue_frees_its_nodes() {
    let mut list = List::new();
    let count = if cfg!(miri) { 200 } else { 100_000 };
    for number in 0..count {
        list.push(End::Left, number.to_string().as_bytes());
    }
    for number in 0..count - 10 {
        list.take(list.index_of_end(End::Right), |item| assert_eq!(item, Item::Int(number)));
    }
    list.check();
    assert!(list.memory_bytes() < 1000, "{} bytes for ten numbers", list.memory_bytes());
}

#[test]
fn encoding_names_match_redis() {
    let limits = ListLimits::of_directive(3);
    let mut list = List::new();
    for _ in 0..3 {
        list.expect(1, 1, limits);
        list.push(End::Right, b"a");
    }
    assert_eq!(list.encoding_name(), "listpack");
    list.expect(1, 1, limits);
    list.push(End::Right, b"a");
    assert_eq!(list.encoding_name(), "quicklist");
    for left in (1..4).rev() {
        list.remove_range(0, 1);
        list.shrunk(limits);
        assert_eq!(list.encoding_name(), if left > 1 { "quicklist" } else { "listpack" });
    }

    // 7 bytes of frame and 2 + 4090 + 2 of the element are above 4096.
    let limits = ListLimits::of_directive(-1);
    let mut list = List::new();
    list.push(End::Left, &[b'x'; 4090]);
    list.rebalance(limits);
    assert_eq!(list.encoding_name(), "quicklist");
    list.set(0, &[b'x'; 2000]);
    list.shrunk(limits);
    assert_eq!(list.encoding_name(), "listpack");
}

#[test]
fn what_is_costly_to_drop_can_be_left_to_others() {
    // Under Miri fewer elements, each with a node of its own.
    let (count, padding) = if cfg!(miri) { (200, vec![b'.'; 1500]) } else { (100_000, b" element".to_vec()) };
    let numbered = |numbers: std::ops::Range<usize>| {
        numbers.map(|number| [number.to_string().as_bytes(), &padding[..]].concat())
    };
    let limits = ListLimits::of_directive(-2);
    let mut list = List::new();
    for (index, element) in numbered(0..count).enumerate() {
        list.insert(index, &element);
    }
    assert!(list.cut(20, 10).is_none(), "cheap");
    let half = count / 2;
    let cut = list.cut(50, half).expect("many nodes");
    list.shrunk(limits);
    assert!((half * 98 / 100..=half).contains(&cut.len()));
    cut.check();
    list.check();
    assert_eq!(list.len(), count - 10 - half);
    let expected = numbered(0..20).chain(numbered(30..60)).chain(numbered(half + 60..count));
    assert!(expected.enumerate().all(|(index, element)| list.at(index).is(&element)));
}
