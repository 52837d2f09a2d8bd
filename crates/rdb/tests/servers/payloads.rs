//! Payloads of servers: they decode to the server's value, round-trip through every version,
//! and no change of them does harm.

use crate::support::{Fixture, describe, unhex};
use collections::{Collection, Object};
use rdb::{Payload, PayloadChecks, PayloadError, Value, Version};

/// A payload of a server.
struct Golden {
    server: &'static str,
    name: &'static str,
    payload: Vec<u8>,
    value: &'static str,
}

/// The payloads that `fixtures/generate` has written.
fn goldens() -> Vec<Golden> {
    let lines = include_str!("fixtures/payloads.txt").lines();
    lines
        .map(|line| {
            let (head, value) = line.split_once(" | ").expect("a description");
            let mut words = head.split(' ');
            let mut word = || words.next().expect("server, name and payload");
            Golden { server: word(), name: word(), payload: unhex(word()), value }
        })
        .collect()
}

#[test]
fn values_of_servers_are_read() {
    let fixture = Fixture::new();
    for golden in goldens() {
        let value = fixture.open(&golden.payload);
        let value = value.unwrap_or_else(|error| panic!("{} {}: {error}", golden.server, golden.name));
        assert_eq!(describe(&fixture, &value), golden.value, "{} {}", golden.server, golden.name);
        check(&fixture, &value);
    }
}

#[test]
fn values_round_trip_through_every_version() {
    let fixture = Fixture::new();
    for golden in goldens() {
        let value = fixture.open(&golden.payload).expect("a server made it");
        for version in [Version::V9, Version::V11, Version::V12, Version::V80] {
            for is_packing in [false, true] {
                let Some(payload) = fixture.dump(&value, version, is_packing) else {
                    assert!(golden.value.contains('@') && !version.has_field_expiries());
                    continue;
                };
                let again = fixture.open(&payload).expect("it was written here");
                let mut expected = golden.value.to_owned();
                if version == Version::V9 && golden.value.starts_with("stream ") {
                    // That version has no counts and no times of activity.
                    expected = described_head(&expected);
                    assert_eq!(described_head(&describe(&fixture, &again)), expected);
                    continue;
                }
                assert_eq!(describe(&fixture, &again), expected, "{} {version:?}", golden.name);
            }
        }
    }
}

/// The description of a stream up to its counts, and its entries.
fn described_head(text: &str) -> String {
    let is_old = |word: &&str| word.starts_with("last=") || word.contains(':');
    text.split(' ').filter(is_old).collect::<Vec<_>>().join(" ")
}

/// Forms in which no order, time or choice of a compressor shows are those of Valkey, byte for byte.
#[test]
fn deterministic_encodings_equal_those_of_valkey() {
    let fixture = Fixture::new();
    let exact = ["string", "set-intset", "zset-", "list-listpack", "hash-listpack", "stream"];
    let mut count = 0;
    for golden in goldens().iter().filter(|golden| golden.server == "valkey") {
        let value = fixture.open(&golden.payload).expect("a server made it");
        // Compressed strings have this byte.
        let is_packed = golden.payload.contains(&0xc3);
        if is_packed || !exact.iter().any(|name| golden.name.starts_with(name)) {
            continue;
        }
        assert_eq!(
            fixture.dump(&value, Version::V80, false),
            Some(golden.payload.clone()),
            "{}",
            golden.name
        );
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn damaged_input_is_an_error_or_harmless() {
    let fixture = Fixture::new();
    for golden in goldens() {
        let Payload { version, type_byte, value } =
            Payload::open(&golden.payload, PayloadChecks::ALL).expect("the payload is complete");
        let types =
            [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];
        for cut in 0..value.len() {
            let bytes = sealed(version, type_byte, &value[..cut]);
            assert!(fixture.open(&bytes).is_err(), "{} {} cut to {cut}", golden.server, golden.name);
        }
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut changed = value.to_vec();
                changed[at] ^= 1 << bit;
                open_all(&fixture, version, &[type_byte], &changed);
            }
        }
        // And as a different type.
        open_all(&fixture, version, &types, value);
    }
}

fn open_all(fixture: &Fixture, version: Version, types: &[u8], value: &[u8]) {
    for type_byte in types {
        if rdb::ValueType::of_byte(*type_byte, version.family).is_err() {
            continue;
        }
        let bytes = sealed(version, *type_byte, value);
        if let Ok(value) = fixture.open(&bytes) {
            check(fixture, &value);
        }
    }
}

fn sealed(version: Version, type_byte: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = [&[type_byte], value].concat();
    Payload::seal(version, &mut bytes);
    bytes
}

/// The value holds the invariants of its type.
fn check(fixture: &Fixture, value: &Value<'_>) {
    let Value::Object(object) = value else { return };
    match object {
        Object::List(list) => {
            list.check();
            assert!(!list.is_empty());
        }
        Object::Set(set) => assert_eq!(set.check(fixture.alloc_context()), Ok(())),
        Object::Hash(hash) => assert_eq!(hash.check(fixture.alloc_context()), Ok(())),
        Object::SortedSet(set) => assert_eq!(set.check(fixture.alloc_context()), Ok(())),
        Object::Stream(stream) => stream.check(),
        _ => panic!("an unknown type"),
    }
}

#[test]
fn invalid_payloads_are_refused() {
    let golden = &goldens()[0].payload;
    let wrong = Err(PayloadError::VersionOrChecksum);
    for cut in 0..golden.len() {
        assert!(Payload::open(&golden[..cut], PayloadChecks::ALL).is_err());
    }
    for at in 0..golden.len() {
        let mut changed = golden.clone();
        changed[at] ^= 4;
        assert_eq!(Payload::open(&changed, PayloadChecks::ALL), wrong);
    }
    for number in [0_u16, 16, 79, 82, u16::MAX] {
        let mut bytes = b"\0\x01a".to_vec();
        bytes.extend(number.to_le_bytes());
        bytes.extend(rdb::Checksum::of(&bytes).to_le_bytes());
        assert_eq!(Payload::open(&bytes, PayloadChecks::ALL), wrong, "{number}");
        let unknown = PayloadChecks { version: false, ..PayloadChecks::ALL };
        assert_eq!(Payload::open(&bytes, unknown).is_ok(), number > 0);
    }
    let mut nothing = Vec::new();
    Payload::seal(Version::V11, &mut nothing);
    assert_eq!(Payload::open(&nothing, PayloadChecks::ALL), Err(PayloadError::NoType));
}
