//! The imports between the folders of a crate's `src` point one way: no folder imports, directly or through others,
//! from a folder that imports from it.
//!
//! A file at the top and the folder of its name are one. Files inside a folder may import each other. The root of the
//! crate (`lib.rs`, `main.rs`) and test modules are exempt. Names that the root re-exports are followed to their folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_tidy;
use crate::tree::{SourceFile, read_all};

/// The files that begin a crate; they name every folder.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];

/// For each folder, the folders that it imports from, each with an importing file.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn folders_import_one_way() {
    let files = read_all();
    let crates: BTreeSet<&str> = files.iter().filter_map(SourceFile::crate_name).collect();
    assert_tidy(crates.into_iter().flat_map(|name| check(name, &files)).collect());
}

#[test]
fn planted_faults_are_noticed() {
    let file =
        |path: &str, text: &str| SourceFile { path: format!("crates/x/src/{path}"), text: text.to_owned() };
    let root =
        || file("lib.rs", "//! X.\nmod a;\nmod b;\nmod c;\npub use b::deep::{Thing, other as Other};\n");
    let one_way = [
        root(),
        file("a.rs", "use crate::b;\n// crate::c\n"),
        file("a/inner.rs", "use super::x;\nuse crate::a::y;\n"),
        file("b/mod.rs", "use crate::{c::C, sync};\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        file("c.rs", "#[cfg(test)]\nmod proofs;\n"),
        file("c/proofs.rs", "use crate::a;\n"),
    ];
    assert_eq!(check("x", &one_way), [""; 0]);

    let faults = [
        (
            "c.rs",
            "fn f() { crate::a::f(); }\n",
            "a imports b (crates/x/src/a.rs), b imports c (crates/x/src/b/mod.rs), c imports a (crates/x/src/c.rs)",
        ),
        (
            "b/deep.rs",
            "use super::super::{\n    a::{A, B},\n};\n",
            "a imports b (crates/x/src/a.rs), b imports a (crates/x/src/b/deep.rs)",
        ),
        (
            "c.rs",
            "use crate::Thing;\n",
            "b imports c (crates/x/src/b/mod.rs), c imports b (crates/x/src/c.rs)",
        ),
        (
            "c/d.rs",
            "use crate::{Other, z};\n",
            "b imports c (crates/x/src/b/mod.rs), c imports b (crates/x/src/c/d.rs)",
        ),
    ];
    for (path, text, cycle) in faults {
        let mut files = vec![
            root(),
            file("a.rs", "use crate::b;\n"),
            file("b/mod.rs", "use crate::c;\n"),
            file("c/mod.rs", ""),
        ];
        files.push(file(path, text));
        assert_eq!(check("x", &files), [format!("crates/x/src: {cycle}")]);
    }
}

/// Returns a complaint for each set of folders of a crate that import each other.
fn check(crate_name: &str, files: &[SourceFile]) -> Vec<String> {
    let imports = imports(crate_name, files);
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in imports.keys() {
        let cycle: BTreeSet<&String> = reached_from(folder, &imports)
            .into_iter()
            .filter(|other| reached_from(other, &imports).contains(folder))
            .collect();
        if cycle.is_empty() || !seen.insert(cycle.clone()) {
            continue;
        }
        let arrows: Vec<String> = cycle
            .iter()
            .flat_map(|from| imports[*from].iter().map(move |(to, file)| (from, to, file)))
            .filter(|(_, to, _)| cycle.contains(to))
            .map(|(from, to, file)| format!("{from} imports {to} ({file})"))
            .collect();
        complaints.push(format!("crates/{crate_name}/src: {}", arrows.join(", ")));
    }
    complaints
}

/// The folders that a folder imports from, directly or through others.
fn reached_from<'a>(folder: &str, imports: &'a Imports) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = imports[folder].keys().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(imports[next].keys());
        }
    }
    reached
}

