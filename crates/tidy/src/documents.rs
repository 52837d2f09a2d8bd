//! Rules for the documents: every page can be reached, every dependency has its reason in ARCHITECTURE.md.

use crate::tree::{SourceFile, read_all};
use crate::{assert_tidy, manifest};

const ENTRANCES: &[&str] = &["README.md", "ARCHITECTURE.md"];

#[test]
fn every_page_is_linked() {
    assert_tidy(check_links(&read_all()));
}

#[test]
fn every_dependency_has_its_reason() {
    assert_tidy(check_dependencies(&read_all()));
}

#[test]
fn planted_faults_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let lonely = [file("README.md", "see docs/a.md"), file("docs/a.md", ""), file("docs/b.md", "")];
    assert_eq!(check_links(&lonely), ["docs/b.md: linked from neither README.md nor ARCHITECTURE.md"]);

    let manifest = file("crates/wire/Cargo.toml", "[dependencies]\nbase.workspace = true\nmemchr = \"2\"\n");
    let base = file("crates/base/Cargo.toml", "");
    let silent = file("ARCHITECTURE.md", "We use memchr.");
    let complaint = check_dependencies(&[silent, base, manifest]);
    assert_eq!(complaint, ["crates/wire/Cargo.toml: ARCHITECTURE.md does not say why it uses `memchr`"]);
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

/// ARCHITECTURE.md has a table of the external crates; each is named there in backticks.
fn check_dependencies(files: &[SourceFile]) -> Vec<String> {
    let Some(architecture) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return Vec::new();
    };
    let is_ours = |name: &String| files.iter().any(|file| file.path == format!("crates/{name}/Cargo.toml"));
    let mut complaints = Vec::new();
    for file in
        files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
    {
        let external = manifest::all_dependencies(&file.text).into_iter().filter(|name| !is_ours(name));
        for name in external.filter(|name| !architecture.text.contains(&format!("`{name}`"))) {
            complaints.push(format!("{}: ARCHITECTURE.md does not say why it uses `{name}`", file.path));
        }
    }
    complaints
}
