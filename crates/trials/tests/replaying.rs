//! The append-only file that a server writes under concurrent load of all types, with transactions, gives the same data
//! again: in the order of the file each change has the result that it had.
//!
//! Several connections send random requests about the same few keys, in several databases, while the file is rewritten.
//! Then the server is killed and started again, and its digest and its functions compared.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use trials::connection::Connection;
use trials::differential::ensembles::data_families;
use trials::differential::sequence::{Recipe, Step};
use trials::random::Random;
use trials::reply::Reply;
use trials::server::{Program, Server, programs_or_skip};

const CONNECTION_COUNT: usize = 6;
const ROUND_COUNT: usize = 12;
const SEQUENCE_COUNT: usize = 10;
const SEQUENCE_LENGTH: usize = 100;
const DB_COUNT: usize = 2;

/// Sends the requests of some sequences, batch by batch; every fourth batch is a transaction.
fn play(server: &Server, mut random: Random) -> io::Result<()> {
    let mut connection = server.connect()?;
    let families: Vec<&str> = data_families().map(|family| family.name).collect();
    for _ in 0..SEQUENCE_COUNT {
        connection.call(&["SELECT", &random.below(DB_COUNT).to_string()])?;
        let recipe = Recipe::new(Some(*random.pick(&families)), SEQUENCE_LENGTH).expect("the family exists");
        let sequence = recipe.make(random.next_u64());
        for batch in sequence.batches() {
            let is_played = |step: &&Step| !step.may_wait() && !step.chooses_what_is_logged();
            let steps: Vec<&Step> = batch.iter().filter(is_played).collect();
            let mut requests: Vec<Vec<u8>> = steps.iter().map(|step| step.bytes()).collect();
            if random.chance(25) {
                requests.insert(0, b"MULTI\r\n".to_vec());
                requests.push(b"EXEC\r\n".to_vec());
            }
            connection.send(&requests.concat())?;
            for _ in requests {
                connection.receive()?;
            }
        }
    }
    Ok(())
}

/// Returns the libraries of functions, in any order.
fn libraries(connection: &mut Connection) -> BTreeSet<String> {
    match connection.call(&["FUNCTION", "LIST", "WITHCODE"]).unwrap().reply {
        Reply::List(_, libraries) => libraries.iter().map(|library| format!("{library:?}")).collect(),
        other => panic!("{other:?}"),
    }
}

/// Returns the digest of the data once all expired keys are deleted: the digest includes those that are not.
fn digest(connection: &mut Connection) -> Reply {
    for db in 0..DB_COUNT {
        connection.call(&["SELECT", &db.to_string()]).unwrap();
        let mut count = |words: &[&str]| match connection.call(words).unwrap().reply {
            Reply::Integer(count) => count,
            Reply::List(_, keys) => keys.len() as i64,
            other => panic!("{other:?}"),
        };
        while count(&["DBSIZE"]) != count(&["KEYS", "*"]) {}
    }
    connection.call(&["DEBUG", "DIGEST"]).unwrap().reply
}

/// Describes each key, to find those that differ.
fn describe_keys(connection: &mut Connection) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut keys = BTreeMap::new();
    for db in 0..DB_COUNT {
        connection.call(&["SELECT", &db.to_string()]).unwrap();
        let Reply::List(_, names) = connection.call(&["KEYS", "*"]).unwrap().reply else { panic!("no list") };
        for name in names {
            let Reply::Bulk(name) = name else { panic!("{name:?}") };
            let mut ask = |words: &[&[u8]]| connection.call(&[words, &[&name]].concat()).unwrap().reply;
            let facts =
                [ask(&[b"TYPE"]), ask(&[b"PEXPIRETIME"]), ask(&[b"DEBUG", b"DIGEST-VALUE"]), ask(&[b"DUMP"])];
            keys.insert((db, name), format!("{facts:?}"));
        }
    }
    keys
}

fn check_replay(policy: &str, threads: &str) {
    let Some([program]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    let program = program.with_arguments(&["--appendonly", "yes", "--appendfsync", policy]);
    let mut server = Server::start(&program.with_threads(threads)).unwrap();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut random = Random::new(seed);
    for round in 0..ROUND_COUNT {
        std::thread::scope(|scope| {
            let players: Vec<_> = (0..CONNECTION_COUNT)
                .map(|_| {
                    let (server, random) = (&server, random.fork());
                    scope.spawn(move || play(server, random))
                })
                .collect();
            if round % 3 == 1 {
                server.connect().unwrap().call(&["BGREWRITEAOF"]).unwrap();
            }
            players.into_iter().for_each(|player| player.join().unwrap().unwrap());
        });
        let mut admin = server.connect().unwrap();
        // The file holds everything when the marker is in it.
        admin.call(&["SET", "marker", &round.to_string()]).unwrap();
        let awaited = admin.call(&["WAITAOF", "1", "0", "0"]).unwrap().reply;
        assert_eq!(awaited, Reply::List(b'*', vec![Reply::Integer(1), Reply::Integer(0)]));
        let before = digest(&mut admin);
        let keys = describe_keys(&mut admin);
        let functions = libraries(&mut admin);
        server.kill().unwrap();
        server.start_again().unwrap();
        let mut admin = server.connect().unwrap();
        assert_eq!(libraries(&mut admin), functions, "seed {seed}, round {round}");
        if digest(&mut admin) != before {
            let found = describe_keys(&mut admin);
            let differ = |key: &&(usize, Vec<u8>)| keys.get(key) != found.get(key);
            let all: BTreeSet<_> = keys.keys().chain(found.keys()).collect();
            for key in all.into_iter().filter(differ) {
                let (db, name) = key;
                println!("db {db}, {}:\n  {:?}\n  {:?}", name.escape_ascii(), keys.get(key), found.get(key));
            }
            panic!("seed {seed}, round {round}: the keys above differ");
        }
    }
}

#[test]
fn a_log_of_concurrent_changes_repeats_their_results() {
    check_replay("everysec", "4");
}

#[test]
fn a_log_that_replies_wait_for_repeats_them_too() {
    check_replay("always", "2");
}
