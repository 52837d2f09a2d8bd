//! Commands on few keys, recorded with their replies; afterwards a linearisation of the history is searched.

use std::sync::Mutex;

use trials::linearisability::collections::{Act, TYPES};
use trials::linearisability::search::{Command, Operation};
use trials::linearisability::store::{Op, choose};
use trials::random::Random;

use super::Client;
use crate::connection::Connection;
use crate::world::{World, lock};

pub(super) fn strings(world: &World) -> Vec<Client> {
    let make = |random: &mut Random, unique: i64| choose::single(random, 3, unique);
    clients(world, "strings", Extent { request_count_max: 40, pipeline_max: 3 }, |world| &world.strings, make)
}

pub(super) fn many_strings(world: &World) -> Vec<Client> {
    // Flushes delete all keys, so no other load may have any.
    let flushes = world.plan.loads.len() == 1;
    let make = move |random: &mut Random, unique: i64| {
        if flushes && random.chance(10) {
            Op::Flush((0..4).collect())
        } else {
            choose::any(random, 4, unique)
        }
    };
    clients(
        world,
        "many",
        Extent { request_count_max: 20, pipeline_max: 2 },
        |world| &world.many_strings,
        make,
    )
}

pub(super) fn collections(world: &World) -> Vec<Client> {
    // Streams are excluded: their ids are times.
    let verbs = TYPES[world.plan.seed as usize % (TYPES.len() - 1)];
    let make = move |random: &mut Random, unique: i64| Act::choose(verbs, random, 3, unique);
    clients(
        world,
        "collections",
        Extent { request_count_max: 12, pipeline_max: 1 },
        |world| &world.collections,
        make,
    )
}

/// Limits of a history: the search for a linearisation is slow where many operations overlap.
#[derive(Clone, Copy)]
struct Extent {
    /// Requests per client.
    request_count_max: usize,
    /// Outstanding requests per client.
    pipeline_max: usize,
}

fn clients<C: Command<Output: Send> + Send + 'static>(
    world: &World,
    name: &'static str,
    extent: Extent,
    history: fn(&World) -> &Mutex<Vec<Operation<C>>>,
    make: impl Fn(&mut Random, i64) -> C + Copy + Send + 'static,
) -> Vec<Client> {
    let client = |number: usize| {
        Client::new(format!("{name} {number}"), move |world, own, mut random| {
            run((world, own, number), extent, &mut random, history(world), make);
        })
    };
    (0..world.plan.client_count).map(client).collect()
}

/// Sends one or several commands at a time and records the interval in which each takes effect.
fn run<C: Command>(
    (world, name, client): (&World, &str, usize),
    extent: Extent,
    random: &mut Random,
    history: &Mutex<Vec<Operation<C>>>,
    make: impl Fn(&mut Random, i64) -> C,
) {
    let mut connection = Connection::open(world.address, name);
    let mut done_count = 0;
    while done_count < world.plan.request_count.min(extent.request_count_max) {
        let under_way: Vec<(u64, C)> = (0..=random.below(extent.pipeline_max))
            .map(|_| {
                let called_at = world.tick();
                (called_at, make(random, called_at as i64))
            })
            .collect();
        // Each kind of load uses its own keys.
        let kind = name.split(' ').next().unwrap_or_default();
        let own_keys = |word: String| word.replace("linear:", &format!("{kind}:"));
        let requests: Vec<Vec<String>> =
            under_way.iter().map(|(_, op)| op.request().into_iter().map(own_keys).collect()).collect();
        connection.send(&requests).expect("this connection is never closed");
        for (called_at, op) in under_way {
            let reply = connection.receive().expect("this connection is never closed");
            let returned_at = world.tick();
            let output = op.read(&reply);
            let output =
                output.unwrap_or_else(|| panic!("{} got the reply {reply:?}", op.request().join(" ")));
            lock(history).push(Operation { client, called_at, returned_at, op, output });
            done_count += 1;
        }
    }
}
