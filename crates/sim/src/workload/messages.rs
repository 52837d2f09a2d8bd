//! Every subscriber receives every message of a channel once, and each publisher's messages in order.

use std::collections::BTreeMap;

use sync::simulation;
use trials::random::Random;

use super::Client;
use crate::connection::{Connection, text_of};
use crate::world::World;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let count = world.plan.client_count;
    let publisher = |number: usize| {
        Client::new(format!("publisher {number}"), move |world, name, random| {
            publish(world, name, number, random)
        })
    };
    let subscriber = |number: usize| {
        Client::new(format!("subscriber {number}"), move |world, name, random| {
            subscribe(world, name, number.is_multiple_of(2), random);
        })
    };
    (0..count).map(publisher).chain((0..count).map(subscriber)).collect()
}

fn publish(world: &World, name: &str, number: usize, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    // Waits until all clients are subscribed.
    while connection.number(&["PUBLISH", "hello", "x"]) < world.plan.client_count as i64 {
        simulation::sleep_us(1000);
    }
    let mut index = 0;
    while index < world.plan.request_count {
        let batch = (1 + random.below(4)).min(world.plan.request_count - index);
        let requests: Vec<Vec<String>> = (index..index + batch)
            .map(|index| vec!["PUBLISH".to_owned(), "news".to_owned(), format!("{number}.{index}")])
            .collect();
        index += batch;
        connection.send(&requests).expect("this connection is never closed");
        for _ in 0..batch {
            let reported = text_of(&connection.receive().expect("this connection is never closed"));
            assert_eq!(
                reported,
                Some(world.plan.client_count.to_string()),
                "{name}: subscribers are missing"
            );
        }
    }
}

fn subscribe(world: &World, name: &str, by_pattern: bool, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    connection.call(&["HELLO", "3"]);
    let requests = if by_pattern {
        ["PSUBSCRIBE ne?s", "SUBSCRIBE hello"]
    } else {
        ["SUBSCRIBE news", "SUBSCRIBE hello"]
    };
    for request in requests {
        connection.send(&[super::words(request)]).expect("this connection is never closed");
        connection.receive_push().expect("this connection is never closed");
    }
    let mut next: BTreeMap<usize, usize> = BTreeMap::new();
    let mut awaited = world.plan.client_count * world.plan.request_count;
    while awaited > 0 {
        if random.chance(5) {
            // A slow reader.
            simulation::sleep_us(random.below(20_000) as u64);
        }
        let push = connection.receive_push().expect("this connection is never closed");
        let texts: Vec<String> = push.iter().filter_map(text_of).collect();
        if texts.iter().any(|text| text == "hello") {
            continue;
        }
        let message = texts.last().expect("a message has a payload");
        let (publisher, index) = message.split_once('.').expect("it has two numbers");
        let (publisher, index): (usize, usize) =
            (publisher.parse().expect("a number"), index.parse().expect("a number"));
        let expected = next.entry(publisher).or_default();
        assert_eq!(index, *expected, "{name}: received message {message} instead of {publisher}.{expected}");
        *expected += 1;
        awaited -= 1;
    }
}
