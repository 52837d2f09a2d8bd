//! `CLIENT PAUSE` with blocked clients: their replies, and the time of these, must equal Valkey's.
//!
//! A dialogue is a text, one step a line: `1 REQUEST` sends a request on connection 1, `1?` waits for its reply,
//! `1-` checks that it has none, which means it is blocked. A request that is not awaited may be overtaken by
//! requests of other connections. Replies must be equal everywhere. Pauses that matter last until `CLIENT
//! UNPAUSE`, so that a slow machine changes nothing; only a pause of all commands must end by itself.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::io;
use std::time::Duration;

use trials::connection::Connection;
use trials::server::{Program, Server, programs_or_skip};

/// Time for which a connection must stay without a reply.
const SILENCE: Duration = Duration::from_millis(60);

const DIALOGUES: &[(&str, &str)] = &[
    ("a wait ends in time while writes are paused", "1 BLPOP k 0.5\n1-\n2 CLIENT PAUSE 100000 WRITE\n2?\n1?"),
    (
        "a wait ends in time while everything is paused",
        "1 BLPOP k 0.5\n1-\n2 CLIENT PAUSE 1500 ALL\n2?\n1?\n3 PING\n3?",
    ),
    (
        "a wait that would begin in a pause begins after it",
        "2 CLIENT PAUSE 100000 WRITE\n2?\n1 BLPOP k 0.01\n1-\n2 CLIENT UNPAUSE\n2?\n1?",
    ),
    (
        "a paused write serves no client before it runs",
        "1 BLPOP k 0\n1-\n2 CLIENT PAUSE 100000 WRITE\n2?\n3 RPUSH k v\n3-\n1-\n2 LLEN k\n2?\n2 CLIENT UNPAUSE\n2?\n3?\n1?\n2 LLEN k\n2?",
    ),
    (
        "a client that times out during the pause is not served after it",
        "1 BLPOP k 0.5\n1-\n2 CLIENT PAUSE 100000 WRITE\n2?\n3 RPUSH k v\n1?\n3-\n2 CLIENT UNPAUSE\n2?\n3?\n2 LRANGE k 0 -1\n2?",
    ),
    (
        "several are served in order after the pause",
        "1 BLPOP k 0\n1-\n2 BLPOP k 0\n2-\n3 CLIENT PAUSE 100000 WRITE\n3?\n4 RPUSH k a b c\n4-\n1-\n2-\n3 CLIENT UNPAUSE\n3?\n4?\n1?\n2?\n3 LRANGE k 0 -1\n3?",
    ),
    (
        "a transaction with writes is paused as a whole",
        "1 BLPOP k 0\n1-\n3 MULTI\n3?\n3 RPUSH k v\n3?\n3 GET x\n3?\n2 CLIENT PAUSE 100000 WRITE\n2?\n3 EXEC\n3-\n1-\n2 CLIENT UNPAUSE\n2?\n3?\n1?",
    ),
    (
        "a write is not even queued in a pause of writes",
        "2 CLIENT PAUSE 100000 WRITE\n2?\n1 MULTI\n1?\n1 GET x\n1?\n1 SET x 1\n1-\n2 CLIENT UNPAUSE\n2?\n1?\n1 EXEC\n1?",
    ),
    (
        "a client that waits for the end of a pause can't be unblocked, one that waits for a key can",
        "1 CLIENT ID\n1!\n2 CLIENT PAUSE 100000 WRITE\n2?\n1 BLPOP k 0\n1-\n2 CLIENT UNBLOCK @1\n2?\n1-\n2 CLIENT UNPAUSE\n2?\n1-\n\
         2 CLIENT PAUSE 100000 WRITE\n2?\n2 CLIENT UNBLOCK @1 ERROR\n2?\n1?\n2 CLIENT UNPAUSE\n2?",
    ),
    (
        "reads that wait are paused if they write, and only then",
        "1 XGROUP CREATE s g $ MKSTREAM\n1?\n2 CLIENT PAUSE 100000 WRITE\n2?\n1 XREAD BLOCK 50 STREAMS s $\n1?\n\
         1 XREADGROUP GROUP g c BLOCK 50 STREAMS s >\n1-\n2 CLIENT UNPAUSE\n2?\n1?",
    ),
    (
        "a paused deletion wakes no client before it runs",
        "1 XGROUP CREATE s g $ MKSTREAM\n1?\n1 XREADGROUP GROUP g c BLOCK 0 STREAMS s >\n1-\n2 CLIENT PAUSE 100000 WRITE\n2?\n3 DEL s\n3-\n1-\n\
         2 CLIENT UNPAUSE\n2?\n3?\n1?",
    ),
    (
        "a killed client's paused write is not run",
        "1 CLIENT ID\n1!\n2 CLIENT PAUSE 100000 WRITE\n2?\n1 SET x 1\n1-\n2 CLIENT KILL ID @1\n2?\n2 CLIENT UNPAUSE\n2?\n2 GET x\n2?",
    ),
    (
        "keys that expire in a pause are hidden, and deleted after it",
        "1 MULTI\n1?\n1 SET x 1 PX 1\n1?\n1 CLIENT PAUSE 100000 WRITE\n1?\n1 EXEC\n1?\n3-\n2 GET x\n2?\n2 EXISTS x\n2?\n2 DBSIZE\n2?\n\
         2 CLIENT UNPAUSE\n2?\n2 GET x\n2?\n2 DBSIZE\n2?",
    ),
    (
        "a pipeline stops at its first write",
        "2 CLIENT PAUSE 100000 WRITE\n2?\n1 GET x\n1 SET x 1\n1 GET x\n1?\n1-\n2 CLIENT UNPAUSE\n2?\n1?\n1?",
    ),
    (
        "messages are paused with the writes",
        "1 SUBSCRIBE c\n1?\n2 CLIENT PAUSE 100000 WRITE\n2?\n3 PUBLISH c x\n3-\n1-\n2 CLIENT UNPAUSE\n2?\n3?\n1?",
    ),
    (
        "a second pause prolongs the first and never shortens it",
        "2 CLIENT PAUSE 100000 WRITE\n2?\n2 CLIENT PAUSE 1 WRITE\n2?\n1 SET x 1\n1-\n2 CLIENT UNPAUSE\n2?\n1?",
    ),
    (
        "all commands are paused except waits that end by themselves",
        "2 CLIENT PAUSE 200 ALL\n2?\n1 GET x\n1-\n1?\n1 SET x 1\n1?",
    ),
];

