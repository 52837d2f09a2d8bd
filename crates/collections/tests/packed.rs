//! Packed sequences against a vector of vectors, with random changes of every kind.

mod random;

use std::collections::VecDeque;

use collections::{DecimalBuffer, Heap, Item, Packed};
use random::Random;

/// Changes for each seed; fewer under Miri.
const STEP_COUNT: usize = if cfg!(miri) { 120 } else { 3_000 };

/// Steps between two changes of the rate of growth, and between two full comparisons.
const PHASE_LEN: usize = if cfg!(miri) { 40 } else { 500 };
const COMPARISON_DISTANCE: usize = if cfg!(miri) { 8 } else { 1 };

fn random_text(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0..3 => random.below(200).to_string().into_bytes(),
        3 => (random.below(usize::MAX) as i64).wrapping_sub(1 << 62).to_string().into_bytes(),
        4..7 => {
            let len = random.below(12);
            vec![b'a' + random.below(3) as u8; len]
        }
        _ => {
            let len = random.below(500);
            vec![b'z'; len]
        }
    }
}

fn text_of(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

type Model<const N: usize> = Vec<[Vec<u8>; N]>;

fn compare<const N: usize, const FIND: bool>(
    packed: &Packed<N, FIND>,
    model: &Model<N>,
    random: &mut Random,
) {
    packed.check().expect("the invariants hold");
    assert_eq!((packed.len(), packed.is_empty()), (model.len(), model.is_empty()));
    let groups: Model<N> = packed.iter().map(|group| group.map(text_of)).collect();
    assert_eq!(&groups, model);
    let mut backwards: Model<N> = packed.iter().rev().map(|group| group.map(text_of)).collect();
    backwards.reverse();
    assert_eq!(&backwards, model);
    let from = random.below(model.len() + 2);
    let rest: Model<N> = packed.iter_from(from).map(|group| group.map(text_of)).collect();
    assert_eq!(rest[..], model[from.min(model.len())..]);
    let wanted = match model.get(random.below(model.len() + 3)) {
        Some(group) => group[0].clone(),
        None => random_text(random),
    };
    let found = model.iter().enumerate().skip(from).find(|(_, group)| group[0] == wanted);
    assert_eq!(packed.find(&wanted, from), found.map(|(index, _)| index));
    if !model.is_empty() {
        let index = random.below(model.len());
        let group = packed.at(index);
        assert_eq!(group.map(text_of), model[index]);
        assert!(
            group.iter().zip(&model[index]).all(|(item, text)| item.is(text) && item.len() == text.len())
        );
    }
}

fn play<const N: usize, const FIND: bool>(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let heap = Heap::new();
    let mut packed = Packed::<N, FIND>::new();
    let mut model: Model<N> = Vec::new();
    // Sometimes mostly growing, sometimes mostly shrinking.
    let mut growth = 6;
    for step in 0..STEP_COUNT {
        if step % PHASE_LEN == 0 {
            growth = 3 + random.below(6);
        }
        let group: [Vec<u8>; N] = std::array::from_fn(|_| random_text(&mut random));
        let fits = packed.fits(group.iter().map(Vec::len).sum());
        let slices = std::array::from_fn(|part| &group[part][..]);
        match random.below(10) {
            action if action < growth && fits => {
                if model.is_empty() && random.below(2) == 0 {
                    packed.reserve_in(&heap, 1, slices.into_iter());
                }
                let index = match random.below(3) {
                    0 => 0,
                    1 => model.len(),
                    _ => random.below(model.len() + 1),
                };
                match index {
                    0 => packed.push_front(slices),
                    index if index == model.len() => packed.push_back(slices),
                    index => packed.insert(index, slices),
                }
                model.insert(index, group);
            }
            8 if !model.is_empty() && fits => {
                let (index, part) = (random.below(model.len()), random.below(N));
                packed.replace(index, part, slices[part]);
                model[index][part] = group[part].clone();
            }
            9 => rearrange(&heap, &mut packed, &mut model, &mut random),
            _ if !model.is_empty() => {
                let index = match random.below(3) {
                    0 => 0,
                    1 => model.len() - 1,
                    _ => random.below(model.len()),
                };
                let expected = model.remove(index);
                if index.is_multiple_of(2) {
                    packed.remove(index);
                } else {
                    packed.take(index, |group| {
                        assert!(group.iter().zip(&expected).all(|(item, text)| item.is(text)));
                    });
                }
            }
            _ => {}
        }
        if step.is_multiple_of(COMPARISON_DISTANCE) {
            compare(&packed, &model, &mut random);
        }
    }
    drop(packed);
    assert_eq!(heap.used_bytes(), 0);
}

/// Operations on whole sequences.
fn rearrange<const N: usize, const FIND: bool>(
    heap: &Heap,
    packed: &mut Packed<N, FIND>,
    model: &mut Model<N>,
    random: &mut Random,
) {
    let index = random.below(model.len() + 1);
    match random.below(10) {
        0 => {
            let count = random.below(model.len() - index + 1);
            packed.remove_range(index, count);
            model.drain(index..index + count);
        }
        1 => {
            let tail = packed.split_off(index);
            let model_tail = model.split_off(index);
            compare(&tail, &model_tail, random);
            compare(packed, model, random);
            packed.append(&tail);
            model.extend(model_tail);
        }
        2 => *packed = packed.clone(),
        3 => packed.shrink(),
        4 => packed.reserve(random.below(100), random.below(1_000)),
        5 => *packed = packed.to_copy(heap),
        6 => {
            packed.relocate(heap);
        }
        _ => {}
    }
}

#[test]
fn random_changes_agree_with_a_vector() {
    for seed in 1..if cfg!(miri) { 2 } else { 12 } {
        play::<1, true>(seed);
        play::<1, false>(seed);
        play::<2, true>(seed);
        play::<3, true>(seed);
    }
}

#[test]
fn an_empty_sequence_allocates_no_memory() {
    let mut packed = Packed::<2>::new();
    assert_eq!((packed.memory_bytes(), size_of_val(&packed)), (0, 8));
    packed.push_back([b"field", b"value"]);
    assert_eq!((packed.memory_bytes(), packed.size()), (32, 12));
    packed.remove(0);
    assert_eq!(packed.memory_bytes(), 0);
}

#[test]
fn size_is_limited_to_64_kib() {
    let mut packed = Packed::<1>::new();
    let element: &[u8] = if cfg!(miri) { &[b'x'; 2_000] } else { b"x" };
    while packed.fits(element.len()) {
        packed.push_back([element]);
    }
    assert_eq!(packed.len(), if cfg!(miri) { 32 } else { 32_766 });
    assert!(packed.size() <= 0xFFFF);
    packed.check().expect("the invariants hold");
    let mut large = Packed::<1>::new();
    assert!(large.fits(65_532) && !large.fits(65_533));
    large.push_back([&[b'x'; 65_532]]);
    large.check().expect("the invariants hold");
    assert_eq!(large.find(&[b'x'; 65_532], 0), Some(0));
    assert_eq!(large.find(&[b'x'; 70_000], 0), None);
    assert!(!large.fits(0));
}

#[test]
fn both_ends_of_a_sequence_without_tags_are_cheap() {
    let mut packed = Packed::<1, false>::new();
    let mut model = VecDeque::new();
    let mut random = Random(1);
    for step in 0..if cfg!(miri) { 300 } else { 6_000 } {
        let text = vec![b'x'; random.below(9)];
        // A queue in one direction, then in the other, then in both.
        match (step / 100 % 3, random.below(2)) {
            (0, 0) | (2, 0) if packed.fits(text.len()) => {
                packed.push_front([&text]);
                model.push_front(text);
            }
            (1, 0) | (2, 1) if packed.fits(text.len()) => {
                packed.push_back([&text]);
                model.push_back(text);
            }
            (0, _) if model.len() > 200 => {
                packed.remove(packed.len() - 1);
                model.pop_back();
            }
            _ if !model.is_empty() => {
                packed.take(0, |[item]| assert!(Some(&text_of(item)) == model.front()));
                model.pop_front();
            }
            _ => {}
        }
        if step % 20 == 0 {
            packed.check().expect("the invariants hold");
            assert!(packed.iter().map(|[item]| text_of(item)).eq(model.iter().cloned()));
        }
    }
}

#[test]
fn removing_a_range_frees_memory() {
    let mut packed = Packed::<1>::new();
    let count = if cfg!(miri) { 200 } else { 1_000 };
    for number in 0..count {
        packed.push_back([format!("element {number}").as_bytes()]);
    }
    let before = packed.memory_bytes();
    packed.remove_range(5, count - 10);
    assert!(packed.memory_bytes() < before / 10);
    packed.check().expect("the invariants hold");
}

#[test]
fn copies_of_blocks_in_a_heap_have_their_index_where_it_was() {
    // The sizes of growing allocations and the classes of the heap differ, and the index is at the end.
    let heap = Heap::new();
    let mut packed = Packed::<1, false>::new();
    for number in 0..90_usize {
        packed.push_back([format!("{number}:{}", "x".repeat(30 + number % 20)).as_bytes()]);
        if packed.size() < 1_500 || cfg!(miri) && number % 10 > 0 {
            continue;
        }
        let moved = packed.to_copy(&heap);
        assert_eq!(moved.memory_bytes(), packed.memory_bytes());
        let copy = moved.clone();
        copy.check().expect("the invariants hold");
        assert!(copy.iter().eq(packed.iter()), "{number} elements");
        assert_eq!(copy.memory_bytes(), moved.memory_bytes());
    }
}

#[test]
fn an_index_grows_within_the_block_that_was_reserved() {
    let heap = Heap::new();
    let texts: Vec<Vec<u8>> = (0..100).map(|number| format!("{number:020}").into_bytes()).collect();
    let mut packed = Packed::<2>::new();
    packed.reserve_in(&heap, texts.len() / 2, texts.iter().map(Vec::as_slice));
    let reserved = packed.memory_bytes();
    for pair in texts.chunks(2) {
        packed.push_back([&pair[0], &pair[1]]);
    }
    packed.check().expect("the invariants hold");
    assert_eq!(packed.memory_bytes(), reserved);
}
