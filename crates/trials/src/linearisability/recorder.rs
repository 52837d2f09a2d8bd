//! Records a history: clients on threads of their own, each with several connections that all have a command under way.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::search::Operation;
use super::store::{Op, choose};
use crate::connection::{Connection, encode};
use crate::random::Random;
use crate::server::Server;

/// How a history is made.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Threads.
    pub client_count: usize,
    /// Connections of each; a thread sends on all of them before it reads from any.
    pub connection_count: usize,
    /// Commands of each connection.
    pub command_count: usize,
    /// Keys in use.
    pub key_count: usize,
    /// Makes a command: see `store::choose`.
    pub make: fn(&mut Random, usize, i64) -> Op,
}

impl Plan {
    /// Long histories of commands of one key.
    pub const SINGLE: Plan =
        Plan { client_count: 6, connection_count: 3, command_count: 20, key_count: 3, make: choose::single };
    /// Short ones of commands of several.
    pub const SEVERAL: Plan =
        Plan { client_count: 4, connection_count: 3, command_count: 10, key_count: 4, make: choose::any };
}

/// Counts moments for all threads: a call before another's return gets the smaller number.
struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        // SeqCst: one order of all moments, which is what makes them comparable between threads.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Empties the server and records one history on it.
pub fn record(server: &Server, plan: Plan, seed: u64) -> io::Result<Vec<Operation>> {
    server.connect()?.call(&["FLUSHALL"])?;
    let mut seeds = Random::new(seed);
    let clock = Clock(AtomicU64::new(0));
    let start = Barrier::new(plan.client_count);
    let mut parts = Vec::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.client_count)
            .map(|client| {
                let (random, clock, start) = (seeds.fork(), &clock, &start);
                scope.spawn(move || run_client(server, plan, client, random, clock, start))
            })
            .collect();
        for client in clients {
            parts.push(client.join().map_err(|_| io::Error::other("a client panicked"))?);
        }
        io::Result::Ok(())
    })?;
    let mut history = Vec::new();
    for part in parts {
        history.extend(part?);
    }
    Ok(history)
}

fn run_client(
    server: &Server,
    plan: Plan,
    client: usize,
    mut random: Random,
    clock: &Clock,
    start: &Barrier,
) -> io::Result<Vec<Operation>> {
    let connections: io::Result<Vec<Connection>> =
        (0..plan.connection_count).map(|_| server.connect()).collect();
    // Before a failed connection is reported: the others wait here for everybody.
    start.wait();
    let mut connections = connections?;
    let mut operations = Vec::with_capacity(plan.connection_count * plan.command_count);
    for _ in 0..plan.command_count {
        let mut under_way = Vec::with_capacity(connections.len());
        for connection in &mut connections {
            let called_at = clock.tick();
            let op = (plan.make)(&mut random, plan.key_count, called_at as i64);
            connection.send(&encode(&op.request()))?;
            under_way.push((called_at, op));
        }
        for (index, (called_at, op)) in under_way.into_iter().enumerate() {
            let reply = connections[index].receive()?.reply;
            let returned_at = clock.tick();
            let output = op.read(&reply).ok_or_else(|| {
                io::Error::other(format!("{} was answered with {reply:?}", op.request().join(" ")))
            })?;
            let client = client * plan.connection_count + index;
            operations.push(Operation { client, called_at, returned_at, op, output });
        }
    }
    Ok(operations)
}
