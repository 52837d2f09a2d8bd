//! Files that servers saved, cut into records from pieces of any size.

use crate::support::{Fixture, describe};
use rdb::{Cutter, Error, Event, Fault, ValueType};

const FILES: [(&str, &[u8]); 3] = [
    ("valkey", include_bytes!("fixtures/valkey.rdb")),
    ("redis-8.0", include_bytes!("fixtures/redis-8.0.rdb")),
    ("redis-next", include_bytes!("fixtures/redis-next.rdb")),
];

/// The descriptions of a file's events, from pieces of a size.
fn events(fixture: &Fixture, file: &[u8], piece_size: usize) -> Result<Vec<String>, Error> {
    let mut cutter = Cutter::new(true);
    let mut events = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut pieces = file.chunks(piece_size);
    loop {
        let Some(cut) = cutter.next(&buffer)? else {
            match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return Err(cutter.unexpected_end(buffer.len())),
            }
            continue;
        };
        let is_end = matches!(cut.event, Event::End { .. });
        events.push(match cut.event {
            Event::Key(record) => {
                let value =
                    fixture.decode(record.value_type, record.value).map(|value| describe(fixture, &value));
                let key = record.key.escape_ascii();
                format!("{} {key} {:?} {value:?}", record.db, record.expiry)
            }
            other => format!("{other:?}"),
        });
        let size = cut.size;
        buffer.drain(..size);
        if is_end {
            return Ok(events);
        }
    }
}

#[test]
fn files_of_servers_are_read_in_any_pieces() {
    let fixture = Fixture::new();
    for (server, file) in FILES {
        let whole = events(&fixture, file, file.len()).unwrap_or_else(|error| panic!("{server}: {error}"));
        let goldens = include_str!("fixtures/payloads.txt").lines().filter(|line| line.starts_with(server));
        for golden in goldens {
            let (head, value) = golden.split_once(" | ").expect("a description");
            let name = head.split(' ').nth(1).expect("a name");
            let expected = format!("0 {name} None Ok({value:?})");
            assert!(whole.contains(&expected), "{server} {name}: {expected}");
        }
        assert!(whole.contains(&"0 expiring Some(4102444800000) Ok(\"string 736f6f6e\")".to_owned()));
        assert!(whole.contains(&"3 in-db-3 None Ok(\"string 78\")".to_owned()));
        assert!(whole.iter().any(|event| event.starts_with("Function(")), "{server}");
        assert_eq!(whole.last().map(String::as_str), Some("End { is_checked: true }"));
        for piece_size in [1, 2, 7, 100, 4096] {
            assert_eq!(events(&fixture, file, piece_size).as_ref(), Ok(&whole), "{server} by {piece_size}");
        }
    }
}

#[test]
fn damaged_input_is_an_error_or_harmless() {
    let fixture = Fixture::new();
    for (_, file) in &FILES[..1] {
        for cut in 0..file.len() {
            let error = events(&fixture, &file[..cut], usize::MAX).expect_err("the input is truncated");
            assert_eq!(error.fault, Fault::Truncated);
        }
        // The version decides whether there is a checksum.
        for at in 9..file.len() {
            let mut changed = file.to_vec();
            changed[at] ^= 1 << (at % 7);
            let error = events(&fixture, &changed, usize::MAX).expect_err("the checksum differs at least");
            assert!(error.offset <= file.len() as u64);
        }
    }
}

#[test]
fn errors_name_the_key() {
    let file = b"REDIS0011\x00\x01a\x01b\x1e\x03key";
    let mut cutter = Cutter::new(true);
    let mut rest = &file[..];
    let error = loop {
        match cutter.next(rest) {
            Ok(Some(cut)) => rest = &rest[cut.size..],
            Ok(None) => panic!("the file contains an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "unknown type 30 at offset 14, key \"key\"");
}

/// Types and opcodes above 21 differ between the families.
#[test]
fn type_numbers_depend_on_the_family() {
    let fixture = Fixture::new();
    for (magic, value_type) in
        [("VALKEY080", ValueType::HashWithTimes), ("REDIS0012", ValueType::HashAbsolute)]
    {
        let value: &[u8] = match value_type {
            ValueType::HashWithTimes => b"\x01\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff",
            _ => b"\x01\x00\x01a\x01b",
        };
        let file = [magic.as_bytes(), b"\x16\x03key", value, b"\xff\0\0\0\0\0\0\0\0"].concat();
        let found = events(&fixture, &file, 3).expect("the input is valid");
        assert_eq!(found[1], "0 key None Ok(\"hash 61=62\")");
        assert_eq!(found[2], "End { is_checked: false }");
    }
}

/// Opcodes that no server here writes: attributes of keys, numbers of keys, old expiries, data of modules and
/// imports of slots.
#[test]
fn other_opcodes_are_read() {
    let fixture = Fixture::new();
    let body = b"\xfb\x02\x01\xf4\x05\x01\x00\xfd\x10\x00\x00\x00\xf8\x07\xf9\x08\x00\x01a\x01b";
    let module = b"\xf7\x81\0\0\0\0\0\0\0\x05\x02\x01\x05\x02hi\x02\x07\x04\0\0\0\0\0\0\0\0\x03\0\0\0\0\0";
    let import = b"\xf3\x04name\x01\x00\x05";
    let end = b"\xff\0\0\0\0\0\0\0\0";
    let file = [b"VALKEY080", &body[..], module, import, end].concat();
    for piece_size in [1, file.len()] {
        let found = events(&fixture, &file, piece_size).expect("the input is valid");
        let expected = [
            "Header(Version { family: Valkey, number: 80 })",
            "Resize { key_count: 2, volatile_count: 1 }",
            "Slot",
            "0 a Some(16000) Ok(\"string 62\")",
            "ModuleAux(5)",
            "Slot",
            "End { is_checked: false }",
        ];
        assert_eq!(found, expected);
    }
    let metadata = b"\xf3\x01abcd\x02\x07\x00\x00\x01a\x01b";
    let file = [b"REDIS0013", &metadata[..], end].concat();
    assert_eq!(events(&fixture, &file, 1).expect("the input is valid")[1], "0 a None Ok(\"string 62\")");
}
