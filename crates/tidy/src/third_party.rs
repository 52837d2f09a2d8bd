//! Rules for the crates of others, as `deny.toml` states them: their licences, one version of each, and the default
//! registry as their only source.
//!
//! `cargo tree` lists the crates in use. It reads the network only for those that no build has needed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::assert_tidy;
use crate::tree::top;

/// A crate of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// An address or a path, if it is not from the default registry.
    source: Option<String>,
    licence: String,
}

/// The parts of `deny.toml` that are checked here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: Vec<String>,
    /// Crate and version, or its beginning, that may be beside a later one.
    skipped: Vec<(String, String)>,
}

#[test]
fn crates_of_others_keep_the_rules() {
    let file = std::fs::read_to_string(top().join("deny.toml")).expect("deny.toml is readable");
    assert_tidy(check(&packages(&listing()), &rules(&file)));
}

#[test]
fn planted_faults_are_noticed() {
    let packages = |lines: &str| packages(lines);
    let rules = |licences: &[&str], skipped: &[(&str, &str)]| Rules {
        licences: licences.iter().map(|&licence| licence.to_owned()).collect(),
        skipped: skipped.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect(),
    };
    let lines = "base v0.1.0 (/home/base)\tApache-2.0\na v1.0.0\tMIT OR GPL-3.0 (*)\nb v2.1.0\t(MIT/Zlib) AND ISC\n\
                 b v2.1.0 (proc-macro)\t(MIT/Zlib) AND ISC (*)\nb v1.0.0\tMIT\n";
    let all = packages(lines);
    assert_eq!(all.len(), 3);
    assert_eq!(check(&all, &rules(&["MIT", "ISC"], &[("b", "1.0")])), [""; 0]);
    assert_eq!(
        check(&all, &rules(&["MIT"], &[("b", "1"), ("c", "1")])),
        [
            "b 2.1.0: deny.toml does not allow its licence `(MIT/Zlib) AND ISC`",
            "deny.toml: there is no c@1 to skip"
        ]
    );
    assert_eq!(
        check(&all, &rules(&["MIT", "ISC", "Zlib"], &[("b", "2")])),
        [
            "b: several versions (1.0.0, 2.1.0), of which deny.toml must skip all but the last",
            "deny.toml: no crate needs the licence Zlib"
        ]
    );
    let other = packages("a v1.0.0 (https://example.com/a#1234)\tMIT\n");
    assert_eq!(
        check(&other, &rules(&["MIT"], &[])),
        ["a 1.0.0: its source is not the default registry but https://example.com/a#1234"]
    );
}

#[test]
fn the_rules_are_read_from_the_file() {
    let text = "# [x]\n[licenses]\nallow = [\n    \"MIT\", # why\n    \"ISC\",\n]\n[bans]\nskip = [\n    \
                { crate = \"syn@2\", reason = \"x\" },\n]\n";
    let expected =
        Rules { licences: vec!["MIT".into(), "ISC".into()], skipped: vec![("syn".into(), "2".into())] };
    assert_eq!(rules(text), expected);
}

fn check(packages: &[Package], rules: &Rules) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, source, licence } = package;
        versions.entry(name).or_default().push(version);
        if let Some(source) = source {
            complaints.push(format!("{name} {version}: its source is not the default registry but {source}"));
        }
        if !is_allowed(licence, &rules.licences) {
            complaints.push(format!("{name} {version}: deny.toml does not allow its licence `{licence}`"));
        }
    }
    let is_skipped = |name: &str, version: &str| {
        rules.skipped.iter().any(|(of, beginning)| of == name && is_version(version, beginning))
    };
    for (name, mut all) in versions.clone() {
        all.sort_by_key(|version| numbers(version));
        if all.iter().rev().skip(1).any(|version| !is_skipped(name, version)) {
            let all = all.join(", ");
            complaints.push(format!(
                "{name}: several versions ({all}), of which deny.toml must skip all but the last"
            ));
        }
    }
    for (name, version) in &rules.skipped {
        let all = versions.get(name.as_str());
        if !all.is_some_and(|all| all.len() > 1 && all.iter().any(|one| is_version(one, version))) {
            complaints.push(format!("deny.toml: there is no {name}@{version} to skip"));
        }
    }
    for licence in &rules.licences {
        let others: Vec<String> = rules.licences.iter().filter(|other| *other != licence).cloned().collect();
        if packages.iter().all(|package| is_allowed(&package.licence, &others)) {
            complaints.push(format!("deny.toml: no crate needs the licence {licence}"));
        }
    }
    complaints
}

fn is_version(version: &str, beginning: &str) -> bool {
    version.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Whether a licence expression can be met: `OR` and the old form `/` bind less than `AND`. An exception (`WITH`) only
/// adds rights.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    !words.is_empty() && any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = all_of(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        is_met |= all_of(words, allowed);
    }
    is_met
}

fn all_of(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = one_of(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        is_met &= one_of(words, allowed);
    }
    is_met
}

fn one_of(words: &mut &[&str], allowed: &[String]) -> bool {
    match **words {
        ["(", ..] => {
            *words = &words[1..];
            let is_met = any_of(words, allowed);
            *words = words.get(1..).unwrap_or_default();
            is_met
        }
        [name, "WITH", _, ..] => {
            *words = &words[3..];
            allowed.iter().any(|licence| licence == name)
        }
        [name, ..] => {
            *words = &words[1..];
            allowed.iter().any(|licence| licence == name)
        }
        [] => false,
    }
}

/// The output of `cargo tree`: a crate a line, and behind a tab its licence.
fn listing() -> String {
    // For the host: crates of other targets may not be there.
    let arguments = ["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}\t{l}"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(top()).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The crates of a listing, without those of the workspace, each once.
fn packages(listing: &str) -> Vec<Package> {
    let mut all = BTreeSet::new();
    for line in listing.lines() {
        let Some((package, licence)) = line.trim_end().trim_end_matches(" (*)").split_once('\t') else {
            continue;
        };
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut notes = words.map(|word| word.trim_matches(['(', ')']));
        let source = notes.find(|note| !matches!(*note, "*" | "proc-macro")).map(str::to_owned);
        if !source.as_ref().is_some_and(|source| source.starts_with('/')) {
            let (name, version) = (name.to_owned(), version.trim_start_matches('v').to_owned());
            all.insert(Package { name, version, source, licence: licence.trim().to_owned() });
        }
    }
    all.into_iter().collect()
}

/// Reads the lists `allow` and `skip`, one entry a line.
fn rules(file: &str) -> Rules {
    let mut rules = Rules::default();
    let mut list = "";
    for line in file.lines() {
        match line.split_once(" = [") {
            Some((name, "")) => list = name,
            _ if line == "]" => list = "",
            _ => {}
        }
        let quoted = line.split('"').nth(1).filter(|_| line.starts_with("    "));
        match (list, quoted) {
            ("allow", Some(licence)) => rules.licences.push(licence.to_owned()),
            ("skip", Some(entry)) => {
                rules
                    .skipped
                    .extend(entry.split_once('@').map(|(name, version)| (name.into(), version.into())));
            }
            _ => {}
        }
    }
    rules
}
