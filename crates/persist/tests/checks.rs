//! `check-aof` on files in memory: its reports, its repairs and its refusals.
#![allow(clippy::unwrap_used)]

use persist::check::{Mode, Request, check};
use persist::disk::crashing::{CrashingDisk, Failing};
use persist::disk::{Disk, DiskFile};
use std::path::Path;

const PING: &str = "*1|$4|PING|";
const MULTI: &str = "*1|$5|MULTI|";
const EXEC: &str = "*1|$4|EXEC|";
/// A snapshot of Redis 7 without keys, and without a checksum.
const EMPTY_RDB: &[u8] = b"REDIS0011\xff\0\0\0\0\0\0\0\0";

fn disk_with(files: &[(&str, &[u8])]) -> CrashingDisk {
    let disk = CrashingDisk::new(0, Failing::Nothing);
    for (name, bytes) in files {
        disk.create(Path::new(name)).unwrap().append(bytes).unwrap();
    }
    disk
}

/// `|` stands for CR LF.
fn bytes(text: &str) -> Vec<u8> {
    text.replace('|', "\r\n").into_bytes()
}

/// Runs the tool; answers each question with `answer`. Returns its output, and whether it succeeded.
fn run(disk: &CrashingDisk, path: &str, mode: Mode, answer: bool) -> (String, bool) {
    let mut out = Vec::new();
    let is_fine = check(disk, &Request { path: path.into(), mode }, &mut out, &mut || answer);
    (String::from_utf8(out).unwrap(), is_fine)
}

fn contents(disk: &CrashingDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path)).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    let size = file.read_at(0, &mut bytes).unwrap();
    assert_eq!(size, bytes.len());
    bytes
}

fn check_one(text: &str, expected: &str) {
    let disk = disk_with(&[("a.aof", &bytes(text))]);
    let (printed, is_fine) = run(&disk, "a.aof", Mode::Check, true);
    let lines: Vec<&str> = printed.lines().skip(1).collect();
    assert_eq!(
        (printed.lines().next(), lines.join("\n").as_str()),
        (Some("Start checking Old-Style AOF"), expected)
    );
    assert_eq!(is_fine, expected.ends_with("is valid") || expected.ends_with("is empty"));
    assert_eq!(contents(&disk, "a.aof"), bytes(text), "nothing is changed");
}

#[test]
fn reports_valid_and_damaged_files() {
    let damaged = "AOF a.aof is not valid. Use the --fix option to try fixing it.";
    check_one("", "AOF a.aof is empty");
    check_one(
        &[PING, "#TS:5|", MULTI, PING, EXEC].concat(),
        "AOF analyzed: filename=a.aof, size=64, ok_up_to=64, ok_up_to_line=14, diff=0\nAOF a.aof is valid",
    );
    check_one(
        &[PING, "*1|$4|PI"].concat(),
        &format!(
            "0xe: The file ends within a request\n\
             AOF analyzed: filename=a.aof, size=24, ok_up_to=14, ok_up_to_line=4, diff=10\n{damaged}"
        ),
    );
    check_one(
        &[PING, MULTI, PING].concat(),
        &format!(
            "0x2b: Reached EOF before reading EXEC for MULTI\n\
             AOF analyzed: filename=a.aof, size=43, ok_up_to=14, ok_up_to_line=10, diff=29\n{damaged}"
        ),
    );
    check_one(
        &[PING, "!"].concat(),
        &format!(
            "0xe: Expected a request or an annotation, got: '!' in AOF a.aof\n\
             AOF analyzed: filename=a.aof, size=15, ok_up_to=14, ok_up_to_line=4, diff=1\n{damaged}"
        ),
    );
    let (text, is_fine) = run(&disk_with(&[]), "none", Mode::Check, true);
    assert!(!is_fine && text.starts_with("Cannot open file none"), "{text}");
}

#[test]
fn fixes_after_a_confirmation() {
    let damaged = bytes(&[PING, MULTI, PING].concat());
    let disk = disk_with(&[("a.aof", &damaged)]);
    let (text, is_fine) = run(&disk, "a.aof", Mode::Fix, false);
    assert!(!is_fine && text.ends_with("Continue? [y/N]: Aborting...\n"), "{text}");
    assert_eq!(contents(&disk, "a.aof"), damaged);
    let (text, is_fine) = run(&disk, "a.aof", Mode::Fix, true);
    assert!(is_fine && text.ends_with("Successfully truncated AOF a.aof\n"), "{text}");
    assert_eq!(contents(&disk, "a.aof"), bytes(PING));
}

