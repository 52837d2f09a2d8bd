//! Runs of the whole server: a corpus of seeds, one seed in two processes, and planted faults that must be
//! found.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::faults::{ALL, Known};
use sim::run::{RunOptions, run};

/// Seeds that pass and together cover much behaviour.
const CORPUS: std::ops::Range<u64> = 0..40;

#[test]
fn a_corpus_of_seeds_passes() {
    for seed in CORPUS {
        let report = run(seed, RunOptions::default());
        assert_eq!(report.failure, None, "cargo run -p sim -- --seed {seed}");
    }
}

/// In processes of their own: each run leaves the tables of several servers behind.
#[test]
fn crashes_lose_nothing_that_was_promised() {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--crashes", "--seeds", &format!("{}..{}", CORPUS.start, CORPUS.end)])
        .output()
        .expect("the binary is built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("40 seeds"), "{text}");
}

/// In processes of their own, as those with crashes.
#[test]
fn failovers_lose_nothing_that_replicas_confirmed() {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--failovers", "--seeds", &format!("{}..{}", CORPUS.start, CORPUS.end)])
        .output()
        .expect("the binary is built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("40 seeds"), "{text}");
}

/// Two processes differ in addresses and in their allocations; only one prints a trace.
#[test]
fn a_seed_gives_the_same_run_in_another_process() {
    let digest = |seed: u64, options: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["--seed", &seed.to_string()])
            .args(options)
            .output()
            .expect("the binary is built");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .find(|line| line.starts_with("seed ") && line.contains("digest"))
            .expect("a digest is printed")
            .to_owned()
    };
    for seed in 0..8 {
        assert_eq!(digest(seed, &["--quiet"]), digest(seed, &[]));
    }
    for seed in 0..4 {
        assert_eq!(digest(seed, &["--failovers", "--quiet"]), digest(seed, &["--failovers"]));
    }
}

/// One process per fault, as a failed run leaves its threads behind, and as many at once as there are CPUs.
#[test]
fn planted_faults_are_found_within_their_bounds() {
    let next = AtomicUsize::new(0);
    let search = || {
        while let Some(known) = ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            assert_found(known);
        }
    };
    std::thread::scope(|scope| {
        let cpu_count = std::thread::available_parallelism().map_or(1, usize::from);
        (0..cpu_count).for_each(|_| drop(scope.spawn(search)));
    });
}

/// The process ends with the first seed that finds the fault.
fn assert_found(known: &Known) {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--fault", known.fault.name, "--seeds", &format!("0..{}", known.seed_count_max)])
        .output()
        .expect("the binary is built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shows = known.signs.is_empty() || known.signs.iter().any(|sign| text.contains(sign));
    assert!(output.status.success() && shows, "{}: {text}", known.fault.name);
}
