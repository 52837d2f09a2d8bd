//! Records a history: clients on separate threads, each with several connections that all have a command
//! outstanding.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::collections::{Act, Verb};
use super::expiries::Timed;
use super::search::{Command, Operation};
use super::store::{Op, choose};
use crate::connection::{Connection, encode};
use crate::random::Random;
use crate::server::Server;

/// Plan of a history.
#[derive(Clone)]
pub struct Plan<M> {
    /// Number of threads.
    pub client_count: usize,
    /// Connections per thread. A thread sends on all of them before it reads from any.
    pub connection_count: usize,
    /// Commands per connection.
    pub command_count: usize,
    /// Number of keys.
    pub key_count: usize,
    /// Makes a command from the number of keys and a number that is not used again.
    pub make: M,
}

/// Makes commands on strings.
type Make = fn(&mut Random, usize, i64) -> Op;

impl Plan<Make> {
    /// Long histories of commands on one key.
    pub const SINGLE: Plan<Make> =
        Plan { client_count: 6, connection_count: 3, command_count: 20, key_count: 3, make: choose::single };
    /// Short histories of commands on several keys.
    pub const SEVERAL: Plan<Make> =
        Plan { client_count: 4, connection_count: 3, command_count: 10, key_count: 4, make: choose::any };
    /// Short histories of scripts and commands on several keys.
    pub const SCRIPTED: Plan<Make> = Plan { make: choose::scripted, ..Self::SEVERAL };
}

/// Commands on single keys that expire during the history. Few of them overlap, because each expiry may pass
/// at any moment.
pub const WITH_EXPIRIES: Plan<fn(&mut Random, usize, i64) -> Timed> =
    Plan { client_count: 4, connection_count: 2, command_count: 15, key_count: 5, make: Timed::choose };

/// Short histories of these commands on collections, with few clients: additions that are never read fit many
/// orders.
pub fn of_collections(
    verbs: &'static [Verb],
) -> Plan<impl Fn(&mut Random, usize, i64) -> Act + Clone + Send> {
    let make = move |random: &mut Random, key_count, unique| Act::choose(verbs, random, key_count, unique);
    Plan { client_count: 4, connection_count: 1, command_count: 15, key_count: 3, make }
}

/// A logical clock for all threads: an earlier moment has a smaller number.
struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        // SeqCst: a single order of all moments makes them comparable between threads.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Flushes the server and records one history on it.
pub fn record<C, M>(server: &Server, plan: &Plan<M>, seed: u64) -> io::Result<Vec<Operation<C>>>
where
    C: Command<Output: Send> + Send,
    M: Fn(&mut Random, usize, i64) -> C + Clone + Send,
{
    server.connect()?.call(&["FLUSHALL"])?;
    let mut seeds = Random::new(seed);
    let clock = Clock(AtomicU64::new(0));
    let start = Barrier::new(plan.client_count);
    let mut parts = Vec::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.client_count)
            .map(|client| {
                let (plan, random, clock, start) = (plan.clone(), seeds.fork(), &clock, &start);
                scope.spawn(move || run_client(server, &plan, client, random, clock, start))
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
    let client_count = plan.client_count * plan.connection_count;
    let aftermaths = history.iter().filter_map(|operation: &Operation<C>| {
        operation.op.aftermath().map(|(op, output)| (operation.called_at, op, output))
    });
    let aftermaths: Vec<Operation<C>> = aftermaths
        .enumerate()
        .map(|(index, (called_at, op, output))| {
            // Expiries are independent of each other.
            let client = client_count + index;
            Operation { client, called_at, returned_at: u64::MAX, op, output }
        })
        .collect();
    history.extend(aftermaths);
    Ok(history)
}

fn run_client<C: Command, M: Fn(&mut Random, usize, i64) -> C>(
    server: &Server,
    plan: &Plan<M>,
    client: usize,
    mut random: Random,
    clock: &Clock,
    start: &Barrier,
) -> io::Result<Vec<Operation<C>>> {
    let connections: io::Result<Vec<Connection>> =
        (0..plan.connection_count).map(|_| server.connect()).collect();
    // Before a failed connection is reported, because the other threads wait here for all clients.
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
                io::Error::other(format!("{} got the reply {reply:?}", op.request().join(" ")))
            })?;
            let client = client * plan.connection_count + index;
            operations.push(Operation { client, called_at, returned_at, op, output });
        }
    }
    Ok(operations)
}
