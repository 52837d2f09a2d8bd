//! Replication over TLS (`tls-replication`), with certificates and logins of replicas: full and partial synchronisation, both
//! forms of the separate connection for the snapshot, `FAILOVER`; between servers of this kind and with real ones.

use std::net::TcpListener;

use crate::certificates::{Authority, Files};
use crate::support::synchronising::expect_synchronised;
use crate::support::{
    self, Client, Server, replication_field as field, wait_for, wait_for_replication_field as expect_field,
};

const OURS: &str = env!("CARGO_BIN_EXE_broadloom");

const DEBUG: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];

/// A server with a plain port for clients and a TLS port for replicas, who log in.
struct Secure {
    server: Server,
    port: u16,
}

impl Secure {
    fn start(program: &str, files: &Files, options: &[&str]) -> Self {
        let (certificate, key, ca) =
            (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
        let all = [
            &["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca][..],
            &["--tls-replication", "yes", "--masteruser", "follower", "--masterauth", "secret"],
            DEBUG,
            options,
        ];
        let server = Server::start_program(program, &[], &all.concat());
        let mut client = server.client();
        let rules = ["on", ">secret", "+psync", "+sync", "+replconf", "+ping"];
        assert_eq!(client.text(&[&["ACL", "SETUSER", "follower"], &rules[..]].concat()), "OK");
        // Opened afterwards: another process may have taken the port.
        let port = wait_for(|| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            (client.text(&["CONFIG", "SET", "tls-port", &port.to_string()]) == "OK").then_some(port)
        });
        Self { server, port }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    /// Makes a server a replica of this one.
    fn is_followed_by(&self, replica: &Secure) -> Client {
        let mut client = replica.client();
        assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &self.port.to_string()]), "OK");
        client
    }
}

fn statistic(server: &Server, name: &str) -> u64 {
    server.info(&mut server.client(), name).parse().unwrap()
}

/// A full synchronisation, a partial one, and a failover there and back.
fn expect_replication(primary: &Secure, replica: &Secure) {
    expect_synchronised(&primary.server, primary.port, &replica.server);
    let (mut there, mut here) = (primary.client(), replica.client());
    let replicas = there.text(&["CLIENT", "LIST", "TYPE", "replica"]);
    assert!(replicas.contains("user=follower") && replicas.contains("cmd="), "{replicas}");
    let partial = statistic(&primary.server, "sync_partial_ok");
    there.text(&["CLIENT", "KILL", "TYPE", "replica"]);
    wait_for(|| (statistic(&primary.server, "sync_partial_ok") > partial).then_some(()));
    expect_field(&mut here, "master_link_status", "up");
    for (old, new) in [(primary, replica), (replica, primary)] {
        let (mut there, mut here) = (old.client(), new.client());
        there.text(&["SET", "before", "1"]);
        wait_for(|| there.text(&["INFO", "replication"]).contains("state=online").then_some(()));
        assert_eq!(there.text(&["WAIT", "1", "20000"]), "1");
        assert_eq!(there.text(&["FAILOVER", "TO", "127.0.0.1", &new.port.to_string()]), "OK");
        expect_field(&mut there, "role", "slave");
        expect_field(&mut here, "role", "master");
        expect_field(&mut there, "master_link_status", "up");
        assert_eq!(field(&mut there, "master_port"), new.port.to_string());
        here.text(&["SET", "after", "2"]);
        assert_eq!(here.text(&["WAIT", "1", "20000"]), "1");
        assert_eq!(there.text(&["MGET", "before", "after"]), "1\n2");
    }
    for server in [primary, replica] {
        assert!(statistic(&server.server, "sync_full") <= 1, "a role changes without a full synchronisation");
    }
}

#[test]
fn servers_of_this_kind() {
    let authority = Authority::new("authority");
    let files = Files::new("replication", &authority);
    for options in [
        &["--tls-auth-clients", "yes"][..],
        &["--tls-auth-clients", "no", "--io-threads", "2"],
        &["--tls-auth-clients", "yes", "--dual-channel-replication-enabled", "yes"],
        &["--tls-auth-clients", "yes", "--repl-rdb-channel", "yes"],
        &["--tls-auth-clients", "yes", "--repl-diskless-load", "swapdb"],
        &["--tls-auth-clients", "yes", "--repl-diskless-sync", "no", "--io-backend", "epoll"],
    ] {
        let (primary, replica) = (Secure::start(OURS, &files, options), Secure::start(OURS, &files, options));
        expect_replication(&primary, &replica);
    }
}

