//! The words that stand for arguments: ordinary ones, and ones that servers have handled wrongly.

use crate::random::Random;

/// Few keys, so that commands access each other's values.
const KEYS: &[&str] = &["k0", "k1", "k2", "k3", "k4", "k5", "{t}a", "{t}b"];

const INTEGERS: &[&str] = &["0", "1", "-1", "2", "3", "7", "10", "100", "-100", "255", "65536"];
const EXTREME_INTEGERS: &[&str] = &[
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775806",
    "-9223372036854775808",
    "-9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "99999999999999999999999999",
];
const NO_INTEGERS: &[&str] =
    &["", "abc", "1.5", " 1", "1 ", "+1", "01", "-0", "1e3", "0x10", "--1", "1\0", "ten"];
const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3.25",
    "-2.5",
    "0.1",
    "1e3",
    "1.5e-3",
    "100000000000000000000",
    "5.0e10",
    "1e17",
    "123456789.123456789",
    "0.00000000001",
    "-0.1",
];
const ODD_FLOATS: &[&str] = &[
    "",
    "abc",
    "nan",
    "inf",
    "-inf",
    "+inf",
    "1e400",
    "1e5000",
    " 1",
    "1 ",
    "-0",
    ".5",
    "5.",
    "0x1p3",
    "1,5",
    "infinity",
    "1.7976931348623157e308",
    "5e-324",
    "1e-4000",
];
const SHORT_TEXTS: &[&str] = &[
    "",
    "a",
    "hello",
    "Hello World",
    "foobar",
    "ohmytext",
    "mynewtext",
    "0",
    "1",
    "\u{0}",
    "\u{ff}",
    "\"quoted\"",
    "a b",
    "\r\n",
    "*1",
    "$-1",
    "\u{00e9}",
];

/// Returns one of few keys, or rarely an unusual one.
pub fn key(random: &mut Random) -> Vec<u8> {
    match random.below(60) {
        0 => Vec::new(),
        1 => b"\x00\xff\r\n".to_vec(),
        2 => b"a key".to_vec(),
        3 => vec![b'k'; 300],
        _ => random.pick(KEYS).as_bytes().to_vec(),
    }
}

/// Returns an integer argument: small, at a limit, or invalid.
pub fn integer(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=9 => random.pick(INTEGERS),
        10..=15 => return random.between(-20, 20).to_string().into_bytes(),
        16..=17 => random.pick(EXTREME_INTEGERS),
        _ => random.pick(NO_INTEGERS),
    }
    .as_bytes()
    .to_vec()
}

/// Returns a position in a string, near its ends.
pub fn index(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=15 => random.between(-12, 40).to_string().into_bytes(),
        16 => random.between(-3000, 3000).to_string().into_bytes(),
        17..=18 => random.pick(EXTREME_INTEGERS).as_bytes().to_vec(),
        _ => random.pick(NO_INTEGERS).as_bytes().to_vec(),
    }
}

/// Returns an offset for SETRANGE, small enough that a server never needs hundreds of MB.
pub fn offset(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=15 => random.between(0, 40).to_string().into_bytes(),
        16 => random.between(0, 3000).to_string().into_bytes(),
        17 => random.pick(&["-1", "536870912", "536870911999", "9223372036854775807"]).as_bytes().to_vec(),
        18 => random.pick(NO_INTEGERS).as_bytes().to_vec(),
        _ => b"0".to_vec(),
    }
}

/// Returns a bit offset, equally limited.
pub fn bit_offset(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=14 => random.between(0, 200).to_string().into_bytes(),
        15..=16 => random.between(0, 30_000).to_string().into_bytes(),
        17 => random.pick(&["-1", "4294967296", "9223372036854775807", "4294967296000"]).as_bytes().to_vec(),
        18 => random.pick(NO_INTEGERS).as_bytes().to_vec(),
        _ => b"0".to_vec(),
    }
}

/// Returns a bit offset for BITFIELD: a number, or `#` and the number of a field.
pub fn field_offset(random: &mut Random) -> Vec<u8> {
    if random.chance(35) {
        return [b"#".as_slice(), random.between(0, 12).to_string().as_bytes()].concat();
    }
    bit_offset(random)
}

/// Returns a BITFIELD type, sometimes an invalid one.
pub fn field_type(random: &mut Random) -> Vec<u8> {
    const ODD: &[&str] = &["u64", "i65", "u0", "i0", "x8", "", "u", "i-1", "u8x", "I8", "u 8"];
    match random.below(20) {
        0 => random.pick(ODD).as_bytes().to_vec(),
        1..=9 => format!("i{}", random.between(1, 64)).into_bytes(),
        _ => format!("u{}", random.between(1, 63)).into_bytes(),
    }
}

