//! Differential trials as tests: the reference against itself, a planted difference, and ours against the reference.

use std::collections::BTreeSet;
use std::io;

use trials::differential::command_table;
use trials::differential::comparison::Comparison;
use trials::differential::ensembles::ENSEMBLES;
use trials::differential::families::FAMILIES;
use trials::differential::sequence::Recipe;
use trials::reply::Reply;
use trials::server::{Program, Server, programs_or_skip};

const SEQUENCE_LENGTH: usize = 150;

/// Returns the number of sequences per family: `TRIALS_SEEDS`, or 30.
fn seed_count() -> u64 {
    std::env::var("TRIALS_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(30)
}

fn check_family(
    reference: &Program,
    ours: &Program,
    second_peer: Option<&Program>,
    family: Option<&str>,
) -> io::Result<()> {
    let recipe = Recipe::new(family, SEQUENCE_LENGTH).expect("the family exists");
    let mut comparison = Comparison::start(reference, ours, second_peer)?;
    for seed in 0..seed_count() {
        if let Some(mismatch) = comparison.play(&recipe.make(seed))? {
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
fn a_difference_is_noticed_and_minimised() {
    let programs = [("valkey", Program::valkey()), ("redis", Program::redis())];
    let Some([valkey, redis]) = programs_or_skip(programs) else { return };
    let recipe = Recipe::new(Some("strings"), SEQUENCE_LENGTH).unwrap();
    let mut comparison = Comparison::start(&valkey, &redis, None).unwrap();
    // Redis 8.0 has neither IFEQ nor DELIFEQ.
    let mismatch = (0..50).find_map(|seed| comparison.play(&recipe.make(seed)).unwrap()).unwrap().to_string();
    let requests = mismatch.lines().filter(|line| line.starts_with("    ")).count();
    assert!((1..=3).contains(&requests), "{mismatch}");
}

#[test]
fn broadloom_agrees_with_valkey() {
    let programs =
        [("broadloom", Program::broadloom()), ("valkey", Program::valkey()), ("redis", Program::redis())];
    let Some([broadloom, valkey, redis]) = programs_or_skip(programs) else { return };
    let broadloom = broadloom.with_threads("4");
    for family in FAMILIES.iter().map(|family| Some(family.name)).chain([None]) {
        check_family(&valkey, &broadloom, Some(&redis), family).unwrap();
    }
}

/// Structures with small parts, shared by several threads; streams and lists of many nodes on both servers.
#[test]
fn broadloom_with_small_leaves_and_nodes_agrees_with_valkey() {
    const SMALL_NODES: &[&str] = &["--stream-node-max-entries", "5"];
    let programs = [
        ("broadloom built with the feature tiny (BROADLOOM_TINY_BIN)", Program::tiny_broadloom()),
        ("valkey", Program::valkey()),
        ("redis", Program::redis()),
    ];
    let Some([broadloom, valkey, redis]) = programs_or_skip(programs) else { return };
    let broadloom = broadloom.with_threads("4").with_arguments(SMALL_NODES);
    let valkey = valkey.with_arguments(SMALL_NODES);
    for name in ["hashes", "streams", "lists", "sets", "sorted-sets", "deep"] {
        check_family(&valkey, &broadloom, Some(&redis), Some(name)).unwrap();
    }
}

#[test]
fn ensembles_on_valkey_are_reproducible() {
    let Some([valkey]) = programs_or_skip([("valkey", Program::valkey())]) else { return };
    for ensemble in ENSEMBLES {
        check_family(&valkey, &valkey, None, Some(ensemble.name)).unwrap();
    }
}

#[test]
fn ensembles_on_broadloom_agree_with_valkey() {
    let programs =
        [("broadloom", Program::broadloom()), ("valkey", Program::valkey()), ("redis", Program::redis())];
    let Some([broadloom, valkey, redis]) = programs_or_skip(programs) else { return };
    for threads in ["1", "4"] {
        let broadloom = broadloom.clone().with_threads(threads);
        for ensemble in ENSEMBLES {
            check_family(&valkey, &broadloom, Some(&redis), Some(ensemble.name)).unwrap();
        }
    }
}

/// Commands that no random sequence contains, with the reason.
const NOT_PLAYED: &[(&str, &str)] = &[
    ("cluster", "refused outside of a cluster"),
    ("clusterscan", "refused outside of a cluster"),
    ("digest", "not in Valkey; its dialogues run against the newest Redis"),
    ("delex", "not in Valkey; its dialogues run against the newest Redis"),
    ("xackdel", "not in Valkey; its dialogues run against the newest Redis"),
    ("xdelex", "not in Valkey; its dialogues run against the newest Redis"),
    ("dump", "its payloads name their version; tests/dumps.rs exchanges them with real servers"),
    ("migrate", "needs another server; crates/server/tests/migrating.rs has several"),
    ("restore-asking", "RESTORE under another name, for clusters"),
    ("pfselftest", "has a constant reply and takes seconds"),
];

#[test]
fn every_command_of_every_type_is_played() {
    const CATEGORIES: &[&str] = &[
        "string",
        "list",
        "hash",
        "set",
        "sortedset",
        "stream",
        "bitmap",
        "hyperloglog",
        "geo",
        "keyspace",
        "transaction",
        "pubsub",
    ];
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    let families = FAMILIES.iter().flat_map(|family| family.lines).map(|(_, line)| *line);
    let ensembles = ENSEMBLES.iter().flat_map(|ensemble| ensemble.lines).map(|(.., line)| *line);
    // The first word of a line may have alternatives.
    let names = |line: &'static str| line.split(' ').next().unwrap_or_default().split(['<', '|', '>']);
    let played: BTreeSet<String> = families.chain(ensembles).flat_map(names).map(str::to_lowercase).collect();
    let server = Server::start(&broadloom).unwrap();
    let mut connection = server.connect().unwrap();
    let mut missing = BTreeSet::new();
    for category in CATEGORIES {
        let listed = connection.call(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", category]).unwrap();
        let Reply::List(_, names) = listed.reply else { panic!("COMMAND LIST returned no list") };
        assert!(!names.is_empty(), "there is no command in {category}");
        for name in names {
            let Reply::Bulk(name) = name else { panic!("a name is a string") };
            let name = String::from_utf8(name).unwrap();
            let name = name.split('|').next().unwrap();
            if !played.contains(name) && !NOT_PLAYED.iter().any(|(not_played, _)| *not_played == name) {
                missing.insert(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "no family has {missing:?}");
}

/// Intended differences between the command tables.
const DECIDED: &[command_table::Exception] =
    &[("cluster|flushslot", "flags", "refused outside of a cluster, it writes nothing")];

#[test]
fn broadloom_describes_its_commands_as_valkey_does() {
    let programs = [("broadloom", Program::broadloom()), ("valkey", Program::valkey())];
    let Some([broadloom, valkey]) = programs_or_skip(programs) else { return };
    let (reference, ours) = (Server::start(&valkey).unwrap(), Server::start(&broadloom).unwrap());
    let lines = command_table::compare(&reference, &ours, DECIDED).unwrap();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}
