//! One run: start the server, run the clients, check that they leave nothing behind, end the server, check
//! the observations.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use log::{Level, LevelFilter, Log, Metadata, Record};
use reactor::simulated::Network;
use server::simulated::Server;
use sync::simulation::{
    self, Failure, Fault, FreedMemory, Gap, Scheduler, SimulationOutcome, Task, TraceSink,
};
use trials::linearisability::search::{Command, Operation, check, check_each_key};

use crate::connection::Connection;
use crate::crashes::serve_and_crash;
use crate::failovers::serve_and_fail_over;
use crate::observer::Observer;
use crate::plan::{Focus, Plan, active_workers};
use crate::replay;
use crate::workload;
use crate::world::{World, lock};

/// Listening address of the server.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 6379);
/// Maximum number of scheduling points: a run without progress ends here.
const STEPS_MAX: u64 = 40_000_000;
/// Maximum memory of the empty server at the end above that at the start.
const LEFT_BYTES_MAX: usize = 64 << 10;

/// What a run simulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scenario {
    /// One server with many loads.
    #[default]
    Loads,
    /// A disk that crashes.
    Crashes,
    /// A primary and replicas that take its place.
    Failovers,
}

/// Options of a run.
#[derive(Default)]
pub struct RunOptions {
    /// Defects to reintroduce.
    pub faults: Vec<Fault>,
    /// Receiver of a readable trace.
    pub trace: Option<TraceSink>,
    /// Whether the trace contains thread switches.
    pub traces_switches: bool,
    /// What the plans have in common.
    pub focus: Focus,
    /// What is simulated.
    pub scenario: Scenario,
}

/// Result of a run.
pub struct Report {
    /// The plan of the seed.
    pub plan: Plan,
    /// Result of the simulation.
    pub outcome: SimulationOutcome,
    /// The failure, if any.
    pub failure: Option<String>,
    /// The longest time that a reply took without stalls, in microseconds.
    pub slowest_us: u64,
}

/// Adds the server's warnings and errors to the trace.
struct TraceLog;

