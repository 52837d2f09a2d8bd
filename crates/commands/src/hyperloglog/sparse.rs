//! The sparse form: runs of registers with equal values.
//!
//! ```text
//! 00nnnnnn            n + 1 registers of zero
//! 01nnnnnn nnnnnnnn   likewise, up to 16,384
//! 1vvvvvnn            n + 1 registers, up to 4, of v + 1, up to 32
//! ```
//! The bytes after a change are identical to those of Redis: one run is split, then adjacent runs with equal
//! values are joined, within five runs, starting at the run before the change.

use super::pattern::REGISTER_COUNT;

/// Maximum register value in a run.
const VALUE_MAX: u8 = 32;
/// Maximum number of registers in a run of a value other than zero.
const VALUE_LEN_MAX: usize = 4;
/// Maximum number of registers in a short run of zeros.
const ZERO_LEN_MAX: usize = 64;
/// Number of runs examined for joining.
const JOINED_RUN_COUNT: usize = 5;

/// A run of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisterRun {
    /// Number of registers.
    pub(super) len: usize,
    /// Value of each register.
    pub(super) value: u8,
    /// Encoded size in bytes.
    size: usize,
}

impl RegisterRun {
    /// Decodes the first run of `bytes`, which is not empty.
    fn read(bytes: &[u8]) -> Self {
        let first = bytes[0];
        let bits = usize::from(first & 0x3F);
        match first >> 6 {
            0 => Self { len: bits + 1, value: 0, size: 1 },
            1 => {
                let low = bytes.get(1).copied().unwrap_or_default();
                Self { len: (bits << 8 | usize::from(low)) + 1, value: 0, size: 2 }
            }
            _ => Self { len: usize::from(first & 3) + 1, value: (first >> 2 & 0x1F) + 1, size: 1 },
        }
    }

    fn write_zeros(len: usize, out: &mut Vec<u8>) {
        match len {
            0 => {}
            1..=ZERO_LEN_MAX => out.push((len - 1) as u8),
            _ => out.extend([((len - 1) >> 8) as u8 | 0x40, (len - 1) as u8]),
        }
    }

    fn write_values(len: usize, value: u8, out: &mut Vec<u8>) {
        if len > 0 {
            out.push(0x80 | (value - 1) << 2 | (len - 1) as u8);
        }
    }

    fn is_written_as_value(self) -> bool {
        self.value > 0
    }

    /// Whether it is encoded as a long run of zeros.
    pub(super) fn is_long(self) -> bool {
        self.size == 2
    }
}

/// Iterates over all runs in order.
pub(super) fn runs(mut bytes: &[u8]) -> impl Iterator<Item = RegisterRun> {
    std::iter::from_fn(move || {
        let run = (!bytes.is_empty()).then(|| RegisterRun::read(bytes))?;
        bytes = &bytes[run.size.min(bytes.len())..];
        Some(run)
    })
}

/// Whether the runs cover all registers exactly.
pub(super) fn is_valid(bytes: &[u8]) -> bool {
    runs(bytes).map(|run| run.len).sum::<usize>() == REGISTER_COUNT
}

/// Returns the runs of an empty sketch.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    RegisterRun::write_zeros(REGISTER_COUNT, &mut bytes);
    bytes
}

/// Returns the size of the shortest runs for these registers.
pub(super) fn size_min(registers: &[u8]) -> usize {
    let size = |run: &[u8]| match run {
        [0, ..] if run.len() > ZERO_LEN_MAX => 2,
        [0, ..] => 1,
        _ => run.len().div_ceil(VALUE_LEN_MAX),
    };
    registers.chunk_by(|one, next| one == next).map(size).sum()
}

/// Results of raising a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register already had this value or a higher one.
    No,
    /// The register was lower.
    Yes,
    /// The sketch must become dense.
    TooLarge,
    /// The runs are malformed.
    Corrupted,
}

/// The start of a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Start {
    /// Offset of the run.
    at: usize,
    /// Its first register.
    first: usize,
}

