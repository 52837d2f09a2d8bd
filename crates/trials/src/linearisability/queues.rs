//! Queues with blocking pops: consumers receive each produced item once and in order, while other clients
//! that block on the same keys are killed or unblocked.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::invariants::{Violation, finish};
use crate::connection::encode;
use crate::random::Random;
use crate::reply::Reply;
use crate::server::Server;

const PRODUCER_COUNT: usize = 3;
const CONSUMER_COUNT: usize = 4;
/// Number of interrupted waits besides the consumers' waits.
const DISTURBANCE_COUNT: usize = 300;

/// Commands of a type used as a queue. `{n}` stands for the item, `{consumer}` for the consumer.
pub struct Queue {
    /// Name in reports.
    pub name: &'static str,
    prepare: &'static [&'static str],
    put: &'static str,
    /// Blocks until an item is taken. The item is the last number of the reply, or the score's member.
    take: &'static str,
    /// Whether items of one producer reach one consumer in the order of production.
    keeps_order: bool,
}

/// All commands that block until an item is available.
pub static QUEUES: &[Queue] = &[
    Queue { name: "BLPOP", prepare: &[], put: "RPUSH q {n}", take: "BLPOP other q 0", keeps_order: true },
    Queue { name: "BRPOP", prepare: &[], put: "LPUSH q {n}", take: "BRPOP q other 0", keeps_order: true },
    Queue {
        name: "BLMOVE",
        prepare: &[],
        put: "RPUSH q {n}",
        take: "BLMOVE q taken LEFT RIGHT 0",
        keeps_order: true,
    },
    Queue {
        name: "BLMPOP",
        prepare: &[],
        put: "RPUSH q {n}",
        take: "BLMPOP 0 2 other q LEFT COUNT 1",
        keeps_order: true,
    },
    Queue {
        name: "BZPOPMIN",
        prepare: &[],
        put: "ZADD q {n} {n}",
        take: "BZPOPMIN other q 0",
        keeps_order: false,
    },
    Queue {
        name: "BZMPOP",
        prepare: &[],
        put: "ZADD q {n} {n}",
        take: "BZMPOP 0 1 q MIN COUNT 1",
        keeps_order: false,
    },
    Queue {
        name: "XREADGROUP",
        prepare: &["XGROUP CREATE q group $ MKSTREAM"],
        put: "XADD q * item {n}",
        take: "XREADGROUP GROUP group {consumer} COUNT 1 BLOCK 0 NOACK STREAMS q >",
        keeps_order: true,
    },
];

/// Each producer puts `item_count` items; checks the items that the consumers receive.
pub fn queue_loses_and_doubles_nothing(
    server: &Server,
    queue: &Queue,
    item_count: usize,
) -> io::Result<Result<(), Violation>> {
    let mut connection = server.connect()?;
    connection.call(&["FLUSHALL"])?;
    for line in queue.prepare {
        connection.call(&line.split(' ').collect::<Vec<_>>())?;
    }
    let is_over = AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        let disturber = scope.spawn(|| disturb(server, queue, &is_over));
        let consumers: Vec<_> = (0..CONSUMER_COUNT)
            .map(|consumer| scope.spawn(move || consume(server, queue, consumer)))
            .collect();
        let producers: Vec<_> = (0..PRODUCER_COUNT)
            .map(|producer| scope.spawn(move || produce(server, queue, producer, item_count)))
            .collect();
        let produced: io::Result<Vec<()>> =
            producers.into_iter().map(|producer| finish(producer.join())).collect();
        // One end mark for each consumer, after all items in the queue.
        let ended = produced.and_then(|_| {
            (0..CONSUMER_COUNT).try_for_each(|end| connection.call(&words(queue.put, END + end, 0)).map(drop))
        });
        let taken: io::Result<Vec<Vec<usize>>> =
            consumers.into_iter().map(|consumer| finish(consumer.join())).collect();
        is_over.store(true, Ordering::Relaxed);
        finish(disturber.join())?;
        ended?;
        taken
    })?;
    Ok(check(queue, &taken, item_count))
}

/// Numbers from this value on are end marks. They are also the largest scores.
const END: usize = 1_000_000_000;

fn produce(server: &Server, queue: &Queue, producer: usize, item_count: usize) -> io::Result<()> {
    let mut connection = server.connect()?;
    for item in 0..item_count {
        connection.call(&words(queue.put, number_of(producer, item), 0))?;
    }
    Ok(())
}

