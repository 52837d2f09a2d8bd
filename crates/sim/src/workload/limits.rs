//! Connections at their limits: replies that are not read for long, blocked requests with large arguments, nested replies. All
//! replies are complete; a connection with more output than its limit is closed instead. At the end of the run, no memory of
//! these connections is left or charged.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

/// The size of large values and arguments.
const LARGE_SIZE: usize = 40_000;
/// The limit of output, some large values.
const OUTPUT_LIMIT: &str = "normal 400000 0 0";
/// The depth of nested replies.
const DEPTH: usize = 20;
/// Returns `{{...{ARGV[1]}...}}`, nested as deep as `ARGV[2]` says.
const NESTED: &str = "local value = ARGV[1] for _ = 1, tonumber(ARGV[2]) do value = {value} end return value";

pub(super) fn clients(world: &World) -> Vec<Client> {
    let count = world.plan.client_count;
    let late = |number: usize| Client::new(format!("late reader {number}"), read_late);
    let blocked = |number: usize| {
        Client::new(format!("large waiter {number}"), move |world, name, random| {
            wait(world, name, number, random)
        })
    };
    let nested = Client::new("nested".to_owned(), nest);
    (0..count).map(late).chain((0..count).map(blocked)).chain([nested]).collect()
}

fn large(letter: &str) -> String {
    letter.repeat(LARGE_SIZE)
}

/// Reads large replies after a while, or not at all. Each connection that reads gets the whole of its replies, or is closed.
fn read_late(world: &World, name: &str, mut random: Random) {
    let value = large("v");
    for _ in 0..world.plan.request_count / 2 {
        let mut connection = Connection::open(world.address, name);
        connection.expect_ok(&["CONFIG", "SET", "client-output-buffer-limit", OUTPUT_LIMIT]);
        connection.expect_ok(&["SET", "limits:large", &value]);
        let count = 1 + random.below(20);
        if connection.send(&vec![words("GET limits:large"); count]).is_err() {
            continue;
        }
        simulation::sleep_us(random.below(5_000) as u64);
        match random.below(3) {
            0 => connection.reset(),
            1 => drop(connection),
            _ => {
                for _ in 0..count {
                    let Ok(reply) = connection.receive() else { break };
                    assert_eq!(text_of(&reply).as_deref(), Some(&value[..]), "{name}: a damaged reply");
                }
            }
        }
    }
}

/// Waits with a large name of a key, or for a large element: until another connection pushes it, in time, or the connection
/// ends.
fn wait(world: &World, name: &str, number: usize, mut random: Random) {
    let mut pusher = Connection::open(world.address, name);
    for round in 0..world.plan.request_count / 2 {
        let mut waiter = Connection::open(world.address, name);
        // Waiters that are gone may still take the elements of their key.
        let (key, unused) = (format!("limits:queue:{number}:{round}"), large("k"));
        let timeout = *random.pick(&["0", "0.02"]);
        let request = ["BLPOP", &unused, &key, timeout].map(str::to_owned).to_vec();
        if waiter.send(&[request]).is_err() {
            continue;
        }
        simulation::sleep_us(random.below(4_000) as u64);
        match random.below(3) {
            0 => waiter.reset(),
            1 => drop(waiter),
            _ => {
                let element = large("e");
                pusher.number(&["RPUSH", &key, &element]);
                let reply = waiter.receive().expect("this connection is never closed");
                match &reply {
                    Reply::List(_, items) => assert_eq!(text_of(&items[1]), Some(element), "{name}"),
                    Reply::Null if timeout != "0" => {}
                    other => panic!("{name}: {other:?} instead of an element"),
                }
            }
        }
    }
}

/// Gets nested replies, in transactions, too.
fn nest(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count {
        let depth = random.below(DEPTH);
        let request = ["EVAL", NESTED, "0", "core", &depth.to_string()].map(str::to_owned).to_vec();
        let in_transaction = random.chance(50);
        let requests = match in_transaction {
            true => vec![words("MULTI"), request, words("EXEC")],
            false => vec![request],
        };
        connection.send(&requests).expect("this connection is never closed");
        let mut reply = Reply::Null;
        for _ in &requests {
            reply = connection.receive().expect("this connection is never closed");
        }
        let mut found = 0;
        while let Reply::List(_, items) = &reply {
            assert_eq!(items.len(), 1, "{name}: a damaged reply");
            (reply, found) = (items[0].clone(), found + 1);
        }
        if let Reply::Error(text) = &reply {
            // Another load kills scripts.
            super::scripts::assert_harmless(name, text);
            continue;
        }
        assert_eq!(found, depth + usize::from(in_transaction), "{name}: the depth of a reply");
        assert_eq!(text_of(&reply).as_deref(), Some("core"), "{name}");
    }
}
