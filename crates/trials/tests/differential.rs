//! Differential trials as tests: the judge against itself, a planted difference, and ours against the judge.

use std::io;

use trials::differential::command_table;
use trials::differential::contest::Contest;
use trials::differential::families::FAMILIES;
use trials::differential::sequence::Recipe;
use trials::server::{Program, Server, programs_or_skip};

const SEQUENCE_LENGTH: usize = 150;

/// Sequences for each family, unless `TRIALS_SEEDS` says otherwise.
fn seed_count() -> u64 {
    std::env::var("TRIALS_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(30)
}

fn check_family(
    judge: &Program,
    ours: &Program,
    witness: Option<&Program>,
    family: Option<&str>,
) -> io::Result<()> {
    let recipe = Recipe::new(family, SEQUENCE_LENGTH).expect("the family exists");
    let mut contest = Contest::start(judge, ours, witness)?;
    for seed in 0..seed_count() {
        if let Some(mismatch) = contest.play(&recipe.make(seed))? {
            panic!("family {family:?}: {mismatch}");
        }
    }
    Ok(())
}

#[test]
fn valkey_agrees_with_itself() {
    let Some([valkey]) = programs_or_skip([("valkey", Program::valkey())]) else { return };
    for family in FAMILIES {
        check_family(&valkey, &valkey, None, Some(family.name)).unwrap();
    }
}

#[test]
fn a_difference_is_noticed_and_cut_down() {
    let programs = [("valkey", Program::valkey()), ("redis", Program::redis())];
    let Some([valkey, redis]) = programs_or_skip(programs) else { return };
    let recipe = Recipe::new(Some("strings"), SEQUENCE_LENGTH).unwrap();
    let mut contest = Contest::start(&valkey, &redis, None).unwrap();
    // Redis 8.0 knows neither IFEQ nor DELIFEQ.
    let mismatch = (0..50).find_map(|seed| contest.play(&recipe.make(seed)).unwrap()).unwrap().to_string();
    let requests = mismatch.lines().filter(|line| line.starts_with("    ")).count();
    assert!((1..=3).contains(&requests), "{mismatch}");
}

#[test]
fn broadloom_agrees_with_valkey() {
    let programs =
        [("broadloom", Program::broadloom()), ("valkey", Program::valkey()), ("redis", Program::redis())];
    let Some([broadloom, valkey, redis]) = programs_or_skip(programs) else { return };
    let broadloom = broadloom.with_arguments(&["--io-threads", "4"]);
    for family in FAMILIES.iter().map(|family| Some(family.name)).chain([None]) {
        check_family(&valkey, &broadloom, Some(&redis), family).unwrap();
    }
}

/// Differences between the command tables that are meant.
const DECIDED: &[command_table::Exception] = &[
    ("function|flush", "flags", "there are no functions to write yet"),
    ("function|flush", "categories", "there are no functions to write yet"),
];

#[test]
fn broadloom_describes_its_commands_as_valkey_does() {
    let programs = [("broadloom", Program::broadloom()), ("valkey", Program::valkey())];
    let Some([broadloom, valkey]) = programs_or_skip(programs) else { return };
    let (judge, ours) = (Server::start(&valkey).unwrap(), Server::start(&broadloom).unwrap());
    let lines = command_table::compare(&judge, &ours, DECIDED).unwrap();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}
