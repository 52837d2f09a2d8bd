//! Runs of the whole server: a corpus of seeds, one seed in two processes, and planted faults that must be
//! found.

use std::process::Command;

use sim::faults::ALL;
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
}

/// One process per fault: a failed run leaves its threads behind.
#[test]
fn planted_faults_are_found_within_their_bounds() {
    for known in ALL {
        let count = known.seed_count_max;
        let output = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["--fault", known.name, "--seeds", &format!("0..{count}")])
            .output()
            .expect("the binary is built");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(known.sign), "{}: {text}", known.name);
    }
}
