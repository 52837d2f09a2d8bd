//! The parts of Cargo.toml that the checks need: the dependencies in each section, read line by line.

/// The names in the `[dependencies]` and `[build-dependencies]` sections, also for a `target`.
pub fn dependencies(manifest: &str) -> Vec<String> {
    names_in(manifest, |kind| kind != "dev-dependencies")
}

/// The names in every kind of dependency section.
pub fn all_dependencies(manifest: &str) -> Vec<String> {
    names_in(manifest, |_| true)
}

/// Whether the crate takes the workspace's lints.
pub fn takes_workspace_lints(manifest: &str) -> bool {
    section_lines(manifest)
        .any(|(section, line)| section == "lints" && line.replace(' ', "") == "workspace=true")
}

fn names_in(manifest: &str, wants_kind: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for (section, line) in section_lines(manifest) {
        let (kind, table_name) = match section.split_once("dependencies.") {
            Some((before, name)) => (format!("{before}dependencies"), Some(name)),
            None => (section.to_owned(), None),
        };
        let kind = kind.rsplit('.').next().unwrap_or_default();
        if !kind.ends_with("dependencies") || !wants_kind(kind) {
            continue;
        }
        let name = table_name.unwrap_or_else(|| line.split(['=', '.', ' ']).next().unwrap_or_default());
        let name = name.trim_matches('"').to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Each line that is not empty or a comment, with the name of its section.
fn section_lines(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    manifest.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            return None;
        }
        (!line.is_empty() && !line.starts_with('#')).then_some((section, line))
    })
}

#[test]
fn every_form_of_a_dependency_is_found() {
    let manifest = "[package]\nname = \"x\"\n[lints]\nworkspace = true\n[dependencies]\nbase.workspace = true\n\
        # why\nstrsim = \"0.11\"\nahash = { version = \"0.8\" }\n[target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n\
        [dependencies.libc]\nversion = \"0.2\"\nfeatures = []\n[dev-dependencies]\nproptest = \"1\"\n";
    assert_eq!(dependencies(manifest), ["base", "strsim", "ahash", "loom", "libc"]);
    assert_eq!(all_dependencies(manifest), ["base", "strsim", "ahash", "loom", "libc", "proptest"]);
    assert!(takes_workspace_lints(manifest));
    assert!(!takes_workspace_lints("[package]\nworkspace = true\n"));
}
