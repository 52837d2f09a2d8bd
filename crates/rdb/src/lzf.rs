//! LZF, the compression of long strings.
//!
//! A control byte below 32 is followed by that many literal bytes and one more. Otherwise its top three bits
//! are a length minus 2 (7: one more byte is added) and the rest, with the next byte, a distance minus 1 back
//! into the output.

/// The size of the buffer for compressed text that is kept for smaller texts, in bytes.
const KEPT_SIZE_MAX: usize = 1 << 20;

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
    /// The output, with room behind it for blocks.
    packed: Vec<u8>,
}

/// The bytes of a hash, as a number.
const HASHED: u32 = 0xff_ffff;

impl Packer {
    pub fn new() -> Self {
        Self { positions: Vec::new(), base: 1, packed: Vec::new() }
    }

    /// Returns `bytes` compressed, if that takes at most `size_max` bytes.
    pub fn pack(&mut self, bytes: &[u8], size_max: usize) -> Option<&[u8]> {
        let len = u32::try_from(bytes.len()).ok()?;
        self.begin(len);
        let size = self.pack_all(bytes, size_max)?;
        Some(&self.packed[..size])
    }

    fn begin(&mut self, len: u32) {
        if self.positions.is_empty() || self.base.checked_add(len).is_none() {
            self.positions.clear();
            self.positions.resize(1 << INDEX_BITS, 0);
            self.base = 1;
        }
        // Literals take a byte more for each run; a copy is shorter than what it replaces.
        let size = len as usize + len as usize / LITERALS_MAX + 2 * LITERALS_MAX;
        if self.packed.len() > KEPT_SIZE_MAX && size <= KEPT_SIZE_MAX {
            self.packed = Vec::new();
        }
        if self.packed.len() < size {
            self.packed.resize(size, 0);
        }
    }

    /// Returns the size of the output.
    fn pack_all(&mut self, bytes: &[u8], size_max: usize) -> Option<usize> {
        let base = self.base;
        self.base += bytes.len() as u32;
        let (mut at, mut literals_from, mut size) = (0, 0, 0);
        while let Some(here) = bytes.get(at..).and_then(|rest| rest.first_chunk().copied()) {
            let here = u32::from_le_bytes(here);
            let slot = &mut self.positions[hash(here)];
            let found = slot.checked_sub(base).map(|position| position as usize);
            *slot = base + at as u32;
            let count = match found {
                Some(from) if at - from <= DISTANCE_MAX && is_equal(bytes, from, here) => {
                    common_len(bytes, from, at)
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            size = self.write_literals(&bytes[literals_from..], at - literals_from, size);
            size = write_copy(at - found.unwrap_or(0) - 1, count, &mut self.packed, size);
            at += count;
            literals_from = at;
            if size > size_max {
                return None;
            }
        }
        let left = bytes.len() - literals_from;
        if size + left > size_max {
            return None;
        }
        size = self.write_literals(&bytes[literals_from..], left, size);
        (size <= size_max).then_some(size)
    }

    /// Writes the first `count` of these bytes as literals. Returns the size afterwards.
    #[inline]
    fn write_literals(&mut self, mut bytes: &[u8], mut count: usize, mut size: usize) -> usize {
        while count > 0 {
            let run = count.min(LITERALS_MAX);
            self.packed[size] = run as u8 - 1;
            let place = &mut self.packed[size + 1..];
            match (bytes.first_chunk::<LITERALS_MAX>(), place.first_chunk_mut::<LITERALS_MAX>()) {
                (Some(block), Some(place)) => *place = *block,
                _ => place[..run].copy_from_slice(&bytes[..run]),
            }
            bytes = &bytes[run..];
            count -= run;
            size += 1 + run;
        }
        size
    }
}

/// The hash of the lowest three bytes.
#[inline]
fn hash(value: u32) -> usize {
    ((value & HASHED).wrapping_mul(0x9e37_79b1) >> (32 - INDEX_BITS)) as usize
}

/// Whether the lowest three bytes of `here` are those at a place before it.
#[inline]
fn is_equal(bytes: &[u8], from: usize, here: u32) -> bool {
    let found = bytes.get(from..).and_then(|rest| rest.first_chunk().copied());
    found.is_some_and(|found| (u32::from_le_bytes(found) ^ here) & HASHED == 0)
}

/// The number of equal bytes at two places, up to the longest copy.
#[inline]
fn common_len(bytes: &[u8], from: usize, at: usize) -> usize {
    let (earlier, later) = (&bytes[from..], &bytes[at..]);
    let len_max = later.len().min(COPY_MAX);
    let mut len = 0;
    while let (Some(one), Some(other)) = (
        earlier.get(len..).and_then(|rest| rest.first_chunk().copied()),
        later.get(len..len_max).and_then(|rest| rest.first_chunk().copied()),
    ) {
        let difference = u64::from_le_bytes(one) ^ u64::from_le_bytes(other);
        if difference != 0 {
            return len + difference.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = earlier[len..].iter().zip(&later[len..len_max]);
    len + rest.take_while(|(one, other)| one == other).count()
}

/// Writes a copy. Returns the size afterwards.
#[inline]
fn write_copy(distance: usize, count: usize, packed: &mut [u8], size: usize) -> usize {
    let high = (distance >> 8) as u8;
    let count = count - 2;
    if count < 7 {
        packed[size..size + 2].copy_from_slice(&[(count as u8) << 5 | high, distance as u8]);
        return size + 2;
    }
    packed[size..size + 3].copy_from_slice(&[7 << 5 | high, (count - 7) as u8, distance as u8]);
    size + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(packer: &mut Packer, bytes: &[u8]) -> Option<Vec<u8>> {
        packer.pack(bytes, bytes.len()).map(<[u8]>::to_vec)
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
