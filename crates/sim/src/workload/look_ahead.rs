//! A small table of one slot that replaces its memory all the time, and many that look ahead into it without the latch.
//!
//! All pauses are about as long as the stalls of the plan, so that turns begin while the thread that changes the table is stalled.

use std::sync::atomic::Ordering;

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

const LOOKER_COUNT: usize = 6;
/// Commands in one batch.
const BATCH_COUNT_MAX: usize = 3;

pub(super) fn clients(_: &World) -> Vec<Client> {
    let looker = |number: usize| Client::new(format!("looker {number}"), look);
    let changer = Client::new("changer".to_owned(), change);
    (0..LOOKER_COUNT).map(looker).chain([changer]).collect()
}

/// Adds some keys, or removes some.
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
        connection.send(&requests).expect("nobody ends this connection");
        for request in requests {
            let reply = connection.receive().expect("nobody ends this connection");
            assert!(!matches!(reply, Reply::Error(_)), "{name}: {} gives {reply:?}", request.join(" "));
        }
        pause(world, &mut random);
    }
    world.is_table_done.store(true, Ordering::Relaxed);
}

/// Asks for some of the keys now and then.
fn look(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mates = world.slot_mates();
    while !world.is_table_done.load(Ordering::Relaxed) {
        let keys: Vec<&String> = (0..=random.below(BATCH_COUNT_MAX)).map(|_| random.pick(mates)).collect();
        let requests: Vec<Vec<String>> = keys.iter().map(|key| words(&format!("GET {key}"))).collect();
        connection.send(&requests).expect("nobody ends this connection");
        for key in keys {
            let reply = connection.receive().expect("nobody ends this connection");
            let is_right = reply == Reply::Null || text_of(&reply).as_ref() == Some(key);
            assert!(is_right, "{name}: {key} holds {reply:?}");
        }
        pause(world, &mut random);
    }
}

fn pause(world: &World, random: &mut Random) {
    simulation::sleep_us(1 + random.below(world.plan.gap_stalls.stall_us_max as usize) as u64);
}
