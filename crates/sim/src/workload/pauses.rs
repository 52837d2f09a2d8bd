//! `CLIENT PAUSE` is a barrier: after its `OK` no write happens until the pause ends, even if the write began
//! before.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, now_us};
use crate::world::World;

const COUNTER_COUNT: usize = 4;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let writer = |number: usize| Client::new(format!("counting {number}"), write);
    let pauser = Client::new("pauser".to_owned(), pause);
    (0..world.plan.client_count).map(writer).chain([pauser]).collect()
}

/// Writes in batches, in transactions, and in commands that have to wait first.
fn write(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count {
        let key = format!("paused:{}", random.below(COUNTER_COUNT));
        let requests = match random.below(3) {
            0 => vec![words(&format!("INCR {key}")); 1 + random.below(300)],
            1 => vec![
                words("MULTI"),
                words(&format!("INCR {key}")),
                words(&format!("INCR {key}")),
                words("EXEC"),
            ],
            _ => {
                let all: Vec<String> = (0..COUNTER_COUNT)
                    .map(|number| format!("paused:{number} {}", random.below(1000)))
                    .collect();
                vec![words(&format!("MSET {}", all.join(" "))); 1 + random.below(4)]
            }
        };
        connection.send(&requests).expect("this connection is never closed");
        for _ in requests {
            let reply = connection.receive().expect("this connection is never closed");
            assert!(!matches!(reply, Reply::Error(_)), "{name}: a write fails: {reply:?}");
        }
    }
}

/// Pauses, and pauses again at about the end of a pause; repeated reads must be equal.
fn pause(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count.min(12) {
        simulation::sleep_us(random.below(3_000) as u64);
        let first_ms = 1 + random.below(20) as u64;
        if random.chance(50) {
            connection.expect_ok(&["CLIENT", "PAUSE", &first_ms.to_string(), "WRITE"]);
            // The next pause begins about when this one ends.
            simulation::sleep_us((first_ms * 1000).saturating_sub(200) + random.below(400) as u64);
        }
        let long_ms = 10_000;
        // Stalls a worker, possibly in the middle of a batch: the pause must wait for it.
        let thread = 1 + random.below(world.plan.thread_count as usize);
        simulation::stall(thread, random.below(20_000) as u64);
        connection.expect_ok(&["CLIENT", "PAUSE", &long_ms.to_string(), "WRITE"]);
        let start_us = now_us();
        let first = counters(&mut connection);
        simulation::sleep_us(random.below(30_000) as u64);
        let second = counters(&mut connection);
        // Checked only while the pause certainly lasts: a stalled thread may have used it up.
        if now_us() < start_us + (long_ms - 1000) * 1000 {
            assert_eq!(first, second, "{name}: a write happened during a pause");
        }
        connection.expect_ok(&["CLIENT", "UNPAUSE"]);
    }
}

fn counters(connection: &mut Connection) -> Reply {
    let keys: Vec<String> = (0..COUNTER_COUNT).map(|number| format!("paused:{number}")).collect();
    let mut request = vec!["MGET"];
    request.extend(keys.iter().map(String::as_str));
    connection.call(&request)
}
