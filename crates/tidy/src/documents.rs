//! Rules for documents: every page is in the book, links lead to a file and to a heading in it, every dependency has its reason in
//! docs/design/dependencies.md, ARCHITECTURE.md is short, and the files and functions that documents name exist.

use std::collections::HashSet;

use crate::tree::{SourceFile, read_all, top};
use crate::{assert_tidy, manifest};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

const ARCHITECTURE_WORDS_MAX: usize = 2500;

/// Documents whose names of files and functions must exist in the code.
const HELD: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/"];

#[test]
fn every_page_is_in_the_book() {
    assert_tidy(check_pages(&read_all()));
}

#[test]
fn links_lead_somewhere() {
    assert_tidy(check_links(&read_all(), |path| top().join(path).exists()));
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
    let lonely = [file(SUMMARY, "[A](a.md)"), file("docs/a.md", ""), file("docs/b/c.md", "")];
    assert_eq!(check_pages(&lonely), ["docs/b/c.md: not in docs/SUMMARY.md"]);

    let links = "[b](../b.md) [b](../b.md#the-first-one) [](#x) [](https://a.example/b) ![](a.png)\n# X";
    let target = file("docs/b.md", "## The `first` one\n");
    let is_picture = |path: &str| path == "docs/a/a.png";
    assert_eq!(check_links(&[file("docs/a/a.md", links), target], is_picture), [""; 0]);
    let target = file("docs/b.md", "## The second one\n");
    assert_eq!(
        check_links(&[file("docs/a/a.md", links), target], |_| false),
        ["docs/a/a.md: `../b.md#the-first-one` leads to no heading", "docs/a/a.md: there is no `a.png`"]
    );

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

fn check_pages(files: &[SourceFile]) -> Vec<String> {
    let summary = files.iter().find(|file| file.path == SUMMARY).map_or("", |file| &*file.text);
    let pages = files.iter().filter_map(|file| {
        file.path.strip_prefix("docs/").filter(|page| page.ends_with(".md") && file.path != SUMMARY)
    });
    pages
        .filter(|page| !summary.contains(&format!("]({page})")))
        .map(|page| format!("docs/{page}: not in {SUMMARY}"))
        .collect()
}

/// Checks the relative links of documents. `exists` says whether a path that is not a text file is there.
fn check_links(files: &[SourceFile], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| is_held(&file.path)) {
        for link in file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            // Not a link: an example of a pattern, or the address of another host.
            if link.is_empty() || link.contains([':', ' ', '`', '<', '\n']) {
                continue;
            }
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { file.path.clone() } else { resolved(&file.path, target) };
            let page = files.iter().find(|file| file.path == path);
            if page.is_none() && !exists(&path) {
                complaints.push(format!("{}: there is no `{link}`", file.path));
            } else if let Some(page) = page.filter(|page| !heading.is_empty() && page.path.ends_with(".md"))
                && !headings(&page.text).any(|anchor| anchor == heading)
            {
                complaints.push(format!("{}: `{link}` leads to no heading", file.path));
            }
        }
    }
    complaints
}

/// A link in a file, as a path from the top.
fn resolved(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of the headings of a page, as GitHub and mdBook make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    })
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
