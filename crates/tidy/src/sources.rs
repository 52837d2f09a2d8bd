//! Rules for source files: headers, lengths, names, `unsafe`, sleeping or ignored tests, paths of one machine.
//!
//! The searched words are written in pieces, so that this file does not contain them.

use crate::assert_tidy;
use crate::layers::UNSAFE_CRATES;
use crate::tree::{SourceFile, read_all};

const FILE_LINES_MAX: usize = 1000;
/// Longer files need a reason in `LONG_FILES`.
const FILE_LINES_COMFORTABLE: usize = 600;

/// Files longer than `FILE_LINES_COMFORTABLE`, and why they are not split.
static LONG_FILES: &[(&str, &str)] = &[
    ("crates/config/src/table.rs", "one table of all directives"),
    ("crates/reactor/tests/backends.rs", "one set of tests for each backend"),
];

/// Test files that may sleep, and why there is no event to wait for.
static SLEEPING_TESTS: &[(&str, &str)] =
    &[("crates/commands/tests/dialogue/peer.rs", "the clock of a real server cannot be set")];

/// Files of other crates than `UNSAFE_CRATES` that contain `unsafe`, and why.
static UNSAFE_FILES: &[(&str, &str)] = &[
    (
        "crates/keyspace/src/store/hints.rs",
        "creating a hint has preconditions that only the keyspace can guarantee",
    ),
    (
        "crates/script/src/stack.rs",
        "arguments and results of scripts are read and written on the stack of Lua",
    ),
    (
        "crates/script/src/stack/frame.rs",
        "functions of the host read their arguments, and raise errors, on the stack of Lua",
    ),
    ("crates/script/src/checked.rs", "functions of Lua in C, which run behind a check on the stack of Lua"),
    (
        "crates/script/src/natives.rs",
        "functions in the place of Lua's own, which scripts call often and which run code of scripts",
    ),
];

/// Names that do not describe a file's contents.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "types"];

/// Generated files, which name package registries.
const GENERATED: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

static UNWANTED: &[(&[&str], &str)] = &[
    (&["/wor", "k/"], "a path of one machine"),
    (&["/roo", "t/"], "a path of one machine"),
    (&["crates.", "io"], "a package registry's host"),
    (&["pypi.", "org"], "a package registry's host"),
    (&["python", "hosted"], "a package registry's host"),
    (&["npmjs", ".org"], "a package registry's host"),
    (&["proxy.", "golang"], "a package registry's host"),
    (&["deb.", "debian.org"], "a package registry's host"),
    (&["TO", "DO"], "unfinished work"),
    (&["FIX", "ME"], "unfinished work"),
];

fn assert_each_file(check: impl Fn(&SourceFile) -> Vec<String>) {
    assert_tidy(read_all().iter().flat_map(check).collect());
}

#[test]
fn rust_files_start_with_a_header() {
    assert_each_file(check_header);
}

#[test]
fn files_are_short() {
    let files = read_all();
    let mut complaints: Vec<String> = files.iter().flat_map(|file| check_length(file, LONG_FILES)).collect();
    complaints.extend(check_list("LONG_FILES", LONG_FILES, &files, |file| {
        line_count(file) > FILE_LINES_COMFORTABLE
    }));
    assert_tidy(complaints);
}

#[test]
fn unsafe_code_stays_in_its_crates() {
    let files = read_all();
    let is_listed = |file: &&SourceFile| !UNSAFE_FILES.iter().any(|(path, _)| *path == file.path);
    let mut complaints: Vec<String> = files.iter().filter(is_listed).flat_map(check_unsafe).collect();
    complaints
        .extend(check_list("UNSAFE_FILES", UNSAFE_FILES, &files, |file| !check_unsafe(file).is_empty()));
    assert_tidy(complaints);
}

#[test]
fn tests_neither_ignore_nor_sleep() {
    let files = read_all();
    let mut complaints: Vec<String> = files.iter().flat_map(check_ignored).collect();
    let is_listed = |file: &&SourceFile| !SLEEPING_TESTS.iter().any(|(path, _)| *path == file.path);
    complaints.extend(files.iter().filter(is_listed).flat_map(check_sleep));
    complaints
        .extend(check_list("SLEEPING_TESTS", SLEEPING_TESTS, &files, |file| !check_sleep(file).is_empty()));
    assert_tidy(complaints);
}

#[test]
fn file_names_are_specific() {
    assert_each_file(check_name);
}

#[test]
fn sources_have_no_local_paths_or_unfinished_marks() {
    assert_each_file(check_unwanted);
}