/// Returns the id of a stream entry: one of few, a whole millisecond, or an invalid one.
pub fn entry_id(random: &mut Random) -> Vec<u8> {
    let ms = random.between(0, 9);
    match random.below(20) {
        0..=13 => format!("{ms}-{}", random.between(0, 3)),
        14..=16 => ms.to_string(),
        17 => format!("({ms}-1"),
        18 => {
            random.pick(&["-", "+", "$", ">", "18446744073709551615-18446744073709551615", "0-0"]).to_string()
        }
        _ => random
            .pick(&["", "1-", "-1", "x", "1-2-3", "1-x", "18446744073709551616-0", "01-02", "5-*"])
            .to_string(),
    }
    .into_bytes()
}

/// Returns the start of a range of entries.
pub fn start_id(random: &mut Random) -> Vec<u8> {
    if random.chance(40) { b"-".to_vec() } else { entry_id(random) }
}

/// Returns the end of a range of entries.
pub fn end_id(random: &mut Random) -> Vec<u8> {
    if random.chance(40) { b"+".to_vec() } else { entry_id(random) }
}

/// Returns the id after which XREAD reads.
pub fn read_id(random: &mut Random) -> Vec<u8> {
    if random.chance(60) { random.pick(&["0", "$", "+"]).as_bytes().to_vec() } else { entry_id(random) }
}

/// Returns the id after which XREADGROUP reads.
pub fn group_read_id(random: &mut Random) -> Vec<u8> {
    if random.chance(80) { random.pick(&[">", ">", "0"]).as_bytes().to_vec() } else { entry_id(random) }
}

/// Returns the name of a field, a member, a group or a consumer: one of few.
pub fn name(random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => Vec::new(),
        1 => b"\x00\xff".to_vec(),
        2 => vec![b'n'; 100],
        _ => random.pick(&["a", "b", "c", "d", "1", "-2"]).as_bytes().to_vec(),
    }
}

/// Returns a float argument.
pub fn float(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=12 => random.pick(FLOATS).as_bytes().to_vec(),
        13..=15 => random.pick(ODD_FLOATS).as_bytes().to_vec(),
        _ => integer(random),
    }
}

/// Returns a value to store.
pub fn value(random: &mut Random) -> Vec<u8> {
    match random.below(24) {
        0..=5 => integer(random),
        6..=7 => float(random),
        8..=15 => random.pick(SHORT_TEXTS).as_bytes().to_vec(),
        16..=18 => (0..random.below(40)).map(|_| random.next_u64() as u8).collect(),
        19..=21 => (0..random.below(80)).map(|_| *random.pick(b"abcd")).collect(),
        22 => vec![b'x'; random.pick(&[43, 44, 45, 63, 64, 65, 128, 1024, 3000]).to_owned()],
        _ => (0..random.below(600)).map(|_| random.next_u64() as u8).collect(),
    }
}

/// Returns a member of a set or sorted set: one of few, so that they overlap, or one too long for a compact
/// encoding.
pub fn member(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0..=21 => random.between(-3, 12).to_string().into_bytes(),
        22..=33 => vec![*random.pick(b"abcdef")],
        34 => vec![b'x'; *random.pick(&[64, 65, 255, 256, 5000])],
        35 => random.pick(EXTREME_INTEGERS).as_bytes().to_vec(),
        36 => random.pick(NO_INTEGERS).as_bytes().to_vec(),
        _ => value(random),
    }
}

/// Returns a member of a large collection: one of many short ones, or rarely a long one.
pub fn deep_member(random: &mut Random) -> Vec<u8> {
    let number = random.below(600);
    match number % 97 {
        0 => format!("{number}{}", "x".repeat(100 + number)).into_bytes(),
        1 => number.to_string().into_bytes(),
        _ => format!("m{number}").into_bytes(),
    }
}

/// Returns one of many numbers.
pub fn deep_number(random: &mut Random) -> Vec<u8> {
    random.between(-500, 500).to_string().into_bytes()
}

/// Returns a position in a large collection, from either end.
pub fn deep_index(random: &mut Random) -> Vec<u8> {
    random.between(-400, 400).to_string().into_bytes()
}

/// Returns the id that the server generates.
pub fn auto_id(_: &mut Random) -> Vec<u8> {
    b"*".to_vec()
}

/// Returns an id whose second half the server generates.
pub fn half_auto_id(random: &mut Random) -> Vec<u8> {
    format!("{}-*", random.between(1, 40)).into_bytes()
}

/// Returns the maximum of all ids, and of all members.
pub fn highest(_: &mut Random) -> Vec<u8> {
    b"+".to_vec()
}