/// Raises the register at `index`, unless the runs would exceed `size_max` bytes. The search begins at `from`. It is
/// then set to two runs before the changed one, from where later registers are found: a change joins at most the run
/// before it.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    from: &mut Start,
    index: usize,
    value: u8,
    size_max: usize,
) -> Raised {
    if value > VALUE_MAX {
        return Raised::TooLarge;
    }
    let mut before = *from;
    let mut here = *from;
    let run = loop {
        if here.at >= bytes.len() {
            return Raised::Corrupted;
        }
        let run = RegisterRun::read(&bytes[here.at..]);
        if index < here.first + run.len {
            break run;
        }
        *from = before;
        before = here;
        here = Start { at: here.at + run.size, first: here.first + run.len };
    };
    let (Start { at, first }, before) = (here, before.at);
    if run.value >= value {
        return Raised::No;
    }
    let write = if run.is_written_as_value() {
        |len, value, out: &mut Vec<u8>| RegisterRun::write_values(len, value, out)
    } else {
        |len, _, out: &mut Vec<u8>| RegisterRun::write_zeros(len, out)
    };
    let mut split = Vec::with_capacity(5);
    write(index - first, run.value, &mut split);
    RegisterRun::write_values(1, value, &mut split);
    write(first + run.len - 1 - index, run.value, &mut split);
    let end = (at + run.size).min(bytes.len());
    if split.len() > run.size && bytes.len() - run.size + split.len() > size_max {
        return Raised::TooLarge;
    }
    bytes.splice(at..end, split);
    join(bytes, before);
    Raised::Yes
}

/// Joins adjacent runs with equal values, starting at offset `at`.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUN_COUNT {
        if at >= bytes.len() {
            break;
        }
        let run = RegisterRun::read(&bytes[at..]);
        let next =
            (run.is_written_as_value() && at + 1 < bytes.len()).then(|| RegisterRun::read(&bytes[at + 1..]));
        match next {
            Some(next) if next.value == run.value && run.len + next.len <= VALUE_LEN_MAX => {
                let mut joined = Vec::with_capacity(1);
                RegisterRun::write_values(run.len + next.len, run.value, &mut joined);
                bytes.splice(at..at + 2, joined);
            }
            _ => at += run.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_with_an_array() {
        let mut bytes = empty();
        let mut model = vec![0u8; REGISTER_COUNT];
        let mut state = 7usize;
        for _ in 0..4_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (index, value) = (state >> 33 & 0x3FF, (state >> 50 & 7) as u8 + 1);
            let expected = if model[index] < value { Raised::Yes } else { Raised::No };
            assert_eq!(raise(&mut bytes, &mut Start::default(), index, value, usize::MAX), expected);
            model[index] = model[index].max(value);
        }
        assert!(bytes.len() >= size_min(&model), "{} {}", bytes.len(), size_min(&model));
        let registers: Vec<u8> =
            runs(&bytes).flat_map(|run| std::iter::repeat_n(run.value, run.len)).collect();
        assert_eq!(registers, model);
        assert!(is_valid(&bytes));
        assert_eq!([&[0; 64][..], &[0; 65], &[3; 4], &[3; 5], &[1, 1, 2, 0]].map(size_min), [1, 2, 1, 2, 3]);
        assert_eq!(raise(&mut bytes, &mut Start::default(), 0, 33, usize::MAX), Raised::TooLarge);
        assert_eq!(raise(&mut bytes, &mut Start::default(), 5_000, 1, 10), Raised::TooLarge);
        bytes.clear();
        assert_eq!(raise(&mut bytes, &mut Start::default(), 0, 1, 10), Raised::Corrupted);
    }

    #[test]
    fn searches_resume_where_the_previous_one_ended() {
        let mut state = 3usize;
        for round in 0..50 {
            let (mut bytes, mut expected, mut from) = (empty(), empty(), Start::default());
            // A second pass over the same registers splits and joins runs of values, too.
            for pass in 0..2 {
                let mut index = 0;
                loop {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    index += (state >> 40) % (2 + round) + usize::from(pass == 0);
                    if index >= 600 {
                        break;
                    }
                    let value = (state >> 50 & 1) as u8 + 1 + pass;
                    let raised = raise(&mut bytes, &mut from, index, value, usize::MAX);
                    assert_eq!(raised, raise(&mut expected, &mut Start::default(), index, value, usize::MAX));
                    assert_eq!(bytes, expected);
                    index += 1;
                }
                from = Start::default();
            }
        }
    }
}
