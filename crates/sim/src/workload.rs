//! The clients' loads, and the checks of their observations. A client panics when a check fails.

mod caches;
mod disturbance;
mod eviction;
mod growth;
mod limits;
mod look_ahead;
mod messages;
mod pauses;
mod queues;
mod registers;
pub mod rights;
mod scans;
mod scripts;
mod times;
mod transfers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sync::simulation::{self, Task};
use trials::random::Random;

use crate::plan::Load;
use crate::world::World;

/// Starts the clients of all loads of the plan, and its disturbances. Returns their tasks.
#[must_use]
pub fn start(world: &Arc<World>) -> Vec<Task> {
    let mut random = Random::new(world.plan.seed);
    let mut tasks = Vec::new();
    for load in &world.plan.loads {
        let clients: Vec<Client> = match load {
            Load::Strings => registers::strings(world),
            Load::ManyStrings => registers::many_strings(world),
            Load::Collections => registers::collections(world),
            Load::Queues => queues::clients(world),
            Load::Messages => messages::clients(world),
            Load::Transfers => transfers::clients(world),
            Load::Caches => caches::clients(world),
            Load::Times => times::clients(world),
            Load::Pauses => pauses::clients(world),
            Load::Eviction => eviction::clients(world),
            Load::Growth => growth::clients(world),
            Load::LookAhead => look_ahead::clients(world),
            Load::Scans => scans::clients(world),
            Load::Scripts => scripts::clients(world),
            Load::Rights => rights::clients(world),
            Load::Limits => limits::clients(world),
        };
        world.working.fetch_add(clients.len(), Ordering::Relaxed);
        for client in clients {
            let (world, random) = (Arc::clone(world), random.fork());
            let body = move || {
                (client.body)(&world, &client.name, random);
                world.working.fetch_sub(1, Ordering::Relaxed);
            };
            tasks.push(spawn(&client.thread, body));
        }
    }
    for client in disturbance::clients(world) {
        let (world, random) = (Arc::clone(world), random.fork());
        tasks.push(spawn(&client.thread, move || (client.body)(&world, &client.name, random)));
    }
    tasks
}

/// The code of a client, given its name and random numbers.
type Body = Box<dyn FnOnce(&World, &str, Random) + Send>;

/// A client, with its name in the trace.
struct Client {
    name: String,
    thread: String,
    body: Body,
}

impl Client {
    fn new(name: String, body: impl FnOnce(&World, &str, Random) + Send + 'static) -> Self {
        Self { thread: name.clone(), name, body: Box::new(body) }
    }
}

/// # Panics
/// If the operating system can't create a thread.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Task {
    simulation::spawn(name, body).expect("the operating system creates a thread")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}
