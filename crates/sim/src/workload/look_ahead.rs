//! A small table of one slot that constantly replaces its memory, and many threads that prefetch from it
//! without the latch.
//!
//! All pauses are about as long as the plan's stalls, so that turns begin while the thread that changes the
//! table is stalled.

use std::sync::atomic::Ordering;

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

const LOOKER_COUNT: usize = 6;
/// Maximum number of commands per batch.
const BATCH_COUNT_MAX: usize = 3;

pub(super) fn clients(_: &World) -> Vec<Client> {
    let looker = |number: usize| Client::new(format!("looker {number}"), look);
    let changer = Client::new("changer".to_owned(), change);
    (0..LOOKER_COUNT).map(looker).chain([changer]).collect()
}

/// Adds or removes some keys.
fn change(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mates = world.slot_mates();
    for _ in 0..world.plan.request_count {
        let requests: Vec<Vec<String>> = (0..=random.below(BATCH_COUNT_MAX))
            .map(|_| {
                let (first, count) = (random.below(mates.len()), 1 + random.below(mates.len() / 2));
                let is_adding = random.chance(50);
                let mut line = (if is_adding { "MSET" } else { "DEL" }).to_owned();
                for key in mates.iter().cycle().skip(first).take(count) {
                    line += &format!(" {key}");
                    line += &if is_adding { format!(" {key}") } else { String::new() };
                }
                words(&line)
            })
            .collect();
        connection.send(&requests).expect("this connection is never closed");
        for request in requests {
            let reply = connection.receive().expect("this connection is never closed");
            assert!(!matches!(reply, Reply::Error(_)), "{name}: {} gives {reply:?}", request.join(" "));
        }
        pause(world, &mut random);
    }
    world.is_table_done.store(true, Ordering::Relaxed);
}

/// Reads some of the keys from time to time.
fn look(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mates = world.slot_mates();
    while !world.is_table_done.load(Ordering::Relaxed) {
        let keys: Vec<&String> = (0..=random.below(BATCH_COUNT_MAX)).map(|_| random.pick(mates)).collect();
        let requests: Vec<Vec<String>> = keys.iter().map(|key| words(&format!("GET {key}"))).collect();
        connection.send(&requests).expect("this connection is never closed");
        for key in keys {
            let reply = connection.receive().expect("this connection is never closed");
            let is_right = reply == Reply::Null || text_of(&reply).as_ref() == Some(key);
            assert!(is_right, "{name}: {key} holds {reply:?}");
        }
        pause(world, &mut random);
    }
}

fn pause(world: &World, random: &mut Random) {
    simulation::sleep_us(1 + random.below(world.plan.gap_stalls.stall_us_max as usize) as u64);
}
