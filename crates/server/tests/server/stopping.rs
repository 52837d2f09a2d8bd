//! The end of a server with replicas: they get everything that was acknowledged, and nothing beyond what is saved.

use crate::support::peer::{Peer, SELECT};
use crate::support::{Server, request, shown};

const OPTIONS: &[&str] =
    &["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--enable-debug-command", "yes"];

#[test]
fn replicas_get_what_precedes_a_shutdown_in_the_same_turn() {
    for threads in ["1", "2"] {
        let mut server = Server::start(&[OPTIONS, &["--io-threads", threads]].concat());
        let (mut replica, _, offset) = Peer::synchronised(&server);
        let mut client = server.client();
        let sets: String = (0..5).map(|number| request(&["SET", &format!("k{number}"), "1"])).collect();
        client.send_raw(format!("{sets}{}", request(&["SHUTDOWN", "NOSAVE"])).as_bytes());
        for _ in 0..5 {
            assert_eq!(shown(&client.receive().unwrap()), "OK");
        }
        let stream = format!("{SELECT}{sets}");
        replica.expect(&stream);
        server.log_line("Waiting for replicas before shutting down.");
        replica.acknowledge(offset + stream.len() as u64);
        assert!(client.receive().is_none());
        assert!(server.wait());
        server.log_line("1 of 1 replicas are in sync when shutting down.");
    }
}

#[test]
fn an_aborted_wait_for_replicas_ends_no_save_of_a_client() {
    let server = Server::start(&[OPTIONS, &["--rdb-key-save-delay", "10000000"]].concat());
    let (_replica, _, _) = Peer::synchronised(&server);
    let mut client = server.client();
    client.text(&["MSET", "a", "1", "b", "2"]);
    client.text(&["BGSAVE"]);
    let mut stopping = server.client();
    stopping.send(&["SHUTDOWN"]);
    server.log_line("Waiting for replicas before shutting down.");
    assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "OK");
    assert!(shown(&stopping.receive().unwrap()).starts_with("ERR Errors trying to SHUTDOWN"));
    assert_eq!(server.info(&mut client, "rdb_bgsave_in_progress"), "1");
    assert_eq!(server.info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(client.text(&["SET", "c", "3"]), "OK");
}

#[test]
fn nothing_follows_the_position_of_the_last_save() {
    let mut server = Server::start(&[OPTIONS, &["--shutdown-timeout", "0"]].concat());
    let (mut replica, _, _) = Peer::synchronised(&server);
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "11"]);
    client.text(&["CONFIG", "SET", "rdb-key-save-delay", "200000"]);
    client.send(&["SHUTDOWN", "SAVE"]);
    let mut stream = Vec::new();
    std::io::Read::read_to_end(&mut replica.0, &mut stream).unwrap();
    assert!(server.wait());
    // One may precede the save, which takes longer than two seconds.
    let pings = String::from_utf8(stream).unwrap().matches("PING").count();
    assert!(pings <= 1, "{pings} PINGs");
}
