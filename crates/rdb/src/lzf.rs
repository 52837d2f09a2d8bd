//! LZF, the compression of long strings.
//!
//! A control byte below 32 is followed by that many literal bytes and one more. Otherwise its top three bits
//! are a length minus 2 (7: one more byte is added) and the rest, with the next byte, a distance minus 1 back
//! into the output.

/// Longest run of literals.
const LITERALS_MAX: usize = 32;
/// Longest copy.
const COPY_MAX: usize = 264;
/// Largest distance.
const DISTANCE_MAX: usize = 8192;

/// Bits of the index of positions.
const INDEX_BITS: u32 = 13;

/// Bytes that are copied together where the output has room: a copy of a variable size costs a call.
const BLOCK_SIZE: usize = 16;

/// Unpacks `packed` to the end of `out`. Returns whether it was valid and unpacked to `len` bytes.
#[must_use]
pub fn unpack(packed: &[u8], len: usize, out: &mut Vec<u8>) -> bool {
    // Three bytes make at most `COPY_MAX`: a false length reserves no memory.
    if len > packed.len().saturating_mul(COPY_MAX / 3) {
        return false;
    }
    let start = out.len();
    out.resize(start + len, 0);
    unpack_into(packed, &mut out[start..]).is_some()
}

/// Fills `target`; `None` if the input is not valid for its size.
fn unpack_into(packed: &[u8], target: &mut [u8]) -> Option<()> {
    let (mut input, mut at) = (packed, 0);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let count = control + 1;
            match (input.first_chunk::<LITERALS_MAX>(), target.get_mut(at..at + LITERALS_MAX)) {
                (Some(block), Some(place)) => place.copy_from_slice(block),
                _ => target.get_mut(at..at + count)?.copy_from_slice(input.get(..count)?),
            }
            input = &input[count..];
            at += count;
        } else {
            let mut count = (control >> 5) + 2;
            if control >> 5 == 7 {
                let (&more, rest) = input.split_first()?;
                count += usize::from(more);
                input = rest;
            }
            let (&low, rest) = input.split_first()?;
            input = rest;
            let distance = (((control & 31) << 8) | usize::from(low)) + 1;
            repeat(target, at.checked_sub(distance)?, at, count)?;
            at += count;
        }
    }
    (at == target.len()).then_some(())
}

/// Copies `count` bytes from position `from` on to `at`. If the ranges overlap, what is before `at` repeats.
fn repeat(target: &mut [u8], from: usize, at: usize, count: usize) -> Option<()> {
    if at - from >= BLOCK_SIZE && at + count + BLOCK_SIZE <= target.len() {
        for done in (0..count).step_by(BLOCK_SIZE) {
            let block: [u8; BLOCK_SIZE] = *target[from + done..].first_chunk()?;
            target[at + done..at + done + BLOCK_SIZE].copy_from_slice(&block);
        }
        return Some(());
    }
    let end = at + count;
    if end > target.len() {
        return None;
    }
    let mut at = at;
    while at < end {
        let copied = (end - at).min(at - from);
        target.copy_within(from..from + copied, at);
        at += copied;
    }
    Some(())
}

/// A compressor. Its index is allocated at its first use.
#[derive(Debug)]
pub struct Packer {
    /// For a hash of three bytes the latest position, plus `base`. Below `base`: none in this input.
    positions: Vec<u32>,
    base: u32,
}

impl Packer {
    pub fn new() -> Self {
        Self { positions: Vec::new(), base: 1 }
    }

    /// Appends `bytes` compressed, if that takes at most `size_max` bytes. Otherwise `out` is as before.
    pub fn pack(&mut self, bytes: &[u8], size_max: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_packed = u32::try_from(bytes.len()).is_ok_and(|len| {
            self.begin(len);
            self.pack_all(bytes, size_max, out)
        });
        if !is_packed {
            out.truncate(start);
        }
        is_packed
    }

