//! Commands that depend on time: keys expire by the wall clock, and waits end by the monotonic clock.

use std::sync::atomic::Ordering;

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::Client;
use crate::connection::{Connection, now_us};
use crate::world::World;

/// Maximum delay of a timeout: the longest stall of a schedule plus a margin.
const LATE_US_MAX: u64 = 60_000_000;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| {
        Client::new(format!("timed {number}"), move |world, name, random| run(world, name, number, random))
    };
    (0..world.plan.client_count).map(client).collect()
}

fn run(world: &World, name: &str, number: usize, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count.min(12) {
        if random.chance(50) {
            expire(world, &mut connection, name, &format!("timed:{number}"), &mut random);
        } else {
            wait(&mut connection, name, &mut random);
        }
    }
}

/// A key is present before its expiry, and absent afterwards.
fn expire(world: &World, connection: &mut Connection, name: &str, key: &str, random: &mut Random) {
    let steps = world.clock_steps.load(Ordering::Relaxed);
    let lives_ms = random.between(1, 40);
    let before_ms = wall_ms();
    connection.expect_ok(&["SET", key, "x", "PX", &lives_ms.to_string()]);
    let set_ms = wall_ms();
    simulation::sleep_us(random.below(80_000) as u64);
    let request_ms = wall_ms();
    let reply = connection.call(&["GET", key]);
    let reply_ms = wall_ms();
    if world.clock_steps.load(Ordering::Relaxed) != steps {
        return;
    }
    // The server reads its clock once per turn, so its time may lag by up to one turn; it is never ahead.
    if reply_ms < before_ms + lives_ms {
        assert_ne!(reply, Reply::Null, "{name}: {key} is absent before its expiry");
    }
    if request_ms > set_ms + lives_ms + 1 {
        assert_eq!(reply, Reply::Null, "{name}: {key} is present after its expiry");
    }
}

/// A blocking command with a timeout ends on time, regardless of the wall clock.
fn wait(connection: &mut Connection, name: &str, random: &mut Random) {
    let timeout_ms = random.between(1, 100);
    let start_us = now_us();
    let reply = connection.call(&["BLPOP", "nothing", &format!("0.{timeout_ms:03}")]);
    assert_eq!(reply, Reply::Null);
    let waited_us = now_us() - start_us;
    assert!(
        waited_us + 1000 >= timeout_ms as u64 * 1000,
        "{name}: waited {waited_us} us instead of {timeout_ms} ms"
    );
    assert!(
        waited_us < timeout_ms as u64 * 1000 + LATE_US_MAX,
        "{name}: waited {waited_us} us instead of {timeout_ms} ms"
    );
}

fn wall_ms() -> i64 {
    simulation::unix_micros().unwrap_or(0) / 1000
}