fn imports(crate_name: &str, files: &[SourceFile]) -> Imports {
    let source = format!("crates/{crate_name}/src/");
    let sources: Vec<(&str, &SourceFile)> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(&source)?.strip_suffix(".rs")?, file)))
        .collect();
    let is_root = |path: &str| ROOTS.iter().any(|root| root.strip_suffix(".rs") == Some(path));
    let tests: Vec<String> = sources.iter().flat_map(|(path, file)| test_files(path, &file.text)).collect();
    let mut imports = Imports::new();
    let mut re_exports = BTreeMap::new();
    for (path, file) in &sources {
        if is_root(path) {
            re_exports.extend(re_exports_of(&code_of(&file.text)));
        } else {
            imports.entry(folder_of(path)).or_default();
        }
    }
    for (path, file) in &sources {
        let is_test = tests.iter().any(|test| path == test || path.starts_with(&format!("{test}/")));
        if is_root(path) || is_test {
            continue;
        }
        let own = folder_of(path);
        for name in names_from_root(path, &code_of(&file.text)) {
            let folder =
                if imports.contains_key(&name) { &name } else { re_exports.get(&name).unwrap_or(&own) };
            if *folder != own && imports.contains_key(folder) {
                let arrows = imports.entry(own.clone()).or_default();
                arrows.entry(folder.clone()).or_insert_with(|| file.path.clone());
            }
        }
    }
    imports
}

/// The folder of a file, or the name of a file at the top.
fn folder_of(path: &str) -> String {
    path.split('/').next().unwrap_or(path).to_owned()
}

/// The modules that a file declares for tests only, as paths.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let folder = match path.strip_suffix("/mod") {
        Some(folder) => format!("{folder}/"),
        None if ROOTS.contains(&format!("{path}.rs").as_str()) => String::new(),
        None => format!("{path}/"),
    };
    let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|behind| {
        let line = behind.lines().next()?.trim().trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    declared.map(|name| format!("{folder}{name}")).collect()
}

/// A file's text without comments and test modules.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut is_test = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let begins_test = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        is_test |= begins_test;
        if !is_test {
            code.push_str(line.split("//").next().unwrap_or(line));
            code.push('\n');
        }
        is_test &= line != "}";
    }
    code
}

/// The names that the root re-exports from its folders, each with the folder.
fn re_exports_of(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for behind in code.split("use ").skip(1) {
        for path in paths_of(behind.trim_start_matches("crate::").trim_start_matches("self::")) {
            if let ([folder, .., name], true) = (&path[..], path.len() > 1) {
                found.push((name.clone(), folder.clone()));
            }
        }
    }
    found
}

/// The names that a file uses from the root of its crate, by `crate::` or by enough `super::`.
fn names_from_root(path: &str, code: &str) -> Vec<String> {
    let depth = path.strip_suffix("/mod").unwrap_or(path).split('/').count();
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let is_whole =
                !code[..at].ends_with(|before: char| before.is_alphanumeric() || ":_".contains(before));
            if is_whole {
                let paths = paths_of(&code[at + prefix.len()..]);
                found.extend(paths.into_iter().filter_map(|path| path.into_iter().next()));
            }
        }
    }
    found
}

/// The paths of the import, or the single path, that `code` begins with; the last part of a path is its new name, if it
/// is renamed.
fn paths_of(code: &str) -> Vec<Vec<String>> {
    let mut rest = code;
    paths_at(&mut rest)
}

fn paths_at(rest: &mut &str) -> Vec<Vec<String>> {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('{') {
        *rest = inner;
        let mut all = Vec::new();
        loop {
            *rest = rest.trim_start_matches(|character: char| character.is_whitespace() || character == ',');
            if rest.is_empty() {
                return all;
            }
            if let Some(behind) = rest.strip_prefix('}') {
                *rest = behind;
                return all;
            }
            let before = rest.len();
            all.extend(paths_at(rest));
            if rest.len() == before {
                return all;
            }
        }
    }
    let end =
        rest.find(|part: char| !part.is_alphanumeric() && part != '_' && part != '*').unwrap_or(rest.len());
    let (mut name, behind) = rest.split_at(end);
    *rest = behind;
    if name.is_empty() {
        return Vec::new();
    }
    if let Some(behind) = rest.strip_prefix("::") {
        *rest = behind;
        let tails = paths_at(rest);
        let all = tails.into_iter().map(|tail| std::iter::once(name.to_owned()).chain(tail).collect());
        return all.collect();
    }
    if let Some(behind) = rest.strip_prefix(" as ") {
        let end = behind.find(|part: char| !part.is_alphanumeric() && part != '_').unwrap_or(behind.len());
        (name, *rest) = behind.split_at(end);
    }
    vec![vec![name.to_owned()]]
}
