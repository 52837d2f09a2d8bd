//! Rules for documents: every page is linked, every dependency has its reason in docs/design/dependencies.md,
//! ARCHITECTURE.md is short, and the files and functions that documents name exist.

use std::collections::HashSet;

use crate::tree::{SourceFile, read_all};
use crate::{assert_tidy, manifest};

const ENTRANCES: &[&str] = &["README.md", "ARCHITECTURE.md"];

const ARCHITECTURE_WORDS_MAX: usize = 2500;

/// Documents whose names of files and functions must exist in the code.
const HELD: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/"];

#[test]
fn every_page_is_linked() {
    assert_tidy(check_links(&read_all()));
}

#[test]
fn every_dependency_has_its_reason() {
    assert_tidy(check_dependencies(&read_all()));
}

#[test]
fn the_architecture_is_short() {
    assert_tidy(read_all().iter().flat_map(check_length).collect());
}

#[test]
fn documents_name_existing_files_and_types() {
    assert_tidy(check_names(&read_all()));
}

#[test]
fn planted_faults_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let lonely = [file("README.md", "see docs/a.md"), file("docs/a.md", ""), file("docs/b.md", "")];
    assert_eq!(check_links(&lonely), ["docs/b.md: linked from neither README.md nor ARCHITECTURE.md"]);

    let manifest = file("crates/wire/Cargo.toml", "[dependencies]\nbase.workspace = true\nmemchr = \"2\"\n");
    let base = file("crates/base/Cargo.toml", "");
    let silent = file("docs/design/dependencies.md", "We use memchr.");
    let complaint = check_dependencies(&[silent, base, manifest]);
    assert_eq!(complaint, ["crates/wire/Cargo.toml: docs/design/dependencies.md has no reason for `memchr`"]);

    let long = file("ARCHITECTURE.md", &"word ".repeat(ARCHITECTURE_WORDS_MAX + 1));
    assert_eq!(check_length(&long), ["ARCHITECTURE.md: 2501 words, at most 2500"]);

    let code = file("crates/wire/src/a.rs", "pub struct Parser;\nimpl Parser { fn parse() {} }");
    let good = file("docs/a.md", "`Parser::parse` in `wire/src/a.rs`, `a.rs`, `std::mem`, `KEYS *`");
    assert_eq!(check_names(&[code, good]), [""; 0]);
    let code = file("crates/wire/src/a.rs", "pub struct Parser;");
    let bad = file("docs/a.md", "`Parser::parse` in `wire/src/b.rs`");
    assert_eq!(
        check_names(&[code, bad]),
        ["docs/a.md: `Parser::parse` is not in the code", "docs/a.md: there is no `wire/src/b.rs`"]
    );
}

fn check_links(files: &[SourceFile]) -> Vec<String> {
    let entrances: Vec<&SourceFile> =
        files.iter().filter(|file| ENTRANCES.contains(&file.path.as_str())).collect();
    files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md"))
        .filter(|file| !entrances.iter().any(|entrance| entrance.text.contains(&file.path)))
        .map(|file| format!("{}: linked from neither README.md nor ARCHITECTURE.md", file.path))
        .collect()
}

/// docs/design/dependencies.md is a table that names each external crate in backticks.
fn check_dependencies(files: &[SourceFile]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "docs/design/dependencies.md") else {
        return Vec::new();
    };
    let is_ours = |name: &String| files.iter().any(|file| file.path == format!("crates/{name}/Cargo.toml"));
    let mut complaints = Vec::new();
    for file in
        files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
    {
        let external = manifest::all_dependencies(&file.text).into_iter().filter(|name| !is_ours(name));
        for name in external.filter(|name| !page.text.contains(&format!("`{name}`"))) {
            complaints.push(format!("{}: docs/design/dependencies.md has no reason for `{name}`", file.path));
        }
    }
    complaints
}

fn check_length(file: &SourceFile) -> Vec<String> {
    let count = file.text.split_whitespace().count();
    if file.path != "ARCHITECTURE.md" || count <= ARCHITECTURE_WORDS_MAX {
        return Vec::new();
    }
    vec![format!("{}: {count} words, at most {ARCHITECTURE_WORDS_MAX}", file.path)]
}

/// Checks names in backticks: both parts of `Type::function` must be words of the code, and paths of Rust files exist.
fn check_names(files: &[SourceFile]) -> Vec<String> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let code = files.iter().filter(|file| file.is_rust());
    let words: HashSet<&str> =
        code.flat_map(|file| file.text.split(|character| !is_part(character))).collect();
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| is_held(&file.path)) {
        // The text between the first and second backtick, the third and fourth, and so on.
        let quoted = file.text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for name in quoted {
            let is_path = name.ends_with(".rs") && !name.contains(['<', '*', ' ', '{']);
            if is_path && !files.iter().any(|source| is_path_of(&source.path, name)) {
                complaints.push(format!("{}: there is no `{name}`", file.path));
            }
            let is_member = name.contains("::") && name.starts_with(char::is_uppercase);
            if is_member && !name.split("::").all(|part| words.contains(part)) {
                complaints.push(format!("{}: `{name}` is not in the code", file.path));
            }
        }
    }
    complaints
}

fn is_held(path: &str) -> bool {
    path.ends_with(".md") && HELD.iter().any(|held| path.starts_with(held))
}

/// Whether `name` is the path of a file, or whole components at its end.
fn is_path_of(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
