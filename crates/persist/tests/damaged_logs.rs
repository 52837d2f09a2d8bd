//! The reader of append-only files on damaged input: every truncation and every flipped bit of a small file. It never
//! panics, does not depend on where its input is cut, and reports the valid length of the file.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use persist::reading::{Item, Reader};

/// The offsets behind the items of a file that is read in portions of this size, whether it ends with an error, and the reader.
fn read_all(data: &[u8], portion: usize) -> (Vec<u64>, bool, Reader) {
    let mut reader = Reader::new(0);
    let mut offsets = Vec::new();
    let mut end = 0;
    loop {
        let at = reader.offset() as usize;
        match reader.read(&data[at..end]) {
            Ok(Item::Incomplete(size)) => {
                assert!(at as u64 + size > end as u64, "a request extends past the end of the input");
                if end == data.len() {
                    return (offsets, false, reader);
                }
                end = (end + portion).min(data.len());
            }
            Ok(item) => {
                let within = |argument: &std::ops::Range<usize>| at + argument.end < end;
                assert!(item != Item::Request || reader.arguments().iter().all(within));
                offsets.push(reader.offset());
            }
            Err(error) => {
                assert!(error.offset <= end as u64);
                return (offsets, true, reader);
            }
        }
    }
}

fn check(data: &[u8]) {
    let (offsets, is_corrupt, reader) = read_all(data, data.len().max(1));
    let valid = reader.valid_up_to() as usize;
    let (by_parts, is_corrupt_by_parts, reader_by_parts) = read_all(data, 1);
    assert_eq!((&offsets, is_corrupt), (&by_parts, is_corrupt_by_parts));
    assert_eq!(reader_by_parts.valid_up_to() as usize, valid);
    let (_, is_corrupt, reader) = read_all(&data[..valid], valid.max(1));
    assert!(!is_corrupt && !reader.in_transaction());
    assert_eq!(reader.offset() as usize, valid);
}

const FILE: &[u8] = b"#TS:1628217470\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$13\r\n\r\n*1\r\n$1\r\na\r\n\r\n\
    *1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$0\r\n\r\n*1\r\n$4\r\nexec\r\n";

#[test]
fn truncated_files() {
    for cut in 0..=FILE.len() {
        check(&FILE[..cut]);
    }
    assert_eq!(read_all(FILE, 7).2.valid_up_to(), FILE.len() as u64);
}

#[test]
fn files_with_a_flipped_bit_or_another_byte() {
    for place in 0..FILE.len() {
        let damages = (0..8).map(|bit| FILE[place] ^ 1 << bit).chain(*b"\r\n*$-9#\0");
        for damage in damages {
            let mut damaged = FILE.to_vec();
            damaged[place] = damage;
            check(&damaged);
        }
    }
}
