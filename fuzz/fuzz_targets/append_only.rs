//! The reader of append-only files never panics, reads any pieces equally, and reports the valid length.

#![no_main]

use libfuzzer_sys::fuzz_target;
use persist::reading::{Item, Reader};

/// The items of a file that is read in portions of this size at least, and how it ends.
fn read_all(data: &[u8], portion: usize) -> (Vec<(u64, Item)>, bool, Reader) {
    let mut reader = Reader::new(0);
    let mut items = Vec::new();
    let mut end = 0;
    loop {
        let at = reader.offset() as usize;
        match reader.read(&data[at..end]) {
            Ok(Item::Incomplete(size)) => {
                assert!(at as u64 + size > end as u64, "a request extends past the end of the input");
                if end == data.len() {
                    return (items, false, reader);
                }
                end = (end + portion).min(data.len());
            }
            Ok(item) => {
                assert!(reader.offset() as usize > at && reader.offset() as usize <= end);
                if item == Item::Request {
                    assert!(reader.arguments().iter().all(|argument| at + argument.end < end));
                }
                items.push((reader.offset(), item));
            }
            Err(error) => {
                assert!(error.offset <= end as u64);
                return (items, true, reader);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (items, is_corrupt, reader) = read_all(data, data.len());
    let valid = reader.valid_up_to() as usize;
    assert!(valid as u64 <= reader.offset());
    let (by_parts, is_corrupt_by_parts, reader_by_parts) = read_all(data, 1);
    assert_eq!((&items, is_corrupt), (&by_parts, is_corrupt_by_parts));
    assert_eq!(reader_by_parts.valid_up_to() as usize, valid);
    // The valid part is valid by itself, and ends outside of a transaction.
    let (_, is_corrupt, reader) = read_all(&data[..valid], valid);
    assert!(!is_corrupt && !reader.in_transaction() && reader.offset() as usize == valid);
});