#[test]
fn planted_faults_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let header_missing = file("crates/wire/src/a.rs", "use std::fmt;\n//! Late.\n");
    assert_eq!(check_header(&header_missing).len(), 1);
    assert!(check_header(&file("crates/wire/src/a.rs", "//! What it is.\n")).is_empty());
    assert!(check_header(&file("tests/a.sh", "echo\n")).is_empty());

    let long = file("crates/wire/src/a.rs", &"x\n".repeat(FILE_LINES_COMFORTABLE + 1));
    assert_eq!(check_length(&long, &[]).len(), 1);
    assert!(check_length(&long, &[("crates/wire/src/a.rs", "why")]).is_empty());
    let too_long = file("crates/wire/src/a.rs", &"x\n".repeat(FILE_LINES_MAX + 1));
    assert_eq!(check_length(&too_long, &[("crates/wire/src/a.rs", "why")]).len(), 1);

    let allowing = ["#![allow(uns", "afe_code)]"].concat();
    assert_eq!(check_unsafe(&file("crates/wire/src/lib.rs", &allowing)).len(), 1);
    assert_eq!(check_unsafe(&file("crates/wire/src/lib.rs", &["x = uns", "afe { y }"].concat())).len(), 1);
    assert!(check_unsafe(&file("crates/sync/src/lib.rs", &allowing)).is_empty());
    assert!(check_unsafe(&file("crates/wire/src/lib.rs", "// nothing unsafe here\n")).is_empty());

    let sleep = ["thread::", "sleep(x);"].concat();
    let test_code = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{ fn b() {{ {sleep} }} }}\n");
    assert_eq!(check_sleep(&file("crates/wire/src/a.rs", &test_code)).len(), 1);
    assert_eq!(check_sleep(&file("crates/wire/tests/a.rs", &sleep)).len(), 1);
    assert!(check_sleep(&file("crates/wire/src/a.rs", &sleep)).is_empty());
    assert_eq!(
        check_ignored(&file("crates/wire/tests/a.rs", &["#[ign", "ore = \"slow\"]"].concat())).len(),
        1
    );

    assert_eq!(check_name(&file("crates/wire/src/utils.rs", "")).len(), 1);
    assert_eq!(check_name(&file("crates/wire/src/common/mod.rs", "")).len(), 1);
    assert!(check_name(&file("crates/wire/src/reply.rs", "")).is_empty());

    assert_eq!(check_unwanted(&file("a.md", &["see /wor", "k/main"].concat())).len(), 1);
    assert!(check_unwanted(&file("a.md", "a /workspace, frame/work/")).is_empty());
    assert!(check_unwanted(&file("Cargo.lock", &["crates.", "io-index"].concat())).is_empty());
}

fn check_header(file: &SourceFile) -> Vec<String> {
    let is_missing = file.is_rust() && file.path.starts_with("crates/") && !file.text.starts_with("//! ");
    complain_if(is_missing, || format!("{}: does not start with a `//!` header", file.path))
}

fn check_length(file: &SourceFile, long_files: &[(&str, &str)]) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let lines = line_count(file);
    let is_listed = long_files.iter().any(|(path, _)| *path == file.path);
    if lines > FILE_LINES_MAX {
        return vec![format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path)];
    }
    complain_if(lines > FILE_LINES_COMFORTABLE && !is_listed, || {
        format!("{}: {lines} lines: split it, or give the reason in LONG_FILES", file.path)
    })
}

fn check_unsafe(file: &SourceFile) -> Vec<String> {
    let may = file.crate_name().is_some_and(|name| UNSAFE_CRATES.contains(&name) || name == "tidy");
    if !file.is_rust() || may {
        return Vec::new();
    }
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let forms =
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "allow(unsafe_code"];
    let lines = file.text.lines().filter(is_code).filter(|line| forms.iter().any(|form| line.contains(form)));
    lines.map(|line| format!("{}: unsafe outside {UNSAFE_CRATES:?}: {}", file.path, line.trim())).collect()
}

fn check_ignored(file: &SourceFile) -> Vec<String> {
    let attribute = ["#[ign", "ore"].concat();
    complain_if(file.is_rust() && file.text.contains(&attribute), || {
        format!("{}: an ignored test", file.path)
    })
}

fn check_sleep(file: &SourceFile) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let is_test_file = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let tests_start = if is_test_file { Some(0) } else { file.text.find("#[cfg(test)]") };
    let sleep = ["thread::", "sleep"].concat();
    complain_if(tests_start.is_some_and(|start| file.text[start..].contains(&sleep)), || {
        format!("{}: a test sleeps: wait for the event, or give the reason in SLEEPING_TESTS", file.path)
    })
}

fn check_name(file: &SourceFile) -> Vec<String> {
    let is_empty = |part: &str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or_default());
    complain_if(file.path.split('/').any(is_empty), || {
        format!("{}: the name does not describe the contents", file.path)
    })
}

fn check_unwanted(file: &SourceFile) -> Vec<String> {
    if GENERATED.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (pieces, reason) in UNWANTED {
        let word = pieces.concat();
        let is_own_word = |(at, _): &(usize, &str)| {
            !file.text[..*at]
                .ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '.')
        };
        if let Some((at, _)) = file.text.match_indices(&word).find(is_own_word) {
            let line = file.text[..at].matches('\n').count() + 1;
            complaints.push(format!("{}:{line}: {word}: {reason}", file.path));
        }
    }
    complaints
}

/// Complains about superfluous entries of an exception list.
fn check_list(
    list: &str,
    entries: &[(&str, &str)],
    files: &[SourceFile],
    is_needed: impl Fn(&SourceFile) -> bool,
) -> Vec<String> {
    let is_stale = |path: &str| !files.iter().any(|file| file.path == path && is_needed(file));
    entries
        .iter()
        .filter(|(path, _)| is_stale(path))
        .map(|(path, _)| format!("{list}: {path} needs no entry"))
        .collect()
}

fn complain_if(is_wrong: bool, complaint: impl FnOnce() -> String) -> Vec<String> {
    if is_wrong { vec![complaint()] } else { Vec::new() }
}

fn line_count(file: &SourceFile) -> usize {
    file.text.lines().count()
}
