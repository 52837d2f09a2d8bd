//! The imports between the folders of a crate's `src` point one way: no folder imports, directly or through others,
//! from a folder that imports from it.
//!
//! A file at the top and the folder of its name are one. Files inside a folder may import each other. The root of the
//! crate (`lib.rs`, `main.rs`) and test modules are exempt. Names that the root re-exports are followed to their file.
//! Files that cannot do without each other are listed in [`CIRCLES`].

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_tidy;
use crate::tree::{SourceFile, read_all};

/// The files that begin a crate; they name every folder.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];

/// Files in several folders of a crate that import each other. A list may only shrink (a file may be divided): one that is in
/// no circle any more must leave it.
struct Circle {
    crate_name: &'static str,
    /// Why they need each other.
    reason: &'static str,
    /// Below the crate's `src`.
    files: &'static [&'static str],
}

impl Circle {
    fn has(&self, module: &str) -> bool {
        self.files.iter().any(|path| path.strip_suffix(".rs") == Some(module))
    }
}

static CIRCLES: &[Circle] = &[Circle {
    crate_name: "collections",
    reason: "a table has entries, an entry may hold a collection, and a collection of many members has a table",
    files: &[
        "entry.rs",
        "entry/exclusive.rs",
        "entry/owned_entry.rs",
        "entry/owned_entry/content.rs",
        "entry/writer.rs",
        "table.rs",
        "table/entry_mut.rs",
        "values/hash.rs",
        "values/hash/fields.rs",
        "values/members.rs",
        "values/members/whole.rs",
        "values/object.rs",
        "values/set.rs",
        "values/sorted_set.rs",
        "values/sorted_set/cursor.rs",
        "values/sorted_set/large.rs",
        "values/sorted_set/leaf.rs",
        "values/sorted_set/tree.rs",
    ],
}];

/// For each file or folder, those that it imports from, each with the path of an importing file. Files are named by their
/// modules: the path below `src`, without `.rs`.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn folders_import_one_way() {
    let files = read_all();
    let crates: BTreeSet<&str> = files.iter().filter_map(SourceFile::crate_name).collect();
    assert_tidy(crates.into_iter().flat_map(|name| check(name, &files, CIRCLES)).collect());
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
    assert_eq!(check("x", &one_way, &[]), [""; 0]);

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
        assert_eq!(check("x", &files, &[]), [format!("crates/x/src: {cycle}")]);
    }
}

#[test]
fn planted_faults_in_a_circle_are_noticed() {
    let file =
        |path: &str, text: &str| SourceFile { path: format!("crates/x/src/{path}"), text: text.to_owned() };
    let complaints = |files: &'static [&'static str], changed: &str, text: &str| {
        let mut all = BTreeMap::from([
            ("lib.rs", "pub use a::Thing;\n"),
            ("a.rs", "mod inner;\nuse inner::Inner;\n"),
            ("a/inner.rs", "use super::Thing;\nuse crate::b::B;\n"),
            ("a/other.rs", "use super::inner;\n"),
            ("b.rs", "use crate::{Thing, z};\n"),
            ("b/user.rs", "use crate::a::other;\n"),
        ]);
        all.insert(changed, text);
        let all: Vec<SourceFile> = all.into_iter().map(|(path, text)| file(path, text)).collect();
        check("x", &all, &[Circle { crate_name: "x", reason: "why", files }])
    };
    let stale = |path: &str| format!("crates/x/src/{path}: CIRCLES lists it (why), but it is in no circle");
    let circle: &[&str] = &["a.rs", "a/inner.rs", "b.rs"];
    assert_eq!(complaints(circle, "c.rs", ""), [""; 0]);
    // Imports of and by other files still count.
    assert_eq!(complaints(circle, "b.rs", "use crate::a::{Thing, other};\nuse self::user::U;\n"), [""; 0]);
    assert_eq!(
        complaints(circle, "a/other.rs", "use crate::b::B;\n"),
        ["crates/x/src: a imports b (crates/x/src/a/other.rs), b imports a (crates/x/src/b/user.rs)"]
    );
    assert_eq!(
        complaints(&["a.rs", "a/inner.rs"], "c.rs", ""),
        [
            "crates/x/src: a imports b (crates/x/src/a/inner.rs), b imports a (crates/x/src/b.rs)",
            &stale("a.rs"),
            &stale("a/inner.rs"),
        ]
    );
    assert_eq!(complaints(circle, "b.rs", ""), ["a.rs", "a/inner.rs", "b.rs"].map(stale));
    assert_eq!(complaints(&["a.rs", "a/inner.rs", "b.rs", "gone.rs"], "c.rs", ""), [stale("gone.rs")]);
}

