//! The length of a member before its bytes: one byte, or two with the top bit of the first set.

/// From this length on, it takes two bytes.
const LONG: usize = 0x80;

/// Bytes that the length takes.
#[inline]
pub(super) fn len_size(len: usize) -> usize {
    1 + usize::from(len >= LONG)
}

/// Bytes that the lengths of this many members take, of this many bytes together, if these are about equally long.
pub(super) fn lens_size(count: usize, members_size: usize) -> usize {
    if members_size < count * LONG { count } else { 2 * count }
}

/// The length at the beginning of these bytes, and how many bytes it takes.
#[inline]
pub(super) fn read_len(bytes: &[u8]) -> (usize, usize) {
    match usize::from(bytes[0]) {
        len if len < LONG => (len, 1),
        first => ((first - LONG) << 8 | usize::from(bytes[1]), 2),
    }
}

/// Writes a length to the beginning of these bytes. Returns how many it takes.
#[inline]
pub(super) fn write_len(len: usize, bytes: &mut [u8]) -> usize {
    if len >= LONG {
        (bytes[0], bytes[1]) = ((LONG | len >> 8) as u8, len as u8);
        return 2;
    }
    bytes[0] = len as u8;
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_written() {
        for len in [0, 1, LONG - 1, LONG, 255, 256, 4096, 0x7FFF] {
            let mut bytes = [0; 2];
            let size = write_len(len, &mut bytes);
            assert_eq!((read_len(&bytes[..size]), size), ((len, size), len_size(len)));
        }
    }
}
