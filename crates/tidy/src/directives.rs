//! Rules for directives: the code reads honoured ones, and does not read inert ones; `docs/configuration.md` names all.

use crate::assert_tidy;
use crate::tree::{SourceFile, read_all};

const TABLE: &str = "crates/config/src/table.rs";

const PAGE: &str = "docs/configuration.md";

/// Honoured directives that only `crates/config` reads.
const WITHIN_CONFIG: &[&str] = &["enable_protected_configs"];

/// Inert directives that are read nevertheless, with the reason.
const READ_THOUGH_INERT: &[(&str, &str)] = &[
    ("enable_module_command", "MODULE LOAD reports whether the command or the file is refused"),
    ("io_threads_always_active", "INFO then counts the threads as active"),
    ("list_compress_depth", "DEBUG OBJECT shows whether it is set"),
    ("locale_collate", "CONFIG SET refuses a locale that the system does not have"),
];

#[test]
fn honoured_directives_are_acted_on_and_inert_ones_are_not() {
    assert_tidy(check(&read_all(), WITHIN_CONFIG, READ_THOUGH_INERT));
}

#[test]
fn every_directive_is_documented() {
    assert_tidy(check_page(&read_all()));
}

#[test]
fn undocumented_directives_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let table = "    honoured {\n        one_two: u8 = 1, ANY;\n        one_three: u8 = 1, ANY;\n        four: u8 = 1, ANY;\n    }\n";
    let page = file(PAGE, "`one-*`, fours, four");
    assert_eq!(check_page(&[file(TABLE, table), page]), [format!("{PAGE}: `four` is not documented")]);
}

/// The page names each directive in backticks, itself or by a beginning and `*`.
fn check_page(files: &[SourceFile]) -> Vec<String> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let (Some(table), Some(page)) = (find(TABLE), find(PAGE)) else {
        return vec![format!("{TABLE} or {PAGE}: missing")];
    };
    let words: Vec<&str> = page.text.split('`').skip(1).step_by(2).collect();
    let is_named = |name: &str| {
        words.iter().any(|word| match word.split_once('*') {
            Some((beginning, "")) => name.starts_with(beginning),
            _ => word.split(' ').next() == Some(name),
        })
    };
    let names = fields(&table.text).into_iter().map(|(field, _)| field.replace('_', "-"));
    names.filter(|name| !is_named(name)).map(|name| format!("{PAGE}: `{name}` is not documented")).collect()
}

#[test]
fn planted_faults_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let table = "\n    honoured {\n        /// A.\n        alpha: u8 = 1, ANY;\n        beta: u8 = 1, ANY;\n    }\n\n    \
                 inert \"why\" {\n        gamma: u8 = 1, ANY;\n        delta: u8 = 1, ANY;\n    }\n";
    let reader =
        "fn a() { config.alpha.max(self.config.load().gamma) } // Tests call beta() and .beta() only.";
    let files = [file(TABLE, table), file("crates/server/src/a.rs", reader)];
    assert_eq!(
        check(&files, &[], &[]),
        [
            format!("{TABLE}: `beta` is honoured, but nothing reads it"),
            format!("{TABLE}: `gamma` is inert, but something reads it"),
        ]
    );
    assert_eq!(check(&files, &["beta"], &[("gamma", "shown")]), [""; 0]);
    assert_eq!(
        check(&files, &["alpha", "beta"], &[("gamma", "shown"), ("delta", "shown")]),
        [
            format!("{TABLE}: the exception for `alpha` is no longer needed"),
            format!("{TABLE}: the exception for `delta` is no longer needed"),
        ]
    );
}

fn check(files: &[SourceFile], within_config: &[&str], read_though_inert: &[(&str, &str)]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return vec![format!("{TABLE}: missing")];
    };
    let sources: Vec<&SourceFile> = files
        .iter()
        .filter(|file| file.is_rust() && file.path.contains("/src/"))
        .filter(|file| !matches!(file.crate_name(), Some("config" | "tidy") | None))
        .collect();
    let mut complaints = Vec::new();
    for (field, is_honoured) in fields(&table.text) {
        let is_read = sources.iter().any(|file| reads(&file.text, field, is_honoured));
        let is_excepted = match is_honoured {
            true => within_config.contains(&field),
            false => read_though_inert.iter().any(|(name, _)| *name == field),
        };
        let what = match (is_honoured, is_read, is_excepted) {
            (true, false, false) => "is honoured, but nothing reads it",
            (false, true, false) => "is inert, but something reads it",
            (true, true, true) | (false, false, true) => {
                complaints.push(format!("{TABLE}: the exception for `{field}` is no longer needed"));
                continue;
            }
            _ => continue,
        };
        complaints.push(format!("{TABLE}: `{field}` {what}"));
    }
    complaints
}

/// The fields of the table, and whether they are in its honoured block.
fn fields(table: &str) -> Vec<(&str, bool)> {
    let mut is_honoured = None;
    let mut fields = Vec::new();
    for line in table.lines() {
        match line {
            "    honoured {" => is_honoured = Some(true),
            "    }" | "}" => is_honoured = None,
            line if line.starts_with("    inert \"") => is_honoured = Some(false),
            _ => {}
        }
        let Some(is_honoured) = is_honoured else { continue };
        let Some((field, _)) = line.strip_prefix("        ").and_then(|line| line.split_once(": ")) else {
            continue;
        };
        if field.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
            fields.push((field, is_honoured));
        }
    }
    fields
}

/// Whether code contains `.field`, but not as a call or a longer name. An inert directive's name may also be a field
/// of another struct, so for it only `config.field` and `config.load().field` count.
fn reads(text: &str, field: &str, of_anything: bool) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let before = text[..at].trim_end();
        let after = text.as_bytes().get(at + field.len());
        let is_longer = after.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'('));
        let Some(owner) = before.strip_suffix('.') else { return false };
        !is_longer && (of_anything || owner.ends_with("config") || owner.ends_with("config.load()"))
    })
}
