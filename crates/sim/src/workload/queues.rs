//! Every pushed element is returned once, by any kind of blocking pop.

use std::sync::atomic::{AtomicU64, Ordering};

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, now_us, text_of};
use crate::world::{World, lock};

/// Approximate time until threads have ended.
const SHRINKING_US_MAX: u64 = 2_000;
const QUEUE_COUNT: usize = 3;
/// Element that marks the end of a queue.
const END: &str = "end";

/// Returns consumers and producers. The last producer pushes one end mark per consumer; each consumer takes
/// only one.
pub(super) fn clients(world: &World) -> Vec<Client> {
    let (producer_count, consumer_count) = (world.plan.producer_count, world.plan.client_count);
    let producer = |number: usize| {
        Client::new(format!("producer {number}"), move |world, name, random| {
            produce(world, name, number, random)
        })
    };
    let consumer = |number: usize| {
        Client::new(format!("consumer {number}"), move |world, name, random| {
            consume(world, name, &world.waits[number], random)
        })
    };
    (0..producer_count).map(producer).chain((0..consumer_count).map(consumer)).collect()
}

fn produce(world: &World, name: &str, number: usize, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for index in 0..world.plan.request_count {
        if world.plan.race.is_some() {
            wait_for_shrinking(world, &mut random);
        }
        let queue = format!("queue:{}", random.below(QUEUE_COUNT));
        let elements: Vec<String> =
            (0..=random.below(3)).map(|part| format!("{number}.{index}.{part}")).collect();
        lock(&world.queued).extend(elements.iter().map(|element| (element.clone(), 0)));
        let push = if random.chance(50) { "LPUSH" } else { "RPUSH" };
        let request = [vec![push.to_owned(), queue], elements].concat();
        let requests =
            if random.chance(20) { vec![words("MULTI"), request, words("EXEC")] } else { vec![request] };
        connection.send(&requests).expect("this connection is never closed");
        for _ in requests {
            let reply = connection.receive().expect("this connection is never closed");
            assert!(!matches!(reply, Reply::Error(_)), "{name}: a push fails: {reply:?}");
        }
    }
    if world.done_producers.fetch_add(1, Ordering::Relaxed) + 1 == world.plan.producer_count {
        for _ in 0..world.plan.client_count {
            connection.number(&["RPUSH", "queue:end", END]);
        }
    }
}

/// Waits until the number of threads has just decreased. The wait is bounded, because a decrease may be
/// impossible.
pub(super) fn wait_for_shrinking(world: &World, random: &mut Random) {
    let count = || world.shrink_count.load(Ordering::Relaxed);
    let before = count();
    simulation::wait_until(Some(now_us() + SHRINKING_US_MAX), || count() > before);
    simulation::sleep_us(random.below(SHRINKING_US_MAX as usize / 4) as u64);
}

fn consume(world: &World, name: &str, answer_count: &AtomicU64, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mut is_ending = false;
    loop {
        let timeout = if random.chance(50) { "0" } else { "0.05" };
        let queues: Vec<String> = (0..QUEUE_COUNT).map(|queue| format!("queue:{queue}")).collect();
        let mut keys: Vec<&str> = queues.iter().map(String::as_str).collect();
        random.shuffle(&mut keys);
        // The end queue is last: earlier elements are returned first.
        keys.push("queue:end");
        let reply = match random.below(3) {
            _ if is_ending => connection.call(&[&["BLPOP"], &keys[..QUEUE_COUNT], &["0.01"]].concat()),
            0 => connection.call(&[&["BLPOP"], &keys[..], &[timeout]].concat()),
            1 => connection.call(&[&["BRPOP"], &keys[..], &[timeout]].concat()),
            _ => connection.call(&[&["BLMPOP", timeout, "4"], &keys[..], &["LEFT"]].concat()),
        };
        answer_count.fetch_add(1, Ordering::Relaxed);
        // A new connection is placed on a thread with few connections; existing ones stay together.
        if world.plan.race.is_some() && random.chance(50) {
            connection = Connection::open(world.address, name);
        }
        let taken = match &reply {
            Reply::Null if is_ending => {
                answer_count.store(u64::MAX, Ordering::Relaxed);
                return;
            }
            Reply::Null => continue,
            Reply::List(_, items) => items.last().expect("a key and the element"),
            other => panic!("{name}: {other:?} instead of an element"),
        };
        let element = match taken {
            Reply::List(_, items) => text_of(&items[0]),
            one => text_of(one),
        };
        let element = element.expect("an element is a string");
        if element == END {
            is_ending = true;
            continue;
        }
        let mut queued = lock(&world.queued);
        let count = queued.get_mut(&element).unwrap_or_else(|| panic!("{name}: {element} was never pushed"));
        *count += 1;
        assert_eq!(*count, 1, "{name}: {element} is returned again");
    }
}
