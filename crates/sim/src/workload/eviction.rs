//! A full cache: memory stays at its limit, every write finds room or is refused, and reads return the
//! written value or null.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

const KEY_COUNT: usize = 400;
const ROUNDS_MAX: usize = 200;
const UNDER_WAY_SIZE: usize = 32 << 10;
const POLICIES: &[&str] = &[
    "allkeys-lru",
    "allkeys-lrm",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-ttl",
    "noeviction",
];

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| Client::new(format!("cache {number}"), run);
    let limit = Client::new("limit".to_owned(), limit);
    (0..world.plan.client_count).map(client).chain([limit]).collect()
}

fn run(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count {
        let key = random.below(KEY_COUNT);
        let value = format!("{key}:{}", "x".repeat(random.below(3_000)));
        let mut requests = vec![vec!["SET".to_owned(), format!("full:{key}"), value]];
        if random.chance(50) {
            requests[0].extend(words("EX 100"));
        }
        requests.push(words(&format!("GET full:{}", random.below(KEY_COUNT))));
        connection.send(&requests).expect("this connection is never closed");
        for request in requests {
            let reply = connection.receive().expect("this connection is never closed");
            let key = request[1].trim_start_matches("full:");
            match &reply {
                Reply::Error(text) => assert!(text.starts_with(b"OOM"), "{name}: {reply:?}"),
                Reply::Bulk(_) => {
                    let text = text_of(&reply).unwrap_or_default();
                    assert!(
                        text.starts_with(&format!("{key}:")),
                        "{name}: {key} returns another key's value"
                    );
                }
                _ => {}
            }
        }
    }
}

/// Sets memory limits that are reached soon, and eviction policies.
fn limit(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let start: usize = info(&mut connection, "used_memory");
    for _ in 0..8 {
        let limit = start + random.below(300_000);
        connection.expect_ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        let policy = POLICIES[random.below(POLICIES.len())];
        connection.expect_ok(&["CONFIG", "SET", "maxmemory-policy", policy]);
        if policy.starts_with("allkeys") {
            wait_for_room(&mut connection, limit);
        }
        simulation::sleep_us(random.below(20_000) as u64);
    }
    connection.expect_ok(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// Waits until memory is below a new limit. Under an `allkeys` policy it must succeed, whatever the write
/// rate.
fn wait_for_room(connection: &mut Connection, limit: usize) {
    for _ in 0..ROUNDS_MAX {
        // The outstanding requests of all clients may be added.
        if info(connection, "used_memory") <= limit + UNDER_WAY_SIZE || connection.number(&["DBSIZE"]) == 0 {
            return;
        }
        simulation::sleep_us(5_000);
    }
    panic!("{} bytes are used, and the limit is {limit}", info(connection, "used_memory"));
}

fn info(connection: &mut Connection, field: &str) -> usize {
    let text = connection.text(&["INFO", "memory"]);
    let found =
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("INFO has no {field}"))
}
