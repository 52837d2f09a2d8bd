//! The time at which commands run follows the clock, although other commands of the same turn take long.

use crate::support::{self, Client, Server, backends};
use wire::response::Reply;

/// The age that the time of a command may have, in milliseconds, with the rounding of both.
const AGE_MS_MAX: i64 = 2;

fn integer(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Receives a reply of `TIME`, in milliseconds.
fn receive_time(client: &mut Client) -> i64 {
    let Some(Reply::Array(parts)) = client.receive() else { panic!("no time") };
    let [seconds, micros] = [0, 1].map(|index| integer(&support::shown(&parts[index])));
    seconds * 1000 + micros / 1000
}

const TIMED: &[u8] = b"TIME\r\nSET lock v NX PX 30000\r\nPEXPIRETIME lock\r\nDEL lock\r\n";

/// Receives the replies to [`TIMED`]: the expiry began after the clock was read.
fn assert_time_is_current(client: &mut Client) {
    let before = receive_time(client);
    assert_eq!(support::shown(&client.receive().unwrap()), "OK");
    let began = integer(&support::shown(&client.receive().unwrap())) - 30_000;
    client.receive().unwrap();
    assert!(began >= before - AGE_MS_MAX, "{} ms", before - began);
}

fn with_server(test: impl Fn(&Server)) {
    for backend in backends() {
        let options = ["--io-backend", backend, "--io-threads", "1", "--enable-debug-command", "yes"];
        test(&Server::start(&options));
    }
}

#[test]
fn an_expiry_behind_a_long_command_of_the_same_pipeline_begins_after_it() {
    with_server(|server| {
        let mut client = server.client();
        client.send_raw(&[b"DEBUG SLEEP 0.05\r\n", TIMED].concat());
        client.receive().unwrap();
        assert_time_is_current(&mut client);
        // The long command may be in a transaction.
        client.send_raw(&[b"MULTI\r\nDEBUG SLEEP 0.05\r\nEXEC\r\n", TIMED].concat());
        (0..3).for_each(|_| drop(client.receive().unwrap()));
        assert_time_is_current(&mut client);
    });
}

#[test]
fn an_expiry_behind_a_long_command_of_another_connection_begins_after_it() {
    with_server(|server| {
        let (mut first, mut second, mut third) = (server.client(), server.client(), server.client());
        // While the worker sleeps, the requests of the others arrive, which it reads in one turn.
        first.send_raw(b"DEBUG SLEEP 0.1\r\n");
        second.send_raw(b"DEBUG SLEEP 0.05\r\n");
        third.send_raw(TIMED);
        second.receive().unwrap();
        assert_time_is_current(&mut third);
        first.receive().unwrap();
    });
}

#[test]
fn a_wait_behind_a_long_command_has_its_whole_time() {
    with_server(|server| {
        let mut client = server.client();
        client.send_raw(b"DEBUG SLEEP 0.1\r\nTIME\r\nBLPOP none 0.1\r\nTIME\r\n");
        client.receive().unwrap();
        let before = receive_time(&mut client);
        client.receive().unwrap();
        let waited = receive_time(&mut client) - before;
        assert!(waited >= 100 - AGE_MS_MAX, "{waited} ms");
    });
}
