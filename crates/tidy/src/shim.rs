//! Simulated crates take atomics, locks and threads from `sync`, where a seeded scheduler can control them, and not from
//! the standard library. Tests may use either.

use crate::assert_tidy;
use crate::tree::{SourceFile, read_all};

/// The crates that a simulation runs.
const CRATES: &[&str] = &["collections", "keyspace", "os", "persist", "reactor", "server"];

/// The permitted names of `std::sync`: types that never block, and results of types that do.
const HARMLESS: &[&str] = &["Arc", "Weak", "PoisonError", "TryLockError", "LazyLock"];

/// Files that use the standard library directly, and why.
static DIRECT: &[(&str, &str)] = &[
    ("crates/os/src/clock.rs", "measures the processor's counter once, without other threads"),
    ("crates/persist/src/disk/crashing.rs", "not held at scheduling points"),
    ("crates/reactor/src/echo.rs", "the echo server of the load generator"),
    ("crates/os/src/fault.rs", "signal handlers"),
    ("crates/os/src/process.rs", "reads the system's number of CPUs once"),
    ("crates/reactor/src/simulated.rs", "conditions of waits must not reach a scheduling point"),
    ("crates/reactor/src/simulated/network.rs", "not held at scheduling points, like the kernel's locks"),
    ("crates/reactor/src/sys.rs", "a property of the kernel"),
    ("crates/os/src/title.rs", "the process title"),
    ("crates/reactor/src/receive_buffer/buffer_ring.rs", "a word shared with the kernel"),
    ("crates/reactor/src/uring/simulated.rs", "the kernel's side of that word"),
    ("crates/server/src/startup/crash.rs", "runs when other code may be unusable"),
    ("crates/server/src/logging.rs", "the process's log, which crash reports use"),
    ("crates/server/src/logging/queue.rs", "the process's log, which crash reports use"),
    ("crates/server/src/logging/stacks.rs", "the process's log, which crash reports use"),
    ("crates/server/src/process/supervisor.rs", "the process's supervisor, set once at the start"),
];

#[test]
fn threads_communicate_only_through_sync() {
    let files = read_all();
    let mut complaints: Vec<String> = files.iter().filter(|file| !is_listed(file)).flat_map(check).collect();
    let is_stale = |path: &str| !files.iter().any(|file| file.path == path && !check(file).is_empty());
    let stale = DIRECT.iter().filter(|(path, _)| is_stale(path));
    complaints.extend(stale.map(|(path, _)| format!("DIRECT: {path} needs no entry")));
    assert_tidy(complaints);
}

#[test]
fn planted_faults_are_noticed() {
    let complaints = |text: &str| {
        check(&SourceFile { path: "crates/server/src/a.rs".to_owned(), text: text.to_owned() }).len()
    };
    assert_eq!(complaints("use std::sync::Arc;\nuse std::sync::{Arc, PoisonError};\nuse sync::Mutex;\n"), 0);
    assert_eq!(complaints("use std::sync::{Arc, Mutex};\n"), 1);
    assert_eq!(complaints("use std::sync::{\n    Arc,\n    Mutex,\n};\n"), 1);
    assert_eq!(complaints("use std::sync::atomic::Ordering;\nlet x = std::thread::spawn(f);\n"), 2);
    assert_eq!(complaints("// not std::sync::Mutex\n#[cfg(test)]\nmod tests { use std::sync::mpsc; }\n"), 0);
}

fn is_listed(file: &SourceFile) -> bool {
    DIRECT.iter().any(|(path, _)| *path == file.path)
}

fn check(file: &SourceFile) -> Vec<String> {
    let is_ours = file.crate_name().is_some_and(|name| CRATES.contains(&name));
    if !is_ours || !file.is_rust() || !file.path.contains("/src/") || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        !code[line..at].contains("//")
    };
    let mut complaints = Vec::new();
    for start in ["std::sync::", "std::thread::"] {
        for (at, _) in code.match_indices(start).filter(|(at, _)| is_code(*at)) {
            let names = names_of(&code[at + start.len()..]);
            let wrong = names.iter().find(|name| start == "std::thread::" || !HARMLESS.contains(name));
            complaints.extend(wrong.map(|name| format!("{}: {start}{name}: use `sync`'s", file.path)));
        }
    }
    complaints
}

/// The names after a path: a single one, or a list in braces.
fn names_of(rest: &str) -> Vec<&str> {
    let is_end = |character: char| !(character.is_alphanumeric() || character == '_');
    match rest.strip_prefix('{') {
        Some(list) => {
            let list = list.split('}').next().unwrap_or_default();
            list.split(',')
                .filter_map(|name| name.trim().split(is_end).next())
                .filter(|n| !n.is_empty())
                .collect()
        }
        None => rest.split(is_end).next().into_iter().collect(),
    }
}
