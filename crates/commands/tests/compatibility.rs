//! `docs/compatibility.md` is generated from the command table: `UPDATE_EXPECT=1 cargo test -p commands --test compatibility`
//! writes it, and the test fails while the page differs from the table.

use std::collections::BTreeMap;
use std::fmt::Write;

use commands::command::Command;
use commands::table::COMMANDS;
use expect_test::expect_file;

/// The text before the tables.
const INTRODUCTION: &str = "\
# Compatibility

This page is generated from the command table (`crates/commands/tests/compatibility.rs`). Replies, errors and side effects
are those of Valkey 9 and Redis 8 where they agree; where they differ, those of Valkey 9, or of Redis where only Redis has the
command. *Since* is the first version of Redis or Valkey with the command.

**Known differences** are marked where they are tested, each with its reason: `@differs` and `@ours` in
`crates/commands/tests/dialogue` for single replies, and `tests/tcl/expected-failures.txt` for Valkey's and Redis's own test suites.

**Not implemented yet**: cluster mode
(`CLUSTER` and `CLUSTERSCAN` reply as with cluster mode disabled); modules. ACL rules and `rename-command` may also name commands that
only Redis (up to 8.10) or Valkey (up to 9.1) has.

**Tested clients**: redis-py, go-redis, ioredis and node-redis (`tests/clients`). **Tested tools**: `valkey-cli`, `valkey-benchmark`,
`redis-benchmark`.
";

#[test]
fn the_page_matches_the_command_table() {
    let mut families: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for command in COMMANDS {
        add(&mut families, command, &command.name.to_uppercase());
    }
    let mut page = INTRODUCTION.to_owned();
    for (family, rows) in families {
        writeln!(page, "\n## {family}\n\n| command | since | summary |\n|---|---|---|")
            .expect("a string grows");
        page.extend(rows);
    }
    expect_file!["../../../docs/compatibility.md"].assert_eq(&page);
}

/// Adds the row of a command, or the rows of its subcommands.
fn add(families: &mut BTreeMap<&str, Vec<String>>, command: &'static Command, name: &str) {
    for subcommand in command.public_subcommands() {
        add(families, subcommand, &format!("{name} {}", subcommand.name.to_uppercase()));
    }
    if command.public_subcommands().is_empty() {
        let (doc, summary) = (&command.doc, command.doc.summary.replace('|', "\\|"));
        let note = doc.deprecated.map_or_else(String::new, |(since, instead)| {
            format!(" Deprecated since {since}: use {}.", instead.trim_end_matches('.'))
        });
        let row = format!("| `{name}` | {} | {summary}{note} |\n", doc.since);
        families.entry(doc.group.name()).or_default().push(row);
    }
}