/// Runs a dialogue on a server. Returns the replies, one per line.
fn run(server: &Server, dialogue: &str) -> io::Result<Vec<String>> {
    let mut admin = server.connect()?;
    admin.call(&["CLIENT", "UNPAUSE"])?;
    admin.call(&["FLUSHALL"])?;
    let mut connections: Vec<Connection> = (0..4).map(|_| server.connect()).collect::<Result<_, _>>()?;
    let mut ids = vec![String::new(); connections.len()];
    let mut seen = Vec::new();
    for line in dialogue.lines().map(str::trim) {
        let (number, step) = line.split_at(1);
        let index = number.parse::<usize>().unwrap() - 1;
        let connection = &mut connections[index];
        match step {
            "?" => {
                let reply = connection.receive()?;
                seen.push(format!("{line} {}", reply.bytes.escape_ascii()));
            }
            "!" => {
                let reply = connection.receive()?;
                ids[index] = String::from_utf8_lossy(&reply.bytes).trim_matches([':', '\r', '\n']).to_owned();
            }
            "-" => {
                let answered = connection.has_answer(SILENCE)?;
                seen.push(format!("{line} {}", if answered { "is answered" } else { "is silent" }));
            }
            request => {
                let mut request = request.trim().to_owned();
                for (index, id) in ids.iter().enumerate().filter(|(_, id)| !id.is_empty()) {
                    request = request.replace(&format!("@{}", index + 1), id);
                }
                connection.send(format!("{request}\r\n").as_bytes())?;
            }
        }
    }
    Ok(seen)
}

#[test]
fn pauses_affect_blocked_clients_as_in_valkey() {
    let programs = [("broadloom", Program::broadloom()), ("valkey", Program::valkey())];
    let Some([broadloom, valkey]) = programs_or_skip(programs) else { return };
    let reference = Server::start(&valkey).unwrap();
    for threads in ["1", "4"] {
        let ours = Server::start(&broadloom.clone().with_threads(threads)).unwrap();
        for (name, dialogue) in DIALOGUES {
            let expected =
                run(&reference, dialogue).unwrap_or_else(|error| panic!("{name}, Valkey: {error}"));
            let actual =
                run(&ours, dialogue).unwrap_or_else(|error| panic!("{name}, {threads} threads: {error}"));
            assert_eq!(actual, expected, "{name}, {threads} threads");
        }
    }
}
