//! A replica whose link has ended, or whose snapshot can't be loaded: what it asks for next, and what `INFO` shows.

use crate::support::primary::{ID, Played};
use crate::support::{
    Server, replication_field as field, request, wait_for_replication_field as expect_field,
};

/// The same bytes would come again.
#[test]
fn after_input_that_is_no_request_all_data_are_asked_for() {
    let server = Server::start(&[]);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let mut link = played.synchronise(ID);
    link.0.send("*abc\r\n");
    server.log_line("Protocol error");
    expect_field(&mut client, "master_link_status", "down");
    let (_, words) = played.accept();
    assert!(words.ends_with("PSYNC ? -1 "), "{words}");
}

#[test]
fn a_snapshot_of_an_unknown_version_changes_nothing() {
    for mode in ["disabled", "flush-before-load"] {
        let server = Server::start(&["--repl-diskless-load", mode, "--appendonly", "yes"]);
        let played = Played::new();
        let mut client = server.client();
        client.text(&["SET", "own", "1"]);
        played.is_followed_by(&server);
        let id = field(&mut client, "master_replid");
        let (mut link, _) = played.accept();
        link.0.send(&format!("+FULLRESYNC {ID} 100\r\n$9\r\nREDIS9999"));
        // The next attempt.
        let (_link, words) = played.accept();
        assert!(words.contains(&format!("PSYNC {id} ")), "{words}");
        assert_eq!(field(&mut client, "master_replid"), id);
        assert_eq!(client.text(&["GET", "own"]), "1");
    }
}

/// Sentinel takes the age of the data from it.
#[test]
fn another_primary_does_not_make_the_data_younger() {
    let server = Server::start(&[]);
    let (played, other) = (Played::new(), Played::new());
    let mut client = played.is_followed_by(&server);
    assert_eq!(field(&mut client, "master_link_down_since_seconds"), "-1");
    let _link = played.synchronise(ID);
    expect_field(&mut client, "master_link_status", "up");
    for next in [&other, &played] {
        next.is_followed_by(&server);
        assert_ne!(field(&mut client, "master_link_down_since_seconds"), "-1");
    }
}

#[test]
fn names_of_primaries_have_no_case() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.text(&["REPLICAOF", "primary.invalid", "1"]), "OK");
    let again = client.text(&["REPLICAOF", "Primary.Invalid", "1"]);
    assert_eq!(again, "OK Already connected to specified master");
}

#[test]
fn a_request_of_the_primary_that_fails_ends_the_replica_if_that_is_wanted() {
    for (behaviour, read_only, ends) in [
        ("ignore", "yes", false),
        ("panic", "yes", true),
        ("panic-on-replicas", "yes", true),
        ("panic", "no", false),
    ] {
        let options = ["--propagation-error-behavior", behaviour, "--replica-read-only", read_only];
        let mut server = Server::start(&options);
        let played = Played::new();
        let mut client = played.is_followed_by(&server);
        let mut link = played.synchronise(ID);
        let failing = format!("{}{}", request(&["SELECT", "0"]), request(&["INCR", "k"]));
        link.0.send(&failing);
        server.log_line("This replica is sending an error to its primary");
        if ends {
            assert!(!server.wait());
            server.log_line(
                "This replica panicked sending an error to its primary after processing the command 'incr'",
            );
        } else {
            link.expect_acknowledged(100 + failing.len());
            assert_eq!(server.info(&mut client, "unexpected_error_replies"), "1");
        }
    }
}
