//! The log of a running server: what a client finds in it after a reply.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::directory::Directory;
use crate::support::{Client, backends, on_each_backend, wait_for};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

#[test]
fn a_reply_follows_the_lines_that_its_request_logs() {
    let directory = Directory::new("log");
    for backend in backends() {
        let log = directory.path(backend);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new(env!("CARGO_BIN_EXE_broadloom"))
            .args(["--bind", "127.0.0.1", "--save", "", "--io-threads", "2", "--io-backend", backend])
            .args(["--logfile", &log, "--port", &port.to_string()])
            .args(DEBUG)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_for(|| logged().contains("Ready to accept connections").then_some(()));
        let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(port)).collect();
        for number in 0..300 {
            let text = format!("line {number}.");
            assert_eq!(clients[number % 6].text(&["DEBUG", "LOG", &text]), "OK");
            assert!(logged().contains(&text), "{text}");
        }
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn the_replication_id_changes_on_demand() {
    on_each_backend(&DEBUG, |server| {
        let mut client = server.client();
        let before = server.info(&mut client, "master_replid");
        assert_eq!(client.text(&["DEBUG", "CHANGE-REPL-ID"]), "OK");
        let after = server.info(&mut client, "master_replid");
        assert!(before.len() == 40 && after.len() == 40 && before != after, "{before} {after}");
    });
}
