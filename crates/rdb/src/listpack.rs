//! Listpacks: a sequence of strings and integers in one piece of memory.
//!
//! Size in 4 bytes, number of elements in 2 (65535: more), the elements, 255. Each element ends with its size
//! without that suffix, seven bits a byte, so that it can be read backwards.

use collections::{Item, copy_short};

use crate::error::Fault;

/// Bytes before the first element.
const HEAD_SIZE: usize = 6;
const END: u8 = 0xff;
/// The number in the head of a listpack with this many elements or more.
const COUNT_MAX: usize = u16::MAX as usize;

/// Elements up to this size end with it in one byte.
const TAIL_BYTE_MAX: usize = 127;

/// The elements of a listpack that was validated as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Listpack<'a> {
    elements: &'a [u8],
    count: usize,
}

impl<'a> Listpack<'a> {
    /// Validates every element.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Fault> {
        open(bytes).ok_or(Fault::Listpack)
    }
}

/// Passes the elements to `visit` while it validates them: those before a fault, too.
pub(crate) fn visit(bytes: &[u8], mut visit: impl FnMut(Item<'_>)) -> Result<(), Fault> {
    let (count, mut rest) = parts(bytes).ok_or(Fault::Listpack)?;
    let mut found = 0;
    while !rest.is_empty() {
        let (item, behind) = read(rest).ok_or(Fault::Listpack)?;
        visit(item);
        rest = behind;
        found += 1;
    }
    if count == COUNT_MAX || count == found { Ok(()) } else { Err(Fault::Listpack) }
}

impl<'a> Iterator for Listpack<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let (item, rest) = read(self.elements)?;
        self.elements = rest;
        self.count -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Listpack<'_> {}

/// The number in the head, and the bytes of the elements.
fn parts(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?);
    let count = usize::from(u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?));
    let (&end, elements) = bytes.get(HEAD_SIZE..)?.split_last()?;
    if size as usize != bytes.len() || end != END {
        return None;
    }
    Some((count, elements))
}

fn open(bytes: &[u8]) -> Option<Listpack<'_>> {
    let (count, elements) = parts(bytes)?;
    let mut found = 0;
    let mut rest = elements;
    while !rest.is_empty() {
        (_, rest) = read(rest)?;
        found += 1;
    }
    (count == COUNT_MAX || count == found).then_some(Listpack { elements, count: found })
}

/// The first element, and the bytes after it.
// Passing the result through memory takes as long as the rest.
#[inline(always)]
fn read(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (item, rest) = match first {
        0..0x80 => (Item::Int(first.into()), rest),
        0x80..0xc0 => string(rest, usize::from(first & 0x3f))?,
        0xc0..0xe0 => {
            let (&low, rest) = rest.split_first()?;
            let value = i16::from(first & 0x1f) << 8 | i16::from(low);
            // 13 bits with a sign.
            (Item::Int(i64::from(value << 3 >> 3)), rest)
        }
        0xe0..0xf0 => {
            let (&low, rest) = rest.split_first()?;
            string(rest, usize::from(first & 0x0f) << 8 | usize::from(low))?
        }
        0xf0 => {
            let (len, rest) = rest.split_first_chunk()?;
            string(rest, u32::from_le_bytes(*len) as usize)?
        }
        0xf1 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Item::Int(i16::from_le_bytes(*value).into()), rest)
        }
        0xf2 => {
            let (&[a, b, c], rest) = rest.split_first_chunk()?;
            (Item::Int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)), rest)
        }
        0xf3 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Item::Int(i32::from_le_bytes(*value).into()), rest)
        }
        0xf4 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Item::Int(i64::from_le_bytes(*value)), rest)
        }
        _ => return None,
    };
    let size = bytes.len() - rest.len();
    // Nearly always one byte, for which a call to compare is too slow.
    if size <= TAIL_BYTE_MAX {
        let (&found, rest) = rest.split_first()?;
        return (usize::from(found) == size).then_some((item, rest));
    }
    let (tail, tail_size) = tail_of(size);
    let (found, rest) = rest.split_at_checked(tail_size)?;
    (found == &tail[..tail_size]).then_some((item, rest))
}

fn string(rest: &[u8], len: usize) -> Option<(Item<'_>, &[u8])> {
    let (text, rest) = rest.split_at_checked(len)?;
    Some((Item::Bytes(text), rest))
}

/// The size of an element in the form that ends it: seven bits a byte, the highest first, all but the first byte
/// marked.
#[inline]
fn tail_of(size: usize) -> ([u8; 5], usize) {
    let tail_size = match size {
        0..=TAIL_BYTE_MAX => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    };
    let mut tail = [0; 5];
    for (index, byte) in tail[..tail_size].iter_mut().enumerate() {
        let bits = (size >> (7 * (tail_size - 1 - index))) as u8 & 0x7f;
        *byte = if index == 0 { bits } else { bits | 0x80 };
    }
    (tail, tail_size)
}

/// Bytes of an element besides its text, at most.
const FRAME_SIZE_MAX: usize = 16;

