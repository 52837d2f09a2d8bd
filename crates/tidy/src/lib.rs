//! House rules as tests: what a machine can check of the house style, it checks here, on every `cargo test`.
//!
//! Owns: nothing; there is no code outside the tests. Touches: the tracked files of the repository, read only.
//! Invariants: each check is a function from a file's text to complaints, so that a planted fault can prove that it
//! notices; each exception stands in a list with its reason, and a list entry that is no longer needed is a complaint.
//! Start reading at `layers`, which holds the one table of who may use whom.
#![cfg(test)]

mod directives;
mod documents;
mod layers;
mod manifest;
mod shim;
mod sources;
mod tree;
mod words;

/// Fails the calling test with every complaint on a line of its own.
#[track_caller]
fn assert_tidy(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