#[test]
fn checks_the_files_of_a_manifest() {
    let manifest = b"file b seq 1 type b\nfile h seq 1 type h\nfile i seq 1 type i\nfile j seq 2 type i\n";
    let base = [EMPTY_RDB, &bytes(PING)].concat();
    let (good, bad) = (bytes(PING), bytes("*1|"));
    let disk =
        |first: &[u8], last: &[u8]| disk_with(&[("m", manifest), ("b", &base), ("i", first), ("j", last)]);
    let (text, is_fine) = run(&disk(&good, b""), "m", Mode::Check, true);
    let expected = "Start checking Multi Part AOF\n\
        Start to check BASE AOF (RDB format).\n\
        RDB preamble of b: 0 keys in 18 bytes\n\
        RDB preamble is OK, proceeding with AOF tail...\n\
        AOF analyzed: filename=b, size=32, ok_up_to=32, ok_up_to_line=4, diff=0\n\
        BASE AOF b is valid\n\
        Start to check INCR files.\n\
        AOF analyzed: filename=i, size=14, ok_up_to=14, ok_up_to_line=4, diff=0\n\
        INCR AOF i is valid\n\
        INCR AOF j is empty\n\
        All AOF files and manifest are valid\n";
    assert_eq!((text.as_str(), is_fine), (expected, true));

    let (text, is_fine) = run(&disk(&bad, &good), "m", Mode::Fix, true);
    assert!(
        !is_fine && text.ends_with("Failed to truncate AOF i because it is not the last file\n"),
        "{text}"
    );
    let last_is_bad = disk(&good, &bad);
    let (text, is_fine) = run(&last_is_bad, "m", Mode::Fix, true);
    assert!(is_fine && text.contains("Successfully truncated AOF j\nAll AOF files"), "{text}");
    assert_eq!(contents(&last_is_bad, "j"), b"");

    let (text, is_fine) = run(&disk_with(&[("m", b"file b seq 1\n")]), "m", Mode::Check, true);
    assert!(!is_fine && text.contains("Invalid AOF manifest file format"), "{text}");
    let cut_base = disk_with(&[("b", &EMPTY_RDB[..12])]);
    let (text, is_fine) = run(&cut_base, "b", Mode::Fix, true);
    assert!(!is_fine && text.ends_with("RDB preamble of AOF file is not sane, aborting.\n"), "{text}");
    assert_eq!(contents(&cut_base, "b"), EMPTY_RDB[..12]);
}

#[test]
fn truncates_to_a_timestamp() {
    let text = ["#TS:1|", PING, "#TS:2|", PING, "#TS:3|", PING].concat();
    let manifest = b"file i seq 1 type i\nfile j seq 2 type i\n";
    let disk = || disk_with(&[("a", &bytes(&text)), ("m", manifest), ("i", &bytes(&text)), ("j", b"")]);
    for (seconds, expected, kept) in [
        (3, "Truncate nothing in AOF a to timestamp 3\nAOF a is valid\n", 63),
        (2, "Successfully truncated AOF a to timestamp 2\n", 42),
        (1, "Successfully truncated AOF a to timestamp 1\n", 21),
        (0, "AOF a has nothing before timestamp 0, aborting...\n", 63),
    ] {
        let disk = disk();
        let (printed, is_fine) = run(&disk, "a", Mode::TruncateTo(seconds), true);
        assert_eq!(printed, format!("Start checking Old-Style AOF\n{expected}"));
        assert_eq!((is_fine, contents(&disk, "a").len()), (seconds > 0, kept));
    }
    let (printed, is_fine) = run(&disk(), "m", Mode::TruncateTo(2), true);
    let expected = "Failed to truncate AOF i to timestamp 2 to offset 42 because it is not the last file.";
    assert!(!is_fine && printed.contains(expected), "{printed}");
}

#[test]
fn reads_requests_larger_than_its_buffer() {
    let large = [b"*1\r\n$3000000\r\n".as_slice(), &[b'x'; 3_000_000], b"\r\n"].concat();
    let twice = [large.as_slice(), &large].concat();
    let (text, is_fine) = run(&disk_with(&[("a", &twice)]), "a", Mode::Check, true);
    assert!(is_fine && text.contains("ok_up_to=6000032"), "{text}");
    let (text, is_fine) = run(&disk_with(&[("a", b"*1\r\n$1000000000000\r\nx")]), "a", Mode::Check, true);
    assert!(!is_fine && text.contains("0x0: The file ends within a request"), "{text}");
}

#[test]
fn arguments_are_parsed() {
    let parse = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        Request::parse("check", &words).map(|request| request.mode)
    };
    let usage =
        Err("Usage: check [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>".to_owned());
    assert_eq!(parse(&["a"]), Ok(Mode::Check));
    assert_eq!(parse(&["--fix", "a"]), Ok(Mode::Fix));
    assert_eq!(parse(&["--truncate-to-timestamp", "12", "a"]), Ok(Mode::TruncateTo(12)));
    assert_eq!(
        parse(&["--truncate-to-timestamp", "x", "a"]),
        Err("Invalid timestamp, aborting...".to_owned())
    );
    for words in [&[][..], &["--fix"], &["--what", "a"], &["a", "b"], &["--fix", "a", "b"]] {
        assert_eq!(parse(words), usage, "{words:?}");
    }
}