/// Returns seconds until expiry: long enough to be equal on all servers, in the past, or invalid. No two are
/// equal: GT and LT of equal expiries depend on the millisecond.
pub fn seconds(random: &mut Random) -> Vec<u8> {
    let future = random.between(100_000, 30_000_000).to_string();
    time(random, &future, &["0", "-1", "-100000"])
}

/// Returns milliseconds until expiry, likewise.
pub fn milliseconds(random: &mut Random) -> Vec<u8> {
    let future = random.between(100_000_000, 30_000_000_000).to_string();
    time(random, &future, &["0", "-1", "-1000000"])
}

/// Returns a Unix time in seconds, far in the past or the future.
pub fn unix_seconds(random: &mut Random) -> Vec<u8> {
    let future = *random.pick(&["4102444800", "33177117420", "9223372036854775"]);
    time(random, future, &["0", "1", "-1", "1000000000"])
}

/// Returns a Unix time in milliseconds, likewise.
pub fn unix_milliseconds(random: &mut Random) -> Vec<u8> {
    let future = *random.pick(&["4102444800000", "33177117420000"]);
    time(random, future, &["0", "1", "-1", "1000000000000"])
}

fn time(random: &mut Random, future: &str, past: &[&str]) -> Vec<u8> {
    match random.below(20) {
        0..=12 => future,
        13..=16 => random.pick(past),
        17..=18 => random.pick(EXTREME_INTEGERS),
        _ => random.pick(NO_INTEGERS),
    }
    .as_bytes()
    .to_vec()
}

/// Returns a database number; only the first four are compared.
pub fn database(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=16 => random.between(0, 3).to_string().into_bytes(),
        17 => random.pick(&["15", "16", "-1", "1000000"]).as_bytes().to_vec(),
        _ => integer(random),
    }
}

/// Returns a glob-style pattern.
pub fn pattern(random: &mut Random) -> Vec<u8> {
    const PATTERNS: &[&str] = &[
        "*", "k*", "k?", "k[0-2]", "k[^0]", "*a", "{t}*", "k[2-0]", "[", "k\\0", "**", "?", "", "k[01",
        "*k*", "a key", "k[0\\]]",
    ];
    random.pick(PATTERNS).as_bytes().to_vec()
}

/// Returns a key prefix.
pub fn prefix(random: &mut Random) -> Vec<u8> {
    random.pick(&["k", "{t}", "k1", "k2", "k", "x", ""]).as_bytes().to_vec()
}

/// Returns a word that fits no particular argument.
pub fn odd(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => Vec::new(),
        1 => integer(random),
        2 => b"NX".to_vec(),
        3 => b"GET".to_vec(),
        4 => b"EX".to_vec(),
        5 => b"\xfe\x00\r\n".to_vec(),
        6 => key(random),
        _ => value(random),
    }
}

/// Returns a score, mostly a small one, so that members have equal scores.
pub fn score(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=11 => random.between(-3, 6).to_string().into_bytes(),
        12..=13 => random.pick(&["inf", "-inf", "+inf", "-0"]).as_bytes().to_vec(),
        _ => float(random),
    }
}

/// Returns a bound of a range of scores.
pub fn score_end(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=7 => score(random),
        8..=12 => [b"(".as_slice(), &score(random)].concat(),
        13..=15 => b"-inf".to_vec(),
        16..=18 => b"+inf".to_vec(),
        _ => odd(random),
    }
}

/// Returns a bound of a range of members.
pub fn member_end(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=7 => [b"[".as_slice(), &member(random)].concat(),
        8..=13 => [b"(".as_slice(), &member(random)].concat(),
        14..=16 => b"-".to_vec(),
        17..=18 => b"+".to_vec(),
        _ => odd(random),
    }
}

/// Returns a key of sorted sets with equal scores, as ranges of members require.
pub fn equal_key(random: &mut Random) -> Vec<u8> {
    random.pick(&["equal0", "equal1"]).as_bytes().to_vec()
}

/// Returns a longitude or a latitude.
pub fn coordinate(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=13 => format!("{}.{}", random.between(-84, 84), random.between(0, 999_999)).into_bytes(),
        14..=16 => {
            random.pick(&["0", "85.05112878", "-85", "84.9", "13.361389", "38.115556"]).as_bytes().to_vec()
        }
        17 => random.pick(&["180", "-180", "181", "86", "-85.1"]).as_bytes().to_vec(),
        _ => float(random),
    }
}

/// Returns a distance: of a street, a country or the world.
pub fn distance(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=17 => random.pick(&["0", "1", "150.5", "1000", "5000", "9000", "25000"]).as_bytes().to_vec(),
        _ => float(random),
    }
}
