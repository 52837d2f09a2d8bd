//! One element of a [`Packed`](super::Packed) sequence: its encoding, decoding, comparison and tag.
//!
//! ```text
//! first byte   remaining bytes
//! 00..=7F      a string of so many bytes
//! 80..=BF      nothing: an integer, 0 to 63
//! C0..=C7      an integer of 1 to 8 bytes, little end first, the shortest that holds it
//! D0           a byte n, then a string of n + 128 bytes
//! D1           two bytes, little end first: a string of so many bytes
//! ```
//! Every text has exactly one encoding: the canonical text of an integer is always stored as an integer,
//! and lengths in the first form that fits. So two elements are equal exactly if their bytes are.

use crate::number::{DecimalBuffer, decimal_len, parse_canonical};

const INT_IMMEDIATE: u8 = 0x80;
const INT_IMMEDIATE_MAX: i64 = 63;
const INT_SIZED: u8 = 0xC0;
const BYTES_MEDIUM: u8 = 0xD0;
const BYTES_LONG: u8 = 0xD1;
/// Longest string behind a single byte.
pub(super) const SHORT_LEN_MAX: usize = 0x7F;
const MEDIUM_LEN_MIN: usize = 128;
const MEDIUM_LEN_MAX: usize = MEDIUM_LEN_MIN + 255;

/// Largest number of bytes of an element in addition to its text.
pub(super) const OVERHEAD_MAX: usize = 3;

/// A decoded element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Any string that is not the canonical decimal text of an `i64`.
    Bytes(&'a [u8]),
    /// The string that is the canonical decimal text of this integer.
    Int(i64),
}

impl<'a> Item<'a> {
    /// The element for this text.
    #[must_use]
    #[inline]
    pub fn of_text(text: &'a [u8]) -> Self {
        match text.first() {
            Some(b'0'..=b'9' | b'-') => parse_canonical(text).map_or(Self::Bytes(text), Self::Int),
            _ => Self::Bytes(text),
        }
    }

    /// Bytes of its text.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty string is an element like any other")]
    pub fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Int(value) => decimal_len(value),
        }
    }

    /// Whether this is its text.
    #[must_use]
    #[inline]
    pub fn is(self, text: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == text,
            Self::Int(value) => parse_canonical(text) == Some(value),
        }
    }

    /// Its text, where an integer's is written to `buffer`.
    #[must_use]
    #[inline]
    pub fn text<'b>(self, buffer: &'b mut DecimalBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int(value) => buffer.format(value),
        }
    }

    /// Eight bits of a hash of it. Not seeded: a client that makes many elements share a tag only makes a
    /// search in one sequence of at most 64 KiB compare more of them, no worse than without tags.
    #[inline]
    pub(super) fn tag(self) -> u8 {
        let hash = match self {
            Self::Bytes(bytes) => hash_bytes(bytes),
            Self::Int(value) => fold(value as u64 ^ SEEDS[1], SEEDS[0]),
        };
        (hash >> 56) as u8
    }
}

/// An encoded element: a head, then the string if it is one.
pub(super) struct Encoded<'a> {
    head: [u8; 9],
    head_size: usize,
    bytes: &'a [u8],
}

impl<'a> Encoded<'a> {
    #[inline]
    pub(super) fn new(item: Item<'a>) -> Self {
        let mut head = [0; 9];
        let (head_size, bytes): (usize, &[u8]) = match item {
            Item::Bytes(bytes) => {
                let len = bytes.len();
                if len <= SHORT_LEN_MAX {
                    head[0] = len as u8;
                    (1, bytes)
                } else if len <= MEDIUM_LEN_MAX {
                    head[0] = BYTES_MEDIUM;
                    head[1] = (len - MEDIUM_LEN_MIN) as u8;
                    (2, bytes)
                } else {
                    head[0] = BYTES_LONG;
                    let len = u16::try_from(len).expect("callers have checked that it fits");
                    head[1..3].copy_from_slice(&len.to_le_bytes());
                    (3, bytes)
                }
            }
            Item::Int(value @ 0..=INT_IMMEDIATE_MAX) => {
                head[0] = INT_IMMEDIATE + value as u8;
                (1, &[])
            }
            Item::Int(value) => {
                let size = int_size(value);
                head[0] = INT_SIZED + (size - 1) as u8;
                head[1..].copy_from_slice(&value.to_le_bytes());
                (1 + size, &[])
            }
        };
        Self { head, head_size, bytes }
    }

    /// Its encoded size in bytes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.head_size + self.bytes.len()
    }

    /// Writes it to the start of `target`, and returns the rest.
    #[inline]
    pub(super) fn write<'t>(&self, target: &'t mut [u8]) -> &'t mut [u8] {
        let (head, rest) = target.split_at_mut(self.head_size);
        // Nearly always one byte, for which a call to copy is too slow.
        match head {
            [only] => *only = self.head[0],
            several => several.copy_from_slice(&self.head[..self.head_size]),
        }
        let (bytes, rest) = rest.split_at_mut(self.bytes.len());
        bytes.copy_from_slice(self.bytes);
        rest
    }

    /// Appends it to `target`.
    #[inline]
    pub(super) fn append_to(&self, target: &mut Vec<u8>) {
        match &self.head[..self.head_size] {
            [only] => target.push(*only),
            several => target.extend_from_slice(several),
        }
        target.extend_from_slice(self.bytes);
    }

    /// Whether `source` starts with it.
    #[inline]
    pub(super) fn is_at(&self, source: &[u8]) -> bool {
        source.first() == Some(&self.head[0])
            && source.len() >= self.size()
            && source[..self.head_size] == self.head[..self.head_size]
            && source[self.head_size..self.size()] == *self.bytes
    }
}