/// A listpack that is being written.
#[derive(Debug)]
pub(crate) struct Builder {
    /// The first `size` bytes are written. The others are room, as growing for each part of an element takes longer than
    /// writing it.
    bytes: Vec<u8>,
    size: usize,
    count: usize,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEAD_SIZE], size: HEAD_SIZE, count: 0 }
    }

    /// Removes all elements.
    pub(crate) fn clear(&mut self) {
        self.size = HEAD_SIZE;
        self.count = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> usize {
        self.size + 1
    }

    /// Appends a string, as an integer if it is the text of one.
    #[inline]
    pub(crate) fn push_text(&mut self, text: &[u8]) {
        self.push(Item::of_text(text));
    }

    /// Appends an element.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'_>) {
        let len = match item {
            Item::Int(_) => 0,
            Item::Bytes(text) => text.len(),
        };
        if self.bytes.len() - self.size < len + FRAME_SIZE_MAX {
            self.grow(len + FRAME_SIZE_MAX);
        }
        let room = &mut self.bytes[self.size..];
        let size = match item {
            Item::Int(value) => write_int(value, room),
            Item::Bytes(text) => write_bytes(text, room),
        };
        let tail_size = if size <= TAIL_BYTE_MAX {
            room[size] = size as u8;
            1
        } else {
            let (tail, tail_size) = tail_of(size);
            room[size..size + tail_size].copy_from_slice(&tail[..tail_size]);
            tail_size
        };
        self.size += size + tail_size;
        self.count += 1;
    }

    #[cold]
    fn grow(&mut self, size: usize) {
        self.bytes.resize((self.size + size).max(2 * self.bytes.len()).max(512), 0);
    }

    /// The listpack. Call [`Self::clear`] before the next one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if self.size == self.bytes.len() {
            self.grow(1);
        }
        self.bytes[self.size] = END;
        let size = self.size + 1;
        self.bytes[..4].copy_from_slice(&(size as u32).to_le_bytes());
        let count = (self.count.min(COUNT_MAX) as u16).to_le_bytes();
        self.bytes[4..HEAD_SIZE].copy_from_slice(&count);
        &self.bytes[..size]
    }
}

/// Writes a string without its size at the end. Returns the number of bytes.
#[inline]
fn write_bytes(text: &[u8], room: &mut [u8]) -> usize {
    let head_size = match text.len() {
        len @ 0..64 => {
            room[0] = 0x80 | len as u8;
            1
        }
        len @ 64..4096 => {
            room[..2].copy_from_slice(&[0xe0 | (len >> 8) as u8, len as u8]);
            2
        }
        len => {
            room[0] = 0xf0;
            room[1..5].copy_from_slice(&(len as u32).to_le_bytes());
            5
        }
    };
    copy_short(text, &mut room[head_size..head_size + text.len()]);
    head_size + text.len()
}

/// Writes a number without its size at the end. Returns the number of bytes.
#[inline]
fn write_int(value: i64, room: &mut [u8]) -> usize {
    fn write<const SIZE: usize>(form: u8, value: i64, room: &mut [u8]) -> usize {
        room[0] = form;
        room[1..=SIZE].copy_from_slice(&value.to_le_bytes()[..SIZE]);
        1 + SIZE
    }
    match value {
        0..128 => {
            room[0] = value as u8;
            1
        }
        -4096..4096 => {
            room[..2].copy_from_slice(&[0xc0 | (value >> 8) as u8 & 0x1f, value as u8]);
            2
        }
        -0x8000..0x8000 => write::<2>(0xf1, value, room),
        -0x80_0000..0x80_0000 => write::<3>(0xf2, value, room),
        -0x8000_0000..0x8000_0000 => write::<4>(0xf3, value, room),
        _ => write::<8>(0xf4, value, room),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Vec<u8>> {
        let ints = [0, 127, 128, -1, 4095, -4096, 4096, 32_767, -32_768, 32_768, 8_388_607, -8_388_608];
        let long = [8_388_608, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
        let ints = ints.into_iter().chain(long).map(|value: i64| value.to_string().into_bytes());
        let lens = (0..70).chain([126, 127, 4095, 4096, 16_380, 70_000]);
        let texts = lens.map(|len: u32| (0..len).map(|at| b'a' + (at % 26) as u8).collect());
        ints.chain(texts).collect()
    }

    #[test]
    fn elements_round_trip() {
        let mut builder = Builder::new();
        for _ in 0..2 {
            builder.clear();
            items().iter().for_each(|item| builder.push_text(item));
            let listpack = Listpack::open(builder.finish()).expect("the input is valid");
            assert_eq!(listpack.len(), items().len());
            let mut buffer = collections::DecimalBuffer::new();
            let read: Vec<Vec<u8>> = listpack.map(|item| item.text(&mut buffer).to_vec()).collect();
            assert_eq!(read, items());
        }
    }

    #[test]
    fn truncated_and_wrongly_terminated_input_is_refused() {
        let mut builder = Builder::new();
        [&b"one"[..], b"2", b"-300"].iter().for_each(|item| builder.push_text(item));
        let bytes = builder.finish().to_vec();
        for cut in 0..bytes.len() {
            assert!(Listpack::open(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            if let Ok(listpack) = Listpack::open(&changed) {
                assert_eq!(listpack.len(), listpack.count());
            }
        }
        let mut wrong = bytes;
        wrong[4] = 4;
        assert!(Listpack::open(&wrong).is_err());
    }
}