    fn begin(&mut self, len: u32) {
        if self.positions.is_empty() || self.base.checked_add(len).is_none() {
            self.positions.clear();
            self.positions.resize(1 << INDEX_BITS, 0);
            self.base = 1;
        }
    }

    fn pack_all(&mut self, bytes: &[u8], size_max: usize, out: &mut Vec<u8>) -> bool {
        let (start, base) = (out.len(), self.base);
        let (mut at, mut literals_from) = (0, 0);
        while at + 2 < bytes.len() {
            let slot = &mut self.positions[hash([bytes[at], bytes[at + 1], bytes[at + 2]])];
            let found = slot.checked_sub(base).map(|position| position as usize);
            *slot = base + at as u32;
            let count = match found {
                Some(from) if at - from <= DISTANCE_MAX => common_len(&bytes[from..], &bytes[at..]),
                _ => 0,
            };
            if count < 3 {
                at += 1;
                continue;
            }
            write_literals(&bytes[literals_from..at], out);
            write_copy(at - found.unwrap_or(0) - 1, count, out);
            at += count;
            literals_from = at;
            if out.len() - start > size_max {
                break;
            }
        }
        self.base += bytes.len() as u32;
        if out.len() - start + bytes.len() - literals_from > size_max {
            return false;
        }
        write_literals(&bytes[literals_from..], out);
        out.len() - start <= size_max
    }
}

fn hash([a, b, c]: [u8; 3]) -> usize {
    let value = u32::from_le_bytes([a, b, c, 0]);
    (value.wrapping_mul(0x9e37_79b1) >> (32 - INDEX_BITS)) as usize
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(COPY_MAX).take_while(|(a, b)| a == b).count()
}

fn write_literals(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn write_copy(distance: usize, count: usize, out: &mut Vec<u8>) {
    let high = (distance >> 8) as u8;
    let count = count - 2;
    if count < 7 {
        out.push((count as u8) << 5 | high);
    } else {
        out.extend([7 << 5 | high, (count - 7) as u8]);
    }
    out.push(distance as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(packer: &mut Packer, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        packer.pack(bytes, bytes.len(), &mut out).then_some(out)
    }

    #[test]
    fn compression_round_trips() {
        let mut packer = Packer::new();
        let mut state = 1_u64;
        for len in 0..3000 {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 61) as u8 & (len as u8 | 1)
                })
                .collect();
            let Some(packed) = packed(&mut packer, &bytes) else { continue };
            let mut out = b"before".to_vec();
            assert!(unpack(&packed, bytes.len(), &mut out), "{len}");
            assert_eq!(&out[6..], bytes);
            assert!(!unpack(&packed, bytes.len() + 1, &mut Vec::new()));
        }
    }

    #[test]
    fn repetitive_input_is_compressed_and_noise_is_not() {
        let mut packer = Packer::new();
        let long = vec![b'x'; 100_000];
        assert!(packed(&mut packer, &long).is_some_and(|packed| packed.len() < 1_200));
        let noise: Vec<u8> = (0..=255).collect();
        assert_eq!(packed(&mut packer, &noise), None);
    }

    #[test]
    fn positions_of_earlier_input_are_discarded() {
        let mut packer = Packer::new();
        packer.base = u32::MAX - 10;
        for _ in 0..3 {
            let bytes = b"abcabcabcabcabcabcabc";
            let packed = packed(&mut packer, bytes).expect("it repeats");
            let mut out = Vec::new();
            assert!(unpack(&packed, bytes.len(), &mut out));
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn malformed_input_is_refused() {
        for bytes in [&[5_u8, 1][..], &[0x20], &[0x20, 0], &[0xe0], &[0xe0, 1], &[0, 1, 0x20, 1]] {
            assert!(!unpack(bytes, 3, &mut Vec::new()), "{bytes:?}");
        }
        assert!(!unpack(&[0, 1], usize::MAX, &mut Vec::new()));
    }
}
