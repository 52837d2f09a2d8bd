//! House rules as tests: the rules that can be checked, on every `cargo test`.
//!
//! Owns: nothing; there is no code outside the tests. Touches: the tracked files of the repository, read only.
//! Invariants: each check is a function from a file's text to complaints, which a planted fault tests. Each exception is
//! listed with its reason, and a superfluous entry is a complaint.
//! Start reading at `layers`, the table of dependencies between crates.
#![cfg(test)]

mod directives;
mod documents;
mod folders;
mod layers;
mod manifest;
mod shim;
mod sources;
mod third_party;
mod tree;
mod words;

/// Fails the calling test with one line for each complaint.
#[track_caller]
fn assert_tidy(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
