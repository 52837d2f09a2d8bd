//! `docs/info.md` is generated from the table of figures: `UPDATE_EXPECT=1 cargo test -p server --lib reference` writes
//! it, and the test fails while the page differs from the table. Also the rules that every row keeps.

use std::collections::HashSet;
use std::fmt::Write;

use expect_test::expect_file;

use super::SECTIONS;
use super::figure::{Figure, Kind, Unit};

/// The text before the tables.
const INTRODUCTION: &str = "\
# Figures

This page is generated from the table of figures (`crates/server/src/admin/info/sections`). It lists the lines of `INFO` in their
order. A *counter* only grows, until `CONFIG RESETSTAT` or a restart sets it to zero; a *gauge* also shrinks. A name with a word in braces
has a line for each: `db{database}` is `db0`, `db1` and so on, without those that are empty.
";

#[test]
fn the_page_matches_the_table() {
    let mut page = INTRODUCTION.to_owned();
    for section in SECTIONS.iter().filter(|section| !section.figures.is_empty()) {
        let shown = match (section.in_default, section.in_all) {
            (true, _) => "",
            (false, true) => "Shown by `INFO all`.\n\n",
            (false, false) => "Shown by its name only.\n\n",
        };
        write!(
            page,
            "\n## {}\n\n{shown}| figure | kind | unit | meaning |\n|---|---|---|---|\n",
            section.name
        )
        .expect("a string grows");
        section.figures.iter().for_each(|figure| add(&mut page, figure));
    }
    expect_file!["../../../../../docs/info.md"].assert_eq(&page);
}

/// Adds the row of a figure, and those of its fields.
fn add(page: &mut String, figure: &Figure) {
    let mut row = |name: &str, kind: Kind, unit: Unit, help: &str| {
        writeln!(page, "| {name} | {} | {} | {help} |", kind_word(kind), unit_word(unit))
            .expect("a string grows");
    };
    row(&format!("`{}`", figure.name), figure.kind, figure.unit, figure.help());
    if let Kind::Record(fields) = figure.kind {
        fields
            .iter()
            .for_each(|field| row(&format!("... `{}`", field.name), field.kind, field.unit, field.help));
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Text => "text",
        Kind::Identity => "identity",
        Kind::Record(_) => "record",
        Kind::Percentiles => "percentiles",
        Kind::Histogram => "histogram",
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Bytes => "bytes",
        Unit::KibibytesPerSecond => "KiB/s",
        Unit::PerSecond => "1/s",
        Unit::Days => "days",
        Unit::Seconds => "seconds",
        Unit::Milliseconds => "milliseconds",
        Unit::Microseconds => "microseconds",
        Unit::UnixSeconds => "Unix time, seconds",
        Unit::UnixMicroseconds => "Unix time, microseconds",
        Unit::Percent => "percent",
        Unit::Permille => "thousandths",
        Unit::Ratio => "ratio",
        Unit::Bits => "bits",
    }
}

#[test]
fn the_table_is_consistent() {
    let mut sections = HashSet::new();
    for section in SECTIONS {
        assert!(sections.insert(section.name), "two sections {}", section.name);
        assert_eq!(section.title.to_lowercase(), section.name);
        let mut names = HashSet::new();
        for figure in section.figures {
            assert!(names.insert(figure.name), "two figures {} in {}", figure.name, section.name);
            assert_eq!(faults(figure), [""; 0], "{}", figure.name);
        }
    }
}

/// What is wrong with a row.
fn faults(figure: &Figure) -> Vec<String> {
    let mut faults = faults_of_number(figure.kind, figure.unit, figure.help());
    if figure.name.contains('{') != figure.labels.is_some() {
        faults.push("the name has a label and the row has none, or the reverse".into());
    }
    if let Kind::Record(fields) = figure.kind {
        faults.extend(
            (fields.is_empty() || figure.unit != Unit::None).then(|| "the units are those of fields".into()),
        );
        for field in fields {
            faults.extend(faults_of_number(field.kind, field.unit, field.help));
            faults.extend(
                (!matches!(field.kind, Kind::Counter | Kind::Gauge | Kind::Text | Kind::Identity))
                    .then(|| "a field is a number, a text or an identity".into()),
            );
        }
    }
    faults
}

fn faults_of_number(kind: Kind, unit: Unit, help: &str) -> Vec<String> {
    let is_sentence = help.len() > 5
        && help.ends_with('.')
        && help.starts_with(|first: char| first.is_uppercase() || first.is_ascii_digit());
    let mut faults: Vec<String> = Vec::new();
    faults.extend((!is_sentence || help.contains('|')).then(|| format!("its help is no sentence: {help}")));
    faults.extend(
        (matches!(kind, Kind::Text | Kind::Identity) && unit != Unit::None)
            .then(|| "text has no unit".into()),
    );
    let is_level = matches!(
        unit,
        Unit::KibibytesPerSecond
            | Unit::PerSecond
            | Unit::UnixSeconds
            | Unit::UnixMicroseconds
            | Unit::Percent
            | Unit::Permille
            | Unit::Ratio
            | Unit::Bits
    );
    faults.extend((kind == Kind::Counter && is_level).then(|| "no counter has this unit".into()));
    faults
}

#[test]
fn planted_faults_are_noticed() {
    let figure = |kind, unit, doc| Figure { name: "one", kind, unit, doc, labels: None, read: |_, _| None };
    assert_eq!(faults(&figure(Kind::Counter, Unit::Bytes, " The bytes.")), [""; 0]);
    for faulty in [
        figure(Kind::Counter, Unit::Bytes, ""),
        figure(Kind::Counter, Unit::Bytes, " bytes"),
        figure(Kind::Text, Unit::Bytes, " The bytes."),
        figure(Kind::Counter, Unit::Percent, " The bytes."),
        figure(Kind::Record(&[]), Unit::None, " The bytes."),
        Figure { name: "one{two}", ..figure(Kind::Gauge, Unit::Bytes, " The bytes.") },
    ] {
        assert_eq!(faults(&faulty).len(), 1, "{:?} {:?} {}", faulty.kind, faulty.unit, faulty.doc);
    }
}
