//! Packed sequences against a vector of vectors, with random changes of every kind.

use collections::{DecimalBuffer, Item, Packed};

/// Changes for each seed; fewer under Miri.
const STEP_COUNT: usize = if cfg!(miri) { 150 } else { 3_000 };

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn text(&mut self) -> Vec<u8> {
        match self.below(8) {
            0..3 => self.below(200).to_string().into_bytes(),
            3 => (self.below(usize::MAX) as i64).wrapping_sub(1 << 62).to_string().into_bytes(),
            4..7 => {
                let len = self.below(12);
                vec![b'a' + self.below(3) as u8; len]
            }
            _ => {
                let len = self.below(500);
                vec![b'z'; len]
            }
        }
    }
}

fn text(item: Item<'_>) -> Vec<u8> {
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
    let groups: Model<N> = packed.iter().map(|group| group.map(text)).collect();
    assert_eq!(&groups, model);
    let mut backwards: Model<N> = packed.iter().rev().map(|group| group.map(text)).collect();
    backwards.reverse();
    assert_eq!(&backwards, model);
    let from = random.below(model.len() + 2);
    let rest: Model<N> = packed.iter_from(from).map(|group| group.map(text)).collect();
    assert_eq!(rest[..], model[from.min(model.len())..]);
    let wanted = match model.get(random.below(model.len() + 3)) {
        Some(group) => group[0].clone(),
        None => random.text(),
    };
    let found = model.iter().enumerate().skip(from).find(|(_, group)| group[0] == wanted);
    assert_eq!(packed.find(&wanted, from), found.map(|(index, _)| index));
    if !model.is_empty() {
        let index = random.below(model.len());
        let group = packed.at(index);
        assert_eq!(group.map(text), model[index]);
        assert!(
            group.iter().zip(&model[index]).all(|(item, text)| item.is(text) && item.len() == text.len())
        );
    }
}

fn play<const N: usize, const FIND: bool>(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut packed = Packed::<N, FIND>::new();
    let mut model: Model<N> = Vec::new();
    // Sometimes mostly growing, sometimes mostly shrinking.
    let mut growth = 6;
    for step in 0..STEP_COUNT {
        if step % 500 == 0 {
            growth = 3 + random.below(6);
        }
        let group: [Vec<u8>; N] = std::array::from_fn(|_| random.text());
        let fits = packed.fits(group.iter().map(Vec::len).sum());
        let slices = std::array::from_fn(|part| &group[part][..]);
        match random.below(10) {
            action if action < growth && fits => {
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
            9 => rearrange(&mut packed, &mut model, &mut random),
            _ if !model.is_empty() => {
                let index = random.below(model.len());
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
        compare(&packed, &model, &mut random);
    }
}

/// What is done with whole sequences.
fn rearrange<const N: usize, const FIND: bool>(
    packed: &mut Packed<N, FIND>,
    model: &mut Model<N>,
    random: &mut Random,
) {
    let index = random.below(model.len() + 1);
    match random.below(8) {
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
        _ => {}
    }
}

#[test]
fn any_changes_leave_what_a_vector_has() {
    for seed in 1..if cfg!(miri) { 2 } else { 12 } {
        play::<1, true>(seed);
        play::<1, false>(seed);
        play::<2, true>(seed);
        play::<3, true>(seed);
    }
}

#[test]
fn nothing_is_allocated_for_nothing() {
    let mut packed = Packed::<2>::new();
    assert_eq!((packed.memory_bytes(), size_of_val(&packed)), (0, 8));
    packed.push_back([b"field", b"value"]);
    assert_eq!((packed.memory_bytes(), packed.size()), (32, 12));
    packed.remove(0);
    assert_eq!(packed.memory_bytes(), 0);
}

#[test]
fn sixty_four_kib_are_the_end() {
    let mut packed = Packed::<1>::new();
    while packed.fits(1) {
        packed.push_back([b"x"]);
    }
    assert_eq!(packed.len(), 32_766);
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
fn a_removed_range_gives_memory_back() {
    let mut packed = Packed::<1>::new();
    for number in 0..1_000u32 {
        packed.push_back([format!("element {number}").as_bytes()]);
    }
    let before = packed.memory_bytes();
    packed.remove_range(10, 980);
    assert!(packed.memory_bytes() < before / 10);
    packed.check().expect("the invariants hold");
}
