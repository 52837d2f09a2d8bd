//! `CLIENT PAUSE` is a barrier: after its `OK` no write happens until the pause ends, even if the write began
//! before.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, now_us};
use crate::plan::Race;
use crate::world::World;

const COUNTER_COUNT: usize = 4;
/// The time after a pause within which no client waits any more: longer than stalls, shorter than the long pause.
const BLOCKED_US_MAX: u64 = 8_000_000;
/// The length of the long pause.
const LONG_PAUSE_MS: u64 = 60_000;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let writer = |number: usize| Client::new(format!("counting {number}"), write);
    let pauser = Client::new("pauser".to_owned(), pause);
    (0..world.plan.client_count).map(writer).chain([pauser]).collect()
}

/// Writes in batches, in transactions, and in commands that have to wait first.
fn write(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    connection.expect_ok(&["CLIENT", "SETNAME", "counting"]);
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
    let round_count = if world.plan.race == Some(Race::Moves) { 40 } else { 12 };
    for _ in 0..world.plan.request_count.min(round_count) {
        simulation::sleep_us(random.below(3_000) as u64);
        let first_ms = 1 + random.below(20) as u64;
        if random.chance(50) {
            connection.expect_ok(&["CLIENT", "PAUSE", &first_ms.to_string(), "WRITE"]);
            // The next pause begins about when this one ends.
            simulation::sleep_us((first_ms * 1000).saturating_sub(200) + random.below(400) as u64);
        }
        // Stalls a worker, possibly in the middle of a batch: the pause must wait for it.
        let thread = 1 + random.below(world.plan.thread_count as usize);
        simulation::stall(thread, random.below(20_000) as u64);
        connection.expect_ok(&["CLIENT", "PAUSE", &LONG_PAUSE_MS.to_string(), "WRITE"]);
        let start_us = now_us();
        let first = counters(&mut connection);
        simulation::sleep_us(random.below(30_000) as u64);
        let second = counters(&mut connection);
        // Checked only while the pause certainly lasts: a stalled thread may have used it up.
        if now_us() < start_us + (LONG_PAUSE_MS - 1000) * 1000 {
            assert_eq!(first, second, "{name}: a write happened during a pause");
        }
        if world.plan.race == Some(Race::Moves) {
            super::queues::wait_for_shrinking(world, &mut random);
        }
        connection.expect_ok(&["CLIENT", "UNPAUSE"]);
        expect_nobody_paused(&mut connection, name);
    }
}

/// Nobody waits for the end of a pause when there is none. Requests wait for other reasons, too, but not for long.
fn expect_nobody_paused(connection: &mut Connection, name: &str) {
    let start_us = now_us();
    loop {
        let list = connection.text(&["CLIENT", "LIST"]);
        let is_blocked = |line: &&str| line.contains(" name=counting ") && line.contains(" flags=b ");
        let Some(blocked) = list.lines().find(is_blocked) else { return };
        assert!(now_us() < start_us + BLOCKED_US_MAX, "{name}: blocked without a pause: {blocked}");
        simulation::sleep_us(20_000);
    }
}

fn counters(connection: &mut Connection) -> Reply {
    let keys: Vec<String> = (0..COUNTER_COUNT).map(|number| format!("paused:{number}")).collect();
    let mut request = vec!["MGET"];
    request.extend(keys.iter().map(String::as_str));
    connection.call(&request)
}