impl Log for TraceLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            simulation::trace(|| format!("{}: {}", record.level(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, options: RunOptions) -> Report {
    // An error if an earlier run has set it.
    if log::set_logger(&TraceLog).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    let mut plan = Plan::draw(seed, options.focus);
    if options.scenario == Scenario::Failovers {
        // A snapshot for replicas may be cut there.
        plan.gap_stalls.percents.push((Gap::ChangesAppended, 20));
    }
    let scheduler = Scheduler::new(
        seed,
        simulation::SchedulerOptions {
            faults: options.faults,
            schedule: plan.schedule,
            gap_stalls: plan.gap_stalls.clone(),
            steps_max: STEPS_MAX,
            trace: options.trace,
            traces_switches: options.traces_switches,
            ..simulation::SchedulerOptions::default()
        },
    );
    scheduler.set_extension(Network::new(seed, plan.network.clone()));
    scheduler.set_extension(Arc::new(FreedMemory::default()));
    let observer = Observer::new(plan.reply_us_max(), &plan.network, plan.busy_ms());
    if options.scenario == Scenario::Loads {
        scheduler.set_extension(Arc::clone(&observer));
    }
    let world = Arc::new(World::new(plan.clone(), SocketAddr::from(ADDRESS)));
    let shared = Arc::clone(&world);
    let outcome = match options.scenario {
        Scenario::Loads => scheduler.run(move || serve_and_load(&shared)),
        Scenario::Crashes => scheduler.run(move || serve_and_crash(seed)),
        Scenario::Failovers => scheduler.run(move || serve_and_fail_over(seed, options.focus)),
    };
    let failure = match &outcome.failure {
        Some(Failure::Panic { thread, message }) => Some(format!("{thread}: {message}")),
        Some(other) => Some(format!("{other:?}: {}", waiting(&outcome))),
        None => judge(&world),
    };
    Report { plan, outcome, failure, slowest_us: observer.slowest_us() }
}

/// The first simulated thread: starts the server, waits for the clients, checks that nothing is left, ends
/// the server. With an append-only file, another server replays it.
fn serve_and_load(world: &Arc<World>) {
    let plan = &world.plan;
    let busy_ms = plan.busy_ms();
    let config = format!(
        "bind 127.0.0.1\nport {}\nio-threads {}\n{}maxclients 1000\nsave \"\"\nbusy-reply-threshold {busy_ms}\n{}",
        ADDRESS.1,
        plan.thread_count,
        active_workers(plan.seed),
        if plan.replays { replay::CONFIG } else { "" }
    );
    let disk = plan.replays.then(|| replay::create_disk(plan.seed));
    let server = Server::start(&config).unwrap_or_else(|error| panic!("the server does not start: {error}"));
    let mut admin = Connection::open(world.address, "admin");
    let bytes_before = server.used_bytes();
    world.slot_mates.get_or_init(|| server.slot_mates(plan.slot_mate_count()));
    workload::start(world).iter().for_each(Task::join);
    admin.expect_ok(&["CLIENT", "UNPAUSE"]);
    let recording = disk.map(|disk| replay::record(&mut admin, &disk));
    admin.expect_ok(&["FLUSHALL"]);
    wait_until_alone(&mut admin);
    for field in ["blocked_clients", "pubsub_clients", "watching_clients", "tracking_clients"] {
        assert_eq!(info(&mut admin, "clients", field), 0, "{field} at the end");
    }
    // Retired memory is freed some turns later.
    for round in 0.. {
        let left = server.used_bytes().saturating_sub(bytes_before);
        if left <= LEFT_BYTES_MAX {
            break;
        }
        assert!(round < 100, "{left} bytes are left at the end");
        simulation::sleep_us(50_000);
    }
    replay::end(&server, admin);
    let left = server.leftovers();
    assert!(left.is_empty(), "at the end {}", left.join("; "));
    if let Some(recording) = recording {
        replay::check(&recording, SocketAddr::from((ADDRESS.0, ADDRESS.1 + 1)));
    }
}

/// Waits until the server has closed all other connections.
fn wait_until_alone(admin: &mut Connection) {
    for _ in 0..1000 {
        if info(admin, "clients", "connected_clients") == 1 {
            return;
        }
        simulation::sleep_us(10_000);
    }
    panic!("closed clients are still listed: {}", admin.text(&["CLIENT", "LIST"]));
}

fn info(connection: &mut Connection, section: &str, field: &str) -> i64 {
    let text = connection.text(&["INFO", section]);
    let found =
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Lists unfinished threads with the reason of their wait.
fn waiting(outcome: &SimulationOutcome) -> String {
    let alive = outcome.threads.iter().filter(|thread| thread.state != "ended");
    alive.map(|thread| format!("{} is {}", thread.name, thread.state)).collect::<Vec<_>>().join("; ")
}

/// Checks the clients' observations and returns the first failure.
fn judge(world: &World) -> Option<String> {
    fn explain<C: Command>(
        history: &Mutex<Vec<Operation<C>>>,
        check: impl Fn(&[Operation<C>]) -> Option<String>,
    ) -> Option<String> {
        check(&lock(history))
    }
    let lost: Vec<String> = lock(&world.queued)
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(element, _)| element.clone())
        .collect();
    if !lost.is_empty() {
        return Some(format!("elements were pushed but never returned: {}", lost.join(" ")));
    }
    explain(&world.strings, |history| check_each_key(history).err().map(|error| error.to_string()))
        .or_else(|| {
            explain(&world.many_strings, |history| check(history).err().map(|error| error.to_string()))
        })
        .or_else(|| {
            explain(&world.collections, |history| check(history).err().map(|error| error.to_string()))
        })
}