/// Returns a complaint for each set of folders of a crate that import each other, where imports between the files of a listed
/// circle do not count; and for each listed file that is in no circle of them.
fn check(crate_name: &str, files: &[SourceFile], circles: &[Circle]) -> Vec<String> {
    let modules = imports(crate_name, files);
    let circles: Vec<&Circle> = circles.iter().filter(|circle| circle.crate_name == crate_name).collect();
    let are_listed = |from: &str, to: &str| circles.iter().any(|circle| circle.has(from) && circle.has(to));
    let (mut folders, mut listed) = (Imports::new(), Imports::new());
    for (from, imported) in &modules {
        let folder = folders.entry(folder_of(from)).or_default();
        for (to, file) in imported {
            if are_listed(from, to) {
                listed.entry(from.clone()).or_default().insert(to.clone(), file.clone());
            } else if folder_of(from) != folder_of(to) {
                folder.entry(folder_of(to)).or_insert_with(|| file.clone());
            }
        }
    }
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in folders.keys() {
        let cycle = cycle_of(folder, &folders);
        if cycle.is_empty() || !seen.insert(cycle.clone()) {
            continue;
        }
        let arrows: Vec<String> = cycle
            .iter()
            .flat_map(|from| folders[*from].iter().map(move |(to, file)| (from, to, file)))
            .filter(|(_, to, _)| cycle.contains(to))
            .map(|(from, to, file)| format!("{from} imports {to} ({file})"))
            .collect();
        complaints.push(format!("crates/{crate_name}/src: {}", arrows.join(", ")));
    }
    for (circle, path) in
        circles.iter().flat_map(|circle| circle.files.iter().map(move |path| (circle, path)))
    {
        let cycle = cycle_of(path.strip_suffix(".rs").unwrap_or(path), &listed);
        if cycle.into_iter().map(|module| folder_of(module)).collect::<BTreeSet<_>>().len() < 2 {
            let reason = circle.reason;
            complaints.push(format!(
                "crates/{crate_name}/src/{path}: CIRCLES lists it ({reason}), but it is in no circle"
            ));
        }
    }
    complaints
}

/// The files or folders that a file or folder imports, directly or through others, and that import it likewise.
fn cycle_of<'a>(name: &str, imports: &'a Imports) -> BTreeSet<&'a String> {
    let is_back = |other: &&String| reached_from(other, imports).into_iter().any(|reached| reached == name);
    reached_from(name, imports).into_iter().filter(is_back).collect()
}

/// The files or folders that a file or folder imports, directly or through others.
fn reached_from<'a>(name: &str, imports: &'a Imports) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = imports.get(name).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(imports.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// The imports of each file of a crate.
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
            let paths = re_exports_of(&code_of(&file.text)).into_iter();
            re_exports.extend(paths.filter_map(|path| Some((path.last()?.clone(), path))));
        } else {
            imports.insert(module_of(path).to_owned(), BTreeMap::new());
        }
    }
    for (path, file) in &sources {
        let is_test = tests.iter().any(|test| path == test || path.starts_with(&format!("{test}/")));
        if is_root(path) || is_test {
            continue;
        }
        let own = module_of(path);
        let named = names_in(own, &code_of(&file.text), &imports);
        let found: Vec<String> = named
            .iter()
            .filter_map(|(from, names)| match names.first().and_then(|name| re_exports.get(name)) {
                Some(re_exported) if from.is_empty() && !imports.contains_key(&names[0]) => {
                    file_of("", re_exported, &imports)
                }
                _ => file_of(from, names, &imports),
            })
            .collect();
        let arrows = imports.entry(own.to_owned()).or_default();
        arrows.extend(found.into_iter().filter(|to| to != own).map(|to| (to, file.path.clone())));
    }
    imports
}

/// The module of a file, from its path without `.rs`.
fn module_of(path: &str) -> &str {
    path.strip_suffix("/mod").unwrap_or(path)
}

/// The last module that a path leads to from another module; `None` for items of the root.
fn file_of(from: &str, names: &[String], modules: &Imports) -> Option<String> {
    let mut module = from.to_owned();
    for name in names {
        let next = join(&module, name);
        if !modules.contains_key(&next) {
            break;
        }
        module = next;
    }
    (!module.is_empty()).then_some(module)
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}/{name}") }
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

/// The paths that the root re-exports from its folders.
fn re_exports_of(code: &str) -> Vec<Vec<String>> {
    let uses = code.split("use ").skip(1);
    let paths =
        uses.flat_map(|behind| paths_of(behind.trim_start_matches("crate::").trim_start_matches("self::")));
    paths.filter(|path| path.len() > 1).collect()
}

/// The paths that the file of a module names, each with the module in which it begins: by `crate::`, `self::`, `super::` or
/// the name of a module below.
fn names_in(own: &str, code: &str, modules: &Imports) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let start = code[..at]
            .rfind(|part: char| !part.is_alphanumeric() && part != '_')
            .map_or(0, |before| before + 1);
        if code[..start].ends_with(':') {
            continue;
        }
        let mut rest = &code[at + 2..];
        let from = match &code[start..at] {
            "crate" => String::new(),
            "self" => own.to_owned(),
            "super" => {
                let mut from = parent_of(own);
                while let Some(behind) = rest.strip_prefix("super::") {
                    (from, rest) = (parent_of(from), behind);
                }
                from.to_owned()
            }
            name if modules.contains_key(&join(own, name)) => join(own, name),
            _ => continue,
        };
        found.extend(paths_of(rest).into_iter().map(|names| (from.clone(), names)));
    }
    found
}

fn parent_of(module: &str) -> &str {
    module.rsplit_once('/').map_or("", |(parent, _)| parent)
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
