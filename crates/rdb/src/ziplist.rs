//! Ziplists, the predecessors of listpacks (up to Redis 6.2). Only read.
//!
//! Size and offset of the last element in 4 bytes each, number of elements in 2 (65535: more), the elements, 255.
//! Each element begins with the size of the element before it.

use collections::Item;

use crate::error::Fault;

const HEAD_SIZE: usize = 10;
const END: u8 = 0xff;
/// Marks a size of the preceding element in four bytes.
const LONG_SIZE: u8 = 0xfe;
const COUNT_MAX: usize = u16::MAX as usize;

/// The elements of a ziplist.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Item<'_>>, Fault> {
    read_all(bytes).ok_or(Fault::Ziplist)
}

fn read_all(bytes: &[u8]) -> Option<Vec<Item<'_>>> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let last_offset = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let count = usize::from(u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?));
    let (&end, mut rest) = bytes.get(HEAD_SIZE..)?.split_last()?;
    if size != bytes.len() || end != END {
        return None;
    }
    let mut items = Vec::new();
    let (mut before_size, mut offset) = (0, HEAD_SIZE);
    let mut found_last = HEAD_SIZE;
    while !rest.is_empty() {
        let (item, behind) = element(rest, before_size)?;
        items.push(item);
        before_size = rest.len() - behind.len();
        found_last = offset;
        offset += before_size;
        rest = behind;
    }
    let is_right = last_offset == found_last && (count == COUNT_MAX || count == items.len());
    is_right.then_some(items)
}

fn element(bytes: &[u8], before_size: usize) -> Option<(Item<'_>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (announced, rest) = match first {
        END => return None,
        LONG_SIZE => {
            let (size, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*size) as usize, rest)
        }
        size => (usize::from(size), rest),
    };
    if announced != before_size {
        return None;
    }
    let (&encoding, rest) = rest.split_first()?;
    let (len, rest) = match encoding {
        0..0x40 => (usize::from(encoding), rest),
        0x40..0x80 => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(encoding & 0x3f) << 8 | usize::from(low), rest)
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*len) as usize, rest)
        }
        _ => return integer(encoding, rest),
    };
    let (text, rest) = rest.split_at_checked(len)?;
    Some((Item::Bytes(text), rest))
}

fn integer(encoding: u8, rest: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (value, rest) = match encoding {
        0xc0 => {
            let (value, rest) = rest.split_first_chunk()?;
            (i16::from_le_bytes(*value).into(), rest)
        }
        0xd0 => {
            let (value, rest) = rest.split_first_chunk()?;
            (i32::from_le_bytes(*value).into(), rest)
        }
        0xe0 => {
            let (value, rest) = rest.split_first_chunk()?;
            (i64::from_le_bytes(*value), rest)
        }
        0xf0 => {
            let (&[a, b, c], rest) = rest.split_first_chunk()?;
            (i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), rest)
        }
        0xf1..=0xfd => (i64::from(encoding & 0x0f) - 1, rest),
        0xfe => {
            let (value, rest) = rest.split_first_chunk()?;
            (i8::from_le_bytes(*value).into(), rest)
        }
        _ => return None,
    };
    Some((Item::Int(value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ziplist of these elements, each with its encoding.
    fn ziplist(elements: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        let (mut before, mut last) = (0_usize, HEAD_SIZE);
        for element in elements {
            last = HEAD_SIZE + body.len();
            let start = body.len();
            if before < usize::from(LONG_SIZE) {
                body.push(before as u8);
            } else {
                body.push(LONG_SIZE);
                body.extend((before as u32).to_le_bytes());
            }
            body.extend_from_slice(element);
            before = body.len() - start;
        }
        let mut bytes = ((HEAD_SIZE + body.len() + 1) as u32).to_le_bytes().to_vec();
        bytes.extend((last as u32).to_le_bytes());
        bytes.extend((elements.len() as u16).to_le_bytes());
        bytes.extend(body);
        bytes.push(END);
        bytes
    }

    #[test]
    fn every_encoding_is_read() {
        let long = [&[0x40 | 1, 44][..], &[b'y'; 300]].concat();
        let longer = [&[0x80, 0, 0, 0x40, 0][..], &[b'z'; 16_384]].concat();
        let bytes = ziplist(&[
            &[3, b'a', b'b', b'c'],
            &long,
            &longer,
            &[0xc0, 0xfe, 0xff],
            &[0xd0, 0, 0, 0, 0x80],
            &[0xe0, 1, 0, 0, 0, 0, 0, 0, 0x80],
            &[0xf0, 0xff, 0xff, 0x7f],
            &[0xf1],
            &[0xfd],
            &[0xfe, 0x80],
        ]);
        let expected = vec![
            Item::Bytes(b"abc"),
            Item::Bytes(&[b'y'; 300]),
            Item::Bytes(&[b'z'; 16_384]),
            Item::Int(-2),
            Item::Int(-2_147_483_648),
            Item::Int(i64::MIN + 1),
            Item::Int(8_388_607),
            Item::Int(0),
            Item::Int(12),
            Item::Int(-128),
        ];
        assert_eq!(read(&bytes), Ok(expected));
        assert_eq!(read(&ziplist(&[])), Ok(Vec::new()));
    }

    #[test]
    fn a_change_of_sizes_is_noticed() {
        let bytes = ziplist(&[&[1, b'a'], &[0xf5]]);
        assert!(read(&bytes).is_ok());
        for at in [0, 4, 8, 10, 13] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed), Err(Fault::Ziplist), "{at}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Err(Fault::Ziplist));
        }
    }
}
