//! Disturbances of a server: the number of threads changes, clients are killed or vanish, clocks step,
//! threads stall, descriptors run out. They last as long as the load.

use std::sync::atomic::Ordering;

use reactor::simulated::Network;
use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::Connection;
use crate::plan::Race;
use crate::world::World;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let disturbances = world.plan.disturbances;
    let mut clients = Vec::new();
    if disturbances.changes_threads {
        clients.push(Client::new("threads".to_owned(), change_threads));
    }
    if disturbances.steps_clock {
        clients.push(Client::new("clock".to_owned(), step_clock));
    }
    if disturbances.stalls {
        clients.push(Client::new("staller".to_owned(), stall));
    }
    if disturbances.limits_descriptors {
        clients.push(Client::new("descriptors".to_owned(), limit_descriptors));
    }
    if disturbances.inspects {
        clients.push(Client::new("inspector".to_owned(), inspect));
    }
    if world.plan.replays {
        clients.push(Client::new("rewriter".to_owned(), rewrite));
    }
    if disturbances.victim_count > 0 {
        clients.push(Client::new("killer".to_owned(), kill));
    }
    let victim = |number: usize| Client::new(format!("victim {number}"), suffer);
    clients.extend((0..disturbances.victim_count).map(victim));
    clients
}

fn change_threads(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    let mut is_shrinking = false;
    let shrinks = world.plan.race.is_some_and(Race::shrinks);
    while world.is_at_work() {
        let count = match shrinks {
            true if is_shrinking => 1 + random.below(2),
            true => 4,
            false => 1 + random.below(4),
        };
        world.shrink_count.fetch_add(u64::from(is_shrinking), Ordering::Relaxed);
        let reply = connection.call(&["CONFIG", "SET", "io-threads", &count.to_string()]);
        // Without free descriptors the change is refused and has no effect.
        let may_fail = world.plan.disturbances.limits_descriptors;
        assert!(may_fail || !matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
        let pause_us = *random.pick(&[100, 1_000, 5_000]);
        simulation::sleep_us(random.below(pause_us) as u64);
        if is_shrinking {
            wait_for_answers(world);
        }
        is_shrinking = shrinks && !is_shrinking;
    }
}

/// Waits until each client that waits for elements has had a reply. Otherwise a new worker would read its
/// predecessor's messages.
fn wait_for_answers(world: &World) {
    let counts = || world.waits.iter().map(|count| count.load(Ordering::Relaxed));
    let before: Vec<u64> = counts().collect();
    simulation::wait_until(None, || {
        counts().zip(&before).all(|(now, before)| now > *before || now == u64::MAX)
    });
}

/// Rewrites the append-only file while the loads run: a snapshot of their data.
fn rewrite(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    while world.is_at_work() {
        simulation::sleep_us(random.below(50_000) as u64);
        // An error if one is in progress.
        drop(connection.call(&["BGREWRITEAOF"]));
    }
}

fn step_clock(world: &World, _: &str, mut random: Random) {
    while world.is_at_work() {
        simulation::sleep_us(random.below(50_000) as u64);
        world.clock_steps.fetch_add(1, Ordering::Relaxed);
        let minutes = random.between(-60, 60);
        simulation::step_wall_clock(minutes * 60_000_000);
        world.clock_steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stalls random threads, including client threads, for a while.
fn stall(world: &World, _: &str, mut random: Random) {
    while world.is_at_work() {
        simulation::sleep_us(random.below(20_000) as u64);
        // Thread 0 waits for the end; workers follow, then client threads.
        let thread = 1 + random.below(world.plan.thread_count as usize + 2);
        simulation::stall(thread, random.below(100_000) as u64);
    }
}

fn limit_descriptors(world: &World, _: &str, mut random: Random) {
    let network = Network::current().expect("the simulation has a network");
    let most = network.descriptor_limit();
    while world.is_at_work() {
        network.limit_descriptors(network.descriptor_count() + random.below(4));
        simulation::sleep_us(random.below(20_000) as u64);
        network.limit_descriptors(most);
        simulation::sleep_us(random.below(20_000) as u64);
    }
}

/// Runs inspecting commands, and flushes a database that no other client uses.
fn inspect(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    connection.expect_ok(&["SELECT", "3"]);
    while world.is_at_work() {
        match random.below(7) {
            0 => drop(connection.text(&["INFO", "everything"])),
            1 => drop(connection.text(&["CLIENT", "LIST"])),
            2 => drop(connection.call(&["SCAN", "0", "COUNT", "100"])),
            3 => drop(connection.call(&["MSET", "a", "1", "b", "2", "c", "3"])),
            4 => connection.expect_ok(&["FLUSHDB", *random.pick(&["SYNC", "ASYNC"])]),
            5 => drop(connection.call(&["DBSIZE"])),
            _ => drop(connection.call(&["KEYS", "*"])),
        }
        simulation::sleep_us(random.below(5_000) as u64);
    }
}

/// Kills connections named as victims.
fn kill(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    while world.is_at_work() {
        let list = connection.text(&["CLIENT", "LIST"]);
        let victims: Vec<&str> = list
            .lines()
            .filter(|line| line.contains("name=victim"))
            .filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("id=")))
            .collect();
        if !victims.is_empty() {
            // The connection may be closed already.
            let _ = connection.call(&["CLIENT", "KILL", "ID", victims[random.below(victims.len())]]);
        }
        simulation::sleep_us(random.below(10_000) as u64);
    }
}

/// Connects, sends a slow request, and disconnects abnormally if not killed before.
fn suffer(world: &World, name: &str, mut random: Random) {
    while world.is_at_work() {
        let mut connection = Connection::open(world.address, name);
        if connection.try_call(&["CLIENT", "SETNAME", "victim"]).is_err() {
            continue;
        }
        let requests = match random.below(6) {
            0 => vec![words("BLPOP victims 0.02")],
            1 => vec![words("SUBSCRIBE victims"), words("PSUBSCRIBE vic*")],
            2 => vec![words("MULTI"), words("INCR victim"), words("GET victim")],
            3 => vec![words("WATCH victim"), words("GET victim")],
            4 => vec![words("SET victim 1"); 1 + random.below(100)],
            _ => vec![words("CLIENT TRACKING ON BCAST"), words("GET victim"), words("INCR victim")],
        };
        if connection.send(&requests).is_err() {
            continue;
        }
        match random.below(4) {
            0 => drop(connection),
            1 => connection.reset(),
            2 => {
                connection.shut_write();
                while connection.receive().is_ok() {}
            }
            _ => {
                simulation::sleep_us(random.below(10_000) as u64);
                drop(connection.try_call(&["PING"]));
            }
        }
        simulation::sleep_us(random.below(2_000) as u64);
    }
}
