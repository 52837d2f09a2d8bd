//! Runs the forms.

use std::time::Duration;

use trials::connection::Connection;
use trials::effects::data::{bulk, call, let_pass};
use trials::effects::requests::Request;
use trials::reply::Reply;

use crate::forms::FORMS;

const FAR: &str = "4102444800000";
const LIBRARY: &[u8] =
    b"#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('incr', keys[1]) end)";

/// Runs all forms.
pub fn run_forms(connection: &mut Connection) {
    for (number, form) in FORMS.iter().enumerate() {
        for request in form.split("; ") {
            run(connection, &request.replace('@', &format!("k{number}:")).replace("FAR", FAR));
        }
    }
}

/// Runs a request of a form.
fn run(connection: &mut Connection, request: &str) {
    const EXPIRY_TIME: Duration = Duration::from_millis(4);
    if let Some(key) = request.strip_prefix("STREAM ") {
        return make_stream(connection, key);
    }
    if request == "PAUSE" {
        return let_pass(connection, EXPIRY_TIME);
    }
    let words: Request = request.split(' ').map(|word| bytes_of(connection, word)).collect();
    // The signature of a payload of a later version is wrong.
    let is_signed = !request.contains("LATER-DUMP-OF:");
    if !is_signed {
        call(connection, &[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"1"]);
    }
    let reply = connection.call(&words).unwrap().reply;
    if !is_signed {
        call(connection, &[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"0"]);
    }
    assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
}

/// Returns a word of a request, or what is named in its place.
fn bytes_of(connection: &mut Connection, word: &str) -> Vec<u8> {
    if let Some((name @ ("DUMP-OF" | "LATER-DUMP-OF"), key)) = word.split_once(':') {
        let mut payload = bulk(call(connection, &[b"DUMP", key.as_bytes()]));
        if name == "LATER-DUMP-OF" {
            let version_at = payload.len() - 10;
            payload[version_at] = 12;
        }
        return payload;
    }
    match word {
        "LIBRARY" => LIBRARY.to_vec(),
        "LIBRARIES" => bulk(call(connection, &[b"FUNCTION", b"DUMP"])),
        "SHA" => bulk(call(connection, &[b"SCRIPT", b"LOAD", b"return redis.call('incr', KEYS[1])"])),
        _ => word.as_bytes().to_vec(),
    }
}

/// A stream of six entries. Group `g` has read five and acknowledged one, `h` has read two.
fn make_stream(connection: &mut Connection, key: &str) {
    for id in 1..=6 {
        run(connection, &format!("XADD {key} {id}-1 f v{id}"));
    }
    run(connection, &format!("XGROUP CREATE {key} g 0"));
    run(connection, &format!("XGROUP CREATE {key} h 0"));
    run(connection, &format!("XREADGROUP GROUP g c COUNT 5 STREAMS {key} >"));
    run(connection, &format!("XREADGROUP GROUP h c COUNT 2 STREAMS {key} >"));
    run(connection, &format!("XACK {key} g 4-1"));
}
