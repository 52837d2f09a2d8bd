//! `broadloom check-rdb` on files that real servers saved, whole and damaged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(server: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rdb/tests/servers/fixtures");
    fixtures.join(format!("{server}.rdb"))
}

fn check(path: &Path) -> (bool, String) {
    let Output { status, stdout, .. } =
        Command::new(env!("CARGO_BIN_EXE_broadloom")).arg("check-rdb").arg(path).output().expect("it runs");
    (status.success(), String::from_utf8(stdout).expect("the output is UTF-8"))
}

/// A file with this content, removed when dropped.
struct Damaged(PathBuf);

impl Damaged {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("broadloom-check-rdb-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("the directory can be written");
        Self(path)
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn files_of_servers_are_valid() {
    for (server, key_count) in [("valkey", 26), ("redis-8.0", 26), ("redis-next", 27)] {
        let (is_valid, report) = check(&fixture(server));
        assert!(is_valid, "{server}: {report}");
        for line in [
            format!("[info] {key_count} keys read"),
            "[info] 1 expires".to_owned(),
            "[info] 0 already expired".to_owned(),
            "[info] 1 functions".to_owned(),
        ] {
            assert!(report.lines().any(|found| found == line), "{server}: {line} in\n{report}");
        }
        for kind in ["string", "list", "set", "zset", "hash", "stream"] {
            assert!(report.contains(&format!("[info] {kind}: ")), "{server}: {report}");
        }
    }
}

#[test]
fn damage_is_reported_with_offset_and_key() {
    let whole = std::fs::read(fixture("valkey")).expect("the fixture exists");

    let cut = Damaged::new("cut", &whole[..whole.len() - 9]);
    let (is_valid, report) = check(&cut.0);
    assert!(!is_valid && report.contains("unexpected end at offset"), "{report}");

    let mut flipped = whole.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let (is_valid, report) = check(&Damaged::new("flipped", &flipped).0);
    assert!(!is_valid && report.contains("wrong checksum"), "{report}");

    let unknown = Damaged::new("unknown", b"REDIS0011\x1e\x03key");
    let (is_valid, report) = check(&unknown.0);
    assert!(!is_valid && report.contains("[offset 9] unknown type 30 at offset 9, key \"key\""), "{report}");

    let malformed = Damaged::new("malformed", b"REDIS0011\x0b\x03key\x04abcd\xff\0\0\0\0\0\0\0\0");
    let (is_valid, report) = check(&malformed.0);
    assert!(!is_valid && report.contains("invalid intset at offset 14, key \"key\""), "{report}");

    let (is_valid, report) = check(&Damaged::new("none", b"no such format").0);
    assert!(!is_valid && report.contains("not an RDB file"), "{report}");

    let (is_valid, _) = check(Path::new("/nonexistent/dump.rdb"));
    assert!(!is_valid);
}
