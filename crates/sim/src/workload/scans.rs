//! An iteration returns every element present during all of it, while others are added and removed, and no
//! element never added.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use trials::random::Random;
use trials::reply::Reply;

use super::Client;
use super::growth::GROWN_COUNT;
use crate::connection::{Connection, text_of};
use crate::plan::Scanned;
use crate::world::World;

/// Numbers of permanent elements and of temporary ones.
const STAYING_COUNT: usize = 30;
const PASSING_COUNT: usize = 600;
/// Number of elements added or removed at once.
const BATCH_SIZE: usize = 60;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let scanner = Client::new("scanner".to_owned(), scan);
    let changer = |number: usize| Client::new(format!("passing {number}"), change);
    (1..world.plan.client_count).map(changer).chain([scanner]).collect()
}

/// Returns the permanent elements and the temporary ones.
fn elements(world: &World) -> (Vec<String>, Vec<String>) {
    let all: Vec<String> = match world.plan.scanned {
        Scanned::KeysOfSlot => world.slot_mates()[GROWN_COUNT..].to_vec(),
        _ => (0..STAYING_COUNT + PASSING_COUNT).map(|number| format!("scanned:{number}")).collect(),
    };
    let (staying, passing) = all.split_at(STAYING_COUNT);
    (staying.to_vec(), passing.to_vec())
}

/// Adds and removes the temporary elements.
fn change(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let kind = world.plan.scanned;
    let (_, passing) = elements(world);
    while !world.are_scans_done.load(Ordering::Relaxed) {
        let (first, count) = (random.below(passing.len()), 1 + random.below(BATCH_SIZE));
        let some: Vec<String> = passing.iter().cycle().skip(first).take(count).cloned().collect();
        let requests = if random.chance(50) { kind.adding(&some) } else { kind.removing(&some) };
        exchange(&mut connection, &requests);
    }
}

fn scan(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let kind = world.plan.scanned;
    let (staying, passing) = elements(world);
    exchange(&mut connection, &kind.adding(&staying));
    for _ in 0..world.plan.request_count.min(12) {
        let seen = iterate(&mut connection, name, kind, &mut random);
        let missing: Vec<&String> = staying.iter().filter(|element| !seen.contains(*element)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?} stayed and was not returned");
        // Other loads have keys, too.
        let is_known = |element: &&String| staying.contains(element) || passing.contains(element);
        let strange = seen.iter().find(|element| !kind.is_of_keys() && !is_known(element));
        assert_eq!(strange, None, "{name}: it was never added");
    }
    world.are_scans_done.store(true, Ordering::Relaxed);
}

/// Runs a complete iteration and returns the elements.
fn iterate(connection: &mut Connection, name: &str, kind: Scanned, random: &mut Random) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    for _ in 0..100_000 {
        // An iteration over keys passes many empty slots.
        let count_max = if kind.is_of_keys() { 1000 } else { 50 };
        let count = (1 + random.below(count_max)).to_string();
        let reply = connection.call(&kind.asking(&cursor, &count));
        let Reply::List(_, parts) = &reply else {
            panic!("{name}: {reply:?} instead of a cursor and elements")
        };
        let [next, Reply::List(_, items)] = &parts[..] else { panic!("{name}: {reply:?}") };
        // In hashes and sorted sets, every second item is a value.
        let elements = items.iter().step_by(kind.width()).filter_map(text_of);
        seen.extend(elements);
        cursor = text_of(next).expect("a cursor is a text");
        if cursor == "0" {
            return seen;
        }
    }
    panic!("{name}: the iteration has no end");
}

/// Sends requests and receives their replies.
fn exchange(connection: &mut Connection, requests: &[Vec<String>]) {
    connection.send(requests).expect("this connection is never closed");
    for request in requests {
        let reply = connection.receive().expect("this connection is never closed");
        assert!(!matches!(reply, Reply::Error(_)), "{} gives {reply:?}", request.join(" "));
    }
}

impl Scanned {
    fn is_of_keys(self) -> bool {
        matches!(self, Self::Keys | Self::KeysOfSlot)
    }

    fn adding(self, elements: &[String]) -> Vec<Vec<String>> {
        let one = |command: &str, parts: Vec<String>| {
            vec![[vec![command.to_owned(), "scanned".to_owned()], parts].concat()]
        };
        match self {
            Self::Keys | Self::KeysOfSlot => elements
                .iter()
                .map(|element| vec!["SET".to_owned(), element.clone(), "x".to_owned()])
                .collect(),
            Self::Set => one("SADD", elements.to_vec()),
            Self::Hash => {
                one("HSET", elements.iter().flat_map(|field| [field.clone(), "x".to_owned()]).collect())
            }
            Self::SortedSet => {
                one("ZADD", elements.iter().flat_map(|member| ["1".to_owned(), member.clone()]).collect())
            }
        }
    }

    fn removing(self, elements: &[String]) -> Vec<Vec<String>> {
        let (command, key) = match self {
            Self::Keys | Self::KeysOfSlot => ("DEL", None),
            Self::Set => ("SREM", Some("scanned")),
            Self::Hash => ("HDEL", Some("scanned")),
            Self::SortedSet => ("ZREM", Some("scanned")),
        };
        let words = [command].into_iter().chain(key).map(str::to_owned);
        vec![words.chain(elements.iter().cloned()).collect()]
    }

    fn asking<'a>(self, cursor: &'a str, count: &'a str) -> Vec<&'a str> {
        match self {
            Self::Keys => vec!["SCAN", cursor, "COUNT", count],
            Self::KeysOfSlot => vec!["SCAN", cursor, "MATCH", "mate:*", "COUNT", count],
            Self::Set => vec!["SSCAN", "scanned", cursor, "COUNT", count],
            Self::Hash => vec!["HSCAN", "scanned", cursor, "COUNT", count],
            Self::SortedSet => vec!["ZSCAN", "scanned", cursor, "COUNT", count],
        }
    }

    /// Returns the number of reply items per element.
    fn width(self) -> usize {
        match self {
            Self::Hash | Self::SortedSet => 2,
            _ => 1,
        }
    }
}
