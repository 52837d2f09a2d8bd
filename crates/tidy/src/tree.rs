//! The repository's files: those that git tracks, and untracked ones that are not ignored.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the repository.
pub struct SourceFile {
    /// Relative to the top of the repository, with forward slashes.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// The file's crate, or `None` outside `crates/`.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The top of the repository.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate lies in crates/tidy")
}

/// Reads every text file that git lists. Without git (in a tarball), walks the tree instead.
pub fn read_all() -> Vec<SourceFile> {
    let top = top();
    let mut paths = list_by_git(&top).unwrap_or_else(|| walk(&top, ""));
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| {
            std::fs::read_to_string(top.join(&path)).ok().map(|text| SourceFile { path, text })
        })
        .collect()
}

fn list_by_git(top: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(top)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(output.stdout).ok()?;
    Some(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(top: &Path, under: &str) -> Vec<String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(top.join(under)).map(|entries| entries.flatten().collect::<Vec<_>>());
    for entry in entries.unwrap_or_default() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        if entry.path().is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | ".peers" | "node_modules") {
                found.extend(walk(top, &path));
            }
        } else {
            found.push(path);
        }
    }
    found
}