#[test]
fn real_servers_in_either_direction() {
    let authority = Authority::new("authority");
    let files = Files::new("replication-peers", &authority);
    for path in support::peers() {
        let path = path.to_str().unwrap();
        let channel = match path.contains("valkey") {
            true => ["--dual-channel-replication-enabled", "yes"],
            false => ["--repl-rdb-channel", "yes"],
        };
        for form in [&[][..], &channel] {
            let of_peer = if path.ends_with("/redis-server") { &[][..] } else { form };
            let ours = Secure::start(OURS, &files, form);
            let theirs = Secure::start(path, &files, of_peer);
            expect_replication(&ours, &theirs);
            let ours = Secure::start(OURS, &files, form);
            let theirs = Secure::start(path, &files, of_peer);
            expect_replication(&theirs, &ours);
        }
    }
}

#[test]
fn certificates_of_replicas_are_checked() {
    let (authority, unrelated) = (Authority::new("authority"), Authority::new("unrelated"));
    let files = Files::new("replication-certificates", &authority);
    files.put("unrelated", &unrelated.issue("unrelated", &[]));
    files.put("follower", &authority.issue("follower", &[]));
    let primary = Secure::start(OURS, &files, &["--tls-auth-clients", "yes"]);
    primary.client().text(&["SET", "k", "v"]);
    let (certificate, key) = (files.path("unrelated.crt"), files.path("unrelated.key"));
    let options = ["--tls-client-cert-file", &certificate, "--tls-client-key-file", &key];
    let replica = Secure::start(OURS, &files, &options);
    let mut client = primary.is_followed_by(&replica);
    replica.server.log_line("Connection to the primary ended: ");
    assert_eq!(field(&mut client, "master_link_status"), "down");
    // The next attempt uses the present certificate.
    let (certificate, key) = (files.path("follower.crt"), files.path("follower.key"));
    let change = ["CONFIG", "SET", "tls-client-cert-file", &certificate, "tls-client-key-file", &key];
    assert_eq!(client.text(&change), "OK");
    expect_field(&mut client, "master_link_status", "up");
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(field(&mut client, "master_replid"), field(&mut primary.client(), "master_replid"));
}

#[test]
fn the_certificate_of_the_primary_is_checked() {
    let (authority, unrelated) = (Authority::new("authority"), Authority::new("unrelated"));
    let files = Files::new("replication-authority", &authority);
    let others = Files::new("replication-unrelated", &unrelated);
    let primary = Secure::start(OURS, &files, &["--tls-auth-clients", "no"]);
    let replica = Secure::start(OURS, &others, &[]);
    let mut client = primary.is_followed_by(&replica);
    replica.server.log_line("Error condition on socket for SYNC with 127.0.0.1:");
    assert_eq!(field(&mut client, "master_link_status"), "down");
    assert_eq!(client.text(&["CONFIG", "SET", "tls-ca-cert-file", &files.path("ca.crt")]), "OK");
    expect_field(&mut client, "master_link_status", "up");
}

#[test]
fn both_ends_must_agree_on_encryption() {
    let authority = Authority::new("authority");
    let files = Files::new("replication-plain", &authority);
    let options = ["--tls-auth-clients", "no", "--repl-timeout", "3", "--repl-ping-replica-period", "1"];
    let (primary, replica) = (Secure::start(OURS, &files, &options), Secure::start(OURS, &files, &options));
    // TLS to a plain port, then plain to a TLS port.
    let mut client = replica.client();
    client.text(&["REPLICAOF", "127.0.0.1", &primary.server.port.to_string()]);
    replica.server.log_line("Timeout connecting to the PRIMARY...");
    assert_eq!(client.text(&["CONFIG", "SET", "tls-replication", "no"]), "OK");
    expect_field(&mut client, "master_link_status", "up");
    client.text(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    replica.server.log_line("Connection to the primary ended: ");
    assert_eq!(field(&mut client, "master_link_status"), "down");
    assert_eq!(client.text(&["CONFIG", "SET", "tls-replication", "yes"]), "OK");
    expect_field(&mut client, "master_link_status", "up");
}
