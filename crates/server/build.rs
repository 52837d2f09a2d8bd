//! Passes the commit of the source tree to the program, if there is one.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-env-changed=BROADLOOM_COMMIT");
    let commit = std::env::var("BROADLOOM_COMMIT").ok().or_else(commit_of_checkout);
    println!("cargo::rustc-env=BROADLOOM_COMMIT={}", commit.as_deref().unwrap_or("00000000"));
    println!("cargo::rustc-env=BROADLOOM_PROFILE={}", std::env::var("PROFILE").unwrap_or_default());
}

fn commit_of_checkout() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