fn consume(server: &Server, queue: &Queue, consumer: usize) -> io::Result<Vec<usize>> {
    let mut connection = server.connect()?;
    let mut taken = Vec::new();
    loop {
        let answer = connection.call(&words(queue.take, 0, consumer))?.reply;
        let number = last_number(&answer)
            .ok_or_else(|| io::Error::other(format!("{} got the reply {answer:?}", queue.take)))?;
        if number >= END {
            return Ok(taken);
        }
        taken.push(number);
    }
}

/// Blocks on the queue's key besides the consumers, and is killed, unblocked or disconnected. It
/// requests another type, so it never takes an item.
fn disturb(server: &Server, queue: &Queue, is_over: &AtomicBool) -> io::Result<()> {
    let waits = if queue.put.starts_with('Z') { ["BLPOP", "q", "0"] } else { ["BZPOPMIN", "q", "0"] };
    let mut killer = server.connect()?;
    let mut random = Random::new(7);
    for _ in 0..DISTURBANCE_COUNT {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let mut victim = server.connect()?;
        let Reply::Integer(id) = victim.call(&["CLIENT", "ID"])?.reply else {
            return Err(io::Error::other("CLIENT ID returned no number"));
        };
        victim.send(&encode(&waits))?;
        let id = id.to_string();
        match random.below(3) {
            0 => killer.call(&["CLIENT", "KILL", "ID", &id])?,
            1 => killer.call(&["CLIENT", "UNBLOCK", &id, "ERROR"])?,
            _ => continue,
        };
    }
    Ok(())
}

fn check(queue: &Queue, taken: &[Vec<usize>], item_count: usize) -> Result<(), Violation> {
    let violation = |text: String| Err(Violation(format!("{}: {text}", queue.name)));
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    taken.iter().flatten().for_each(|number| *counts.entry(*number).or_default() += 1);
    if let Some((number, count)) = counts.iter().find(|(_, count)| **count > 1) {
        return violation(format!("{number} was taken {count} times"));
    }
    let items = || (0..PRODUCER_COUNT).flat_map(|of| (0..item_count).map(move |item| number_of(of, item)));
    if let Some(lost) = items().find(|number| !counts.contains_key(number)) {
        return violation(format!("{lost} was put in and never taken"));
    }
    if counts.len() != items().count() {
        return violation("an item was taken that was never put in".to_owned());
    }
    for (consumer, numbers) in taken.iter().enumerate().filter(|_| queue.keeps_order) {
        for producer in 0..PRODUCER_COUNT {
            let of_producer = numbers.iter().filter(|number| producer_of(**number) == producer);
            if !of_producer.is_sorted() {
                return violation(format!(
                    "consumer {consumer} got items of producer {producer} out of order"
                ));
            }
        }
    }
    Ok(())
}

const ITEMS_OF_A_PRODUCER_MAX: usize = 1_000_000;

fn number_of(producer: usize, item: usize) -> usize {
    producer * ITEMS_OF_A_PRODUCER_MAX + item
}

fn producer_of(number: usize) -> usize {
    number / ITEMS_OF_A_PRODUCER_MAX
}

fn words(template: &str, number: usize, consumer: usize) -> Vec<String> {
    let fill =
        |word: &str| word.replace("{n}", &number.to_string()).replace("{consumer}", &format!("c{consumer}"));
    template.split(' ').map(fill).collect()
}

/// Returns the last text of a reply that is a number, at any depth.
fn last_number(reply: &Reply) -> Option<usize> {
    match reply {
        Reply::List(_, items) => items.iter().rev().find_map(last_number),
        Reply::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_duplicated_and_reordered_items_are_noticed() {
        let all = |numbers: Vec<usize>| {
            let others = (1..PRODUCER_COUNT).map(|producer| number_of(producer, 0));
            let others: Vec<usize> = others.chain((1..PRODUCER_COUNT).map(|of| number_of(of, 1))).collect();
            vec![numbers, others]
        };
        let found = |taken: Vec<Vec<usize>>| check(&QUEUES[0], &taken, 2).map_err(|violation| violation.0);
        assert_eq!(found(all(vec![0, 1])), Ok(()));
        assert_eq!(found(all(vec![0, 1, 1])), Err("BLPOP: 1 was taken 2 times".to_owned()));
        assert_eq!(found(all(vec![1])), Err("BLPOP: 0 was put in and never taken".to_owned()));
        assert_eq!(
            found(all(vec![0, 1, 77])),
            Err("BLPOP: an item was taken that was never put in".to_owned())
        );
        let out_of_order = "BLPOP: consumer 0 got items of producer 0 out of order";
        assert_eq!(found(all(vec![1, 0])), Err(out_of_order.to_owned()));
    }
}