/// Size of the element at the start of `source`, in bytes.
#[inline]
pub(super) fn size_at(source: &[u8]) -> usize {
    match source[0] {
        len @ ..INT_IMMEDIATE => 1 + usize::from(len),
        INT_IMMEDIATE..INT_SIZED => 1,
        BYTES_MEDIUM => 2 + MEDIUM_LEN_MIN + usize::from(source[1]),
        BYTES_LONG => 3 + usize::from(u16::from_le_bytes([source[1], source[2]])),
        sized => 2 + usize::from(sized & 7),
    }
}

/// The element at the start of `source`, and the rest.
#[inline]
pub(super) fn split(source: &[u8]) -> (Item<'_>, &[u8]) {
    let size = size_at(source);
    let (element, rest) = source.split_at(size);
    let item = match element[0] {
        ..INT_IMMEDIATE => Item::Bytes(&element[1..]),
        first @ INT_IMMEDIATE..INT_SIZED => Item::Int(i64::from(first - INT_IMMEDIATE)),
        BYTES_MEDIUM => Item::Bytes(&element[2..]),
        BYTES_LONG => Item::Bytes(&element[3..]),
        _ => Item::Int(read_int(&element[1..])),
    };
    (item, rest)
}

fn int_size(value: i64) -> usize {
    let magnitude = if value < 0 { !value } else { value } as u64;
    // One bit more than the magnitude has, for the sign.
    (65 - magnitude.leading_zeros() as usize).div_ceil(8)
}

fn read_int(bytes: &[u8]) -> i64 {
    let mut value = [0; 8];
    value[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(value) >> (64 - 8 * bytes.len())
}

/// Odd numbers without a pattern (digits of pi).
const SEEDS: [u64; 2] = [0x2437_6A88_85A3_08D3, 0x1319_8A2E_0370_7345];

/// Bytes of a long string's ends that its tag depends on.
const HASHED_SIZE_MAX: usize = 512;

#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = SEEDS[0] ^ (bytes.len() as u64).wrapping_mul(SEEDS[1]);
    let mut rest = bytes;
    if rest.len() > HASHED_SIZE_MAX {
        hash = fold(hash ^ word(&rest[..8]), SEEDS[0]);
        rest = &rest[rest.len() - HASHED_SIZE_MAX..];
    }
    while rest.len() > 16 {
        hash = fold(word(rest) ^ hash, word(&rest[8..]) ^ SEEDS[1]);
        rest = &rest[16..];
    }
    let (first, last) = match rest.len() {
        8.. => (word(rest), word(&rest[rest.len() - 8..])),
        4..8 => (half_word(rest), half_word(&rest[rest.len() - 4..])),
        1..4 => (u64::from(rest[0]) | u64::from(rest[rest.len() / 2]) << 8, u64::from(rest[rest.len() - 1])),
        0 => (0, 0),
    };
    fold(first ^ hash, last ^ SEEDS[1])
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn half_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
}

/// Both halves of a product.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &[u8]) -> usize {
        let item = Item::of_text(text);
        let encoded = Encoded::new(item);
        let mut buffer = vec![0xAA; encoded.size() + 1];
        assert_eq!(encoded.write(&mut buffer).len(), 1);
        assert_eq!(size_at(&buffer), encoded.size());
        assert_eq!(split(&buffer), (item, &[0xAA][..]));
        assert!(encoded.is_at(&buffer));
        assert!(!encoded.is_at(&buffer[..encoded.size() - 1]));
        let mut decimal = DecimalBuffer::new();
        assert_eq!(item.text(&mut decimal), text);
        assert!(item.is(text) && item.len() == text.len());
        assert!(encoded.size() <= text.len() + OVERHEAD_MAX);
        encoded.size()
    }

    #[test]
    fn every_text_round_trips() {
        for len in [0, 1, 127, 128, 255, 383, 384, 1000, 65_000] {
            let head_size = 1 + usize::from(len > 127) + usize::from(len > 383);
            assert_eq!(round_trip(&vec![b'x'; len]), len + head_size);
        }
        for text in ["-0", "007", "+1", "1.0", "9223372036854775808", "-"] {
            assert_eq!(round_trip(text.as_bytes()), text.len() + 1);
        }
    }

    #[test]
    fn integers_take_as_few_bytes_as_they_need() {
        let sizes: &[(i64, usize)] = &[
            (0, 1),
            (63, 1),
            (64, 2),
            (127, 2),
            (128, 3),
            (-1, 2),
            (-128, 2),
            (-129, 3),
            (32_767, 3),
            (32_768, 4),
            (-8_388_608, 4),
            (1 << 31, 6),
            (i64::MAX, 9),
            (i64::MIN, 9),
        ];
        for (value, size) in sizes {
            assert_eq!(round_trip(value.to_string().as_bytes()), *size, "{value}");
        }
    }

    // Statistics of safe code, and too many texts for Miri.
    #[cfg(not(miri))]
    #[test]
    fn tags_distinguish_similar_texts() {
        for make in [
            |n: u32| format!("field:{n:04}"),
            |n: u32| format!("{n:012}-and-then-the-same-end"),
            |n: u32| n.to_string(),
        ] {
            let mut counts = [0; 256];
            for number in 0..25_600 {
                counts[usize::from(Item::of_text(make(number).as_bytes()).tag())] += 1;
            }
            assert!(counts.iter().all(|count| (40..200).contains(count)), "{counts:?}");
        }
    }
}
