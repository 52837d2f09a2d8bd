//! Client-side caches: if a write was acknowledged before another client sent a request, its invalidation
//! arrives no later than the reply to that request.

use std::collections::BTreeMap;

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::Client;
use crate::connection::{Connection, text_of};
use crate::world::{World, lock};

const KEY_COUNT: usize = 3;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let count = world.plan.client_count;
    // Each key has one writer, so that its values increase.
    let writer = |number: usize| {
        Client::new(format!("cache writer {number}"), move |world, name, random| {
            write(world, name, number, random)
        })
    };
    let reader = |number: usize| {
        Client::new(format!("cache reader {number}"), move |world, name, random| {
            read(world, name, number % 2 == 1, random);
        })
    };
    (0..KEY_COUNT).map(writer).chain((0..count).map(reader)).collect()
}

fn write(world: &World, name: &str, key: usize, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for value in 1..=world.plan.request_count as i64 {
        connection.expect_ok(&["SET", &format!("cached:{key}"), &value.to_string()]);
        lock(&world.acknowledged).insert(key, value);
        if random.chance(50) {
            simulation::sleep_us(random.below(2_000) as u64);
        }
    }
}

/// A connection that reads, and the connection that receives its invalidations, if it is a different one.
struct Reader {
    reading: Connection,
    target: Option<Connection>,
}

impl Reader {
    fn open(world: &World, name: &str, by_prefix: bool, redirects: bool) -> Self {
        let open = |name: &str| {
            let mut connection = Connection::open(world.address, name);
            connection.call(&["HELLO", "3"]);
            connection
        };
        let (mut reading, mut target) = (open(name), redirects.then(|| open(&format!("{name}'s target"))));
        let mut tracking = vec!["CLIENT", "TRACKING", "ON"];
        if by_prefix {
            tracking.extend(["BCAST", "PREFIX", "cached:"]);
        }
        let id = target.as_mut().map(|target| target.number(&["CLIENT", "ID"]).to_string());
        if let Some(id) = &id {
            tracking.extend(["REDIRECT", id]);
        }
        reading.expect_ok(&tracking);
        Self { reading, target }
    }

    /// The connection that receives the invalidations.
    fn notified(&mut self) -> &mut Connection {
        self.target.as_mut().unwrap_or(&mut self.reading)
    }
}

fn read(world: &World, name: &str, by_prefix: bool, mut random: Random) {
    let redirects = random.chance(50);
    let mut reader = Reader::open(world, name, by_prefix, redirects);
    let mut cache: BTreeMap<usize, i64> = BTreeMap::new();
    // About as long as the writers write.
    let request_count = world.plan.request_count * if world.plan.race.is_some() { 5 } else { 1 };
    for _ in 0..request_count {
        // A new connection is placed on a thread with few connections; existing ones stay together.
        if world.plan.race.is_some() && random.chance(10) {
            reader = Reader::open(world, name, by_prefix, redirects);
            cache.clear();
        }
        let key = random.below(KEY_COUNT);
        let known = lock(&world.acknowledged).clone();
        let is_cached = cache.contains_key(&key);
        let mut read = None;
        if !is_cached {
            let reply = reader.reading.call(&["GET", &format!("cached:{key}")]);
            let value = text_of(&reply).map_or(0, |text| text.parse().expect("a value is a number"));
            read = Some((key, value));
        }
        // The target may receive a later invalidation before this reply is applied.
        if redirects {
            cache.extend(read.take());
        }
        if is_cached || redirects {
            reader.notified().call(&["PING"]);
        }
        // Pushes received before the reply were sent before it, so they are applied first.
        while let Some(push) = reader.notified().next_push() {
            forget(&mut cache, &push);
        }
        for (key, acknowledged) in known {
            let cached = cache.get(&key).copied().unwrap_or(i64::MAX);
            assert!(
                cached >= acknowledged,
                "{name}: {cached} is cached for {key}, but {acknowledged} is acknowledged"
            );
        }
        cache.extend(read);
    }
}

fn forget(cache: &mut BTreeMap<usize, i64>, push: &[Reply]) {
    match push.get(1) {
        Some(Reply::List(_, keys)) => {
            for key in keys.iter().filter_map(text_of) {
                let number = key.trim_start_matches("cached:").parse::<usize>();
                number.ok().and_then(|number| cache.remove(&number));
            }
        }
        _ => cache.clear(),
    }
}
