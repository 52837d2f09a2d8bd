//! `broadloom bench` against a server that it starts itself, at a small scale: over TLS, with scripts, and as an ACL user.
use std::process::{Command, Output};

use crate::support::{Server, backends};

/// Runs the benchmark with one round of a few requests a workload. The output is one line for each workload.
fn bench(args: &[&str]) -> Output {
    let small = ["--keys", "500", "--requests", "2000", "--rounds", "1", "--warmup", "0", "--csv", "-"];
    Command::new(env!("CARGO_BIN_EXE_broadloom")).arg("bench").args(small).args(args).output().unwrap()
}

/// Checks that each of these cases sent its requests. Error replies make the benchmark fail.
fn check(output: &Output, cases: &[&str]) {
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{error}");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), cases.len(), "{text}");
    for (line, case) in lines.iter().zip(cases) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[1], fields[4]), (*case, "2000"), "{text}");
    }
}

#[test]
fn a_started_server_is_loaded_over_tls() {
    let server = format!("ours={}", env!("CARGO_BIN_EXE_broadloom"));
    for backend in backends() {
        let args = ["--tls", "--server", &server, "--io-backend", backend, "-w", "get,set", "-P", "1,16"];
        check(&bench(&args), &["get p1", "get p16", "set p1", "set p16"]);
    }
}

#[test]
fn scripts_are_loaded_first() {
    let server = format!("ours={}", env!("CARGO_BIN_EXE_broadloom"));
    let args = ["--server", &server, "--workload", "evalsha,job-queue", "--server-threads", "2"];
    check(&bench(&args), &["evalsha p1", "job-queue p1"]);
}

#[test]
fn users_of_one_server_are_compared() {
    let server = Server::start(&["--user", "bench", "on", ">secret", "~key:*", "+@all"]);
    let (all, limited) = (
        format!("default=127.0.0.1:{}", server.port),
        format!("limited=bench:secret@127.0.0.1:{}", server.port),
    );
    check(&bench(&["--server", &all, "--server", &limited]), &["get p1", "get p1"]);
    assert_eq!(server.client().text(&["ACL", "WHOAMI"]), "default", "the server still runs");
}
