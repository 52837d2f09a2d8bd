//! Many keys in one slot, so that its table grows and shrinks while other threads prefetch from it without
//! the latch.

use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

/// Number of keys in one slot.
pub const GROWN_COUNT: usize = 100;
const FLUSHES: &[&str] = &["FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB"];

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| Client::new(format!("grower {number}"), run);
    (0..world.plan.client_count).map(client).collect()
}

/// Adds keys in batches and removes them again; each read returns the written value.
fn run(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mates = world.slot_mates();
    let mates = &mates[..mates.len().min(GROWN_COUNT)];
    // Flushes delete all keys, so no other load may have any.
    let is_alone = world.plan.loads.len() == 1;
    for round in 0..world.plan.request_count {
        let first = random.below(mates.len());
        let is_growing = (round / 4).is_multiple_of(2);
        let requests: Vec<Vec<String>> = (0..1 + random.below(40))
            .map(|offset| {
                let key = &mates[(first + offset) % mates.len()];
                match random.below(20) {
                    0 if is_alone && random.chance(5) => words(FLUSHES[random.below(FLUSHES.len())]),
                    1 => words(&format!("SET {key} {key} PX {}", 1 + random.below(30))),
                    2 => {
                        let some = mates.iter().cycle().skip(first).take(1 + random.below(20));
                        words(&some.fold("DEL".to_owned(), |line, key| line + " " + key))
                    }
                    3..=8 => words(&format!("GET {}", random.pick(mates))),
                    _ if is_growing => words(&format!("SET {key} {key}")),
                    _ => words(&format!("DEL {key}")),
                }
            })
            .collect();
        connection.send(&requests).expect("this connection is never closed");
        for request in requests {
            let reply = connection.receive().expect("this connection is never closed");
            assert!(!matches!(reply, Reply::Error(_)), "{name}: {} gives {reply:?}", request.join(" "));
            if let Reply::Bulk(_) = &reply {
                let key = &request[1];
                assert_eq!(text_of(&reply).as_ref(), Some(key), "{name}: {key} returns another key's value");
            }
        }
    }
}
