//! Zipmaps, the small hashes of Redis up to 2.4. Only read.
//!
//! Number of pairs in a byte (254: more), pairs of a key and a value, 255. A value has unused bytes behind it, whose
//! number precedes it.

use crate::error::Fault;

const END: u8 = 0xff;
const LONG: u8 = 0xfe;

type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a zipmap.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Pair<'_>>, Fault> {
    read_all(bytes).ok_or(Fault::Zipmap)
}

fn read_all(bytes: &[u8]) -> Option<Vec<Pair<'_>>> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut pairs = Vec::new();
    loop {
        if let [END, behind @ ..] = rest {
            let is_right = behind.is_empty() && (count >= LONG || usize::from(count) == pairs.len());
            return is_right.then_some(pairs);
        }
        let (key_len, behind) = len(rest)?;
        let (key, behind) = behind.split_at_checked(key_len)?;
        let (value_len, behind) = len(behind)?;
        let (&unused, behind) = behind.split_first()?;
        let (value, behind) = behind.split_at_checked(value_len)?;
        rest = behind.get(usize::from(unused)..)?;
        pairs.push((key, value));
    }
}

fn len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (&END, _) => None,
        (&LONG, rest) => {
            let (len, rest) = rest.split_first_chunk()?;
            let len = u32::from_le_bytes(*len);
            // A short length has the short form only.
            (len >= LONG.into()).then_some((len as usize, rest))
        }
        (&len, rest) => Some((len.into(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";
        let expected: Vec<Pair<'_>> = vec![(b"foo", b"bar"), (b"hello", b"world")];
        assert_eq!(read(bytes), Ok(expected));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Err(Fault::Zipmap));
        }
        assert_eq!(read(b"\x00\xff"), Ok(Vec::new()));
        assert_eq!(read(b"\x01\xff"), Err(Fault::Zipmap));
        assert_eq!(read(b"\x00\xff\xff"), Err(Fault::Zipmap));
        assert_eq!(read(b"\x01\xfe\x01\x00\x00\x00a\x01\x00b\xff"), Err(Fault::Zipmap));
        let long = [&b"\xfe\x01a\xfe\x2c\x01\x00\x00\x00"[..], &[b'v'; 300], b"\xff"].concat();
        assert_eq!(read(&long), Ok(vec![(&b"a"[..], &[b'v'; 300][..])]));
    }
}
