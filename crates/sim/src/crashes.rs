//! Runs with a disk that crashes: clients change data under an append-only file, the disk's contents after a crash are
//! taken at random moments, and other servers start with them.
//!
//! A crash takes no time, and the first server continues after it. The replies that its clients have received by then
//! are compared with the data of a server that starts with the disk after the crash. A disk may also fail in one of its
//! operations, or for a while in all of them, in all appends or in all synchronisations of files or directories. In half of
//! the runs the policy changes meanwhile, saves suspend synchronisation, and the file is switched off and on.
//!
//! At the end the disk works, and the first server ends. Another one starts with its files, and has all acknowledged changes.
//!
//! Start reading at [`serve_and_crash`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use server::simulated::{CrashingDisk, Failing, Server};
use sync::simulation::{self, Task};
use trials::durability::{Change, Contents, Guarantee, History, check};
use trials::random::Random;
use trials::reply::Reply;

use crate::connection::{Connection, text_of};
use crate::plan::active_workers;
use crate::replay;
use crate::world::lock;

/// Listening address of the first server; the others have the next ports.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 6379);
/// Changes of all clients, at most.
const CHANGE_COUNT_MAX: usize = 60;
/// The time between two crashes, at most.
const CRASH_INTERVAL_US_MAX: usize = 60_000;
/// Operations among which one fails.
const OPERATION_COUNT_MAX: usize = 60;
/// Orders of an administrator, at most.
const ORDER_COUNT_MAX: usize = 8;

/// The random choices of a seed.
struct Setting {
    policy: &'static str,
    thread_count: usize,
    active_workers: &'static str,
    client_count: usize,
    change_count: usize,
    crash_count: usize,
    rewrite_count: usize,
    failing: Failing,
    /// Whether the disk fails for a while instead of once.
    recovers: bool,
    /// Changes of directives, and saves.
    order_count: usize,
}

/// State shared by the threads of a run.
struct RunState {
    disk: CrashingDisk,
    histories: Vec<Mutex<History>>,
    left: AtomicUsize,
    working: AtomicUsize,
    crashes: Mutex<Vec<Crash>>,
}

/// The disk after a crash, and the replies that the clients had received.
struct Crash {
    disk: CrashingDisk,
    histories: Vec<History>,
}

impl Setting {
    fn draw(seed: u64, random: &mut Random) -> Self {
        let policy = *random.pick(&["always", "always", "always", "everysec", "no"]);
        let first = random.below(OPERATION_COUNT_MAX) as u64;
        let failing = match random.below(7) {
            0 => Failing::Nothing,
            1 => Failing::From(first),
            2 => Failing::Appends(first),
            3 => Failing::Syncs(first),
            4 => Failing::Directories(first),
            _ => Failing::Only(first),
        };
        let recovers = !matches!(failing, Failing::Nothing | Failing::Only(_));
        Self {
            policy,
            thread_count: 1 + random.below(3),
            active_workers: active_workers(seed),
            client_count: 2 + random.below(3),
            change_count: 10 + random.below(CHANGE_COUNT_MAX - 10),
            crash_count: 1 + random.below(3),
            rewrite_count: random.below(3),
            failing,
            recovers,
            order_count: random.below(2) * (1 + random.below(ORDER_COUNT_MAX)),
        }
    }

    fn guarantee(&self) -> Guarantee {
        match self.policy {
            "always" if self.order_count == 0 => Guarantee::Shown,
            _ => Guarantee::Awaited,
        }
    }

    fn config(&self, port: u16) -> String {
        let (threads, policy, active) = (self.thread_count, self.policy, self.active_workers);
        format!(
            "bind 127.0.0.1\nport {port}\nio-threads {threads}\n{active}save \"\"\nappendonly yes\nappendfsync {policy}\nsnapshot-cpu-percent 100\n\
             aof-load-corrupt-tail-max-size 1073741824\n"
        )
    }
}

/// The first simulated thread.
///
/// # Panics
/// If a check fails.
pub fn serve_and_crash(seed: u64) {
    let mut random = Random::new(seed);
    let setting = Setting::draw(seed, &mut random);
    let disk = CrashingDisk::new(random.next_u64(), Failing::Nothing);
    replay::use_disk(&disk);
    let address = SocketAddr::from(ADDRESS);
    let server = start(&setting, address);
    let before = disk.operation_count();
    disk.set_failing(match setting.failing {
        Failing::Nothing => Failing::Nothing,
        Failing::Only(nth) => Failing::Only(before + nth),
        Failing::From(first) => Failing::From(before + first),
        Failing::Appends(first) => Failing::Appends(before + first),
        Failing::Syncs(first) => Failing::Syncs(before + first),
        Failing::Directories(first) => Failing::Directories(before + first),
    });
    let state = Arc::new(RunState {
        disk,
        histories: (0..setting.client_count).map(|_| Mutex::default()).collect(),
        left: AtomicUsize::new(setting.change_count),
        working: AtomicUsize::new(setting.client_count),
        crashes: Mutex::default(),
    });
    let mut tasks = Vec::new();
    for client in 0..setting.client_count {
        let (state, random) = (Arc::clone(&state), random.fork());
        tasks.push(spawn(&format!("client {client}"), move || work(&state, address, client, random)));
    }
    let (theirs, forked) = (Arc::clone(&state), random.fork());
    let (crash_count, rewrite_count, recovers) =
        (setting.crash_count, setting.rewrite_count, setting.recovers);
    tasks.push(spawn("crasher", move || crash(&theirs, crash_count, recovers, forked)));
    let (theirs, forked) = (Arc::clone(&state), random.fork());
    tasks.push(spawn("rewriter", move || rewrite(&theirs, address, rewrite_count, forked)));
    let (theirs, forked, order_count) = (Arc::clone(&state), random.fork(), setting.order_count);
    tasks.push(spawn("administrator", move || administer(&theirs, address, order_count, forked)));
    tasks.iter().for_each(Task::join);
    let last = end_on_a_working_disk(&state, server, address);
    let mut crashes = std::mem::take(&mut *lock(&state.crashes));
    let crash_count = crashes.len();
    crashes.push(last);
    for (number, crash) in crashes.into_iter().enumerate() {
        replay::use_disk(&crash.disk);
        let address = SocketAddr::from((ADDRESS.0, ADDRESS.1 + 1 + number as u16));
        simulation::trace(|| format!("restart {number} with {}", setting.policy));
        let server = start(&setting, address);
        let mut admin = Connection::open(address, "admin");
        let found: Vec<Contents> =
            (0..crash.histories.len()).map(|client| contents(&mut admin, client)).collect();
        drop(admin);
        let is_last = number == crash_count;
        let guarantee = if is_last { Guarantee::Shown } else { setting.guarantee() };
        if let Err(loss) = check(&crash.histories, &found, guarantee) {
            let what = if is_last { "after a clean end".to_owned() } else { format!("crash {number}") };
            panic!("appendfsync {}, {what}: {loss}", setting.policy);
        }
        end(server, address);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Task {
    simulation::spawn(name, body).expect("the operating system creates a thread")
}

fn start(setting: &Setting, address: SocketAddr) -> Server {
    Server::start(&setting.config(address.port()))
        .unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

fn end(server: Server, address: SocketAddr) {
    replay::end(&server, Connection::open(address, "admin"));
}

/// Ends the server once its disk works and its file is complete. Returns the disk, and all replies.
fn end_on_a_working_disk(state: &RunState, server: Server, address: SocketAddr) -> Crash {
    state.disk.set_failing(Failing::Nothing);
    let mut admin = Connection::open(address, "admin");
    admin.expect_ok(&["CONFIG", "SET", "appendonly", "yes"]);
    replay::await_file(&mut admin);
    replay::end(&server, admin);
    let histories = state.histories.iter().map(|history| lock(history).clone()).collect();
    Crash { disk: state.disk.clone(), histories }
}

/// The contents of a client's keys.
fn contents(connection: &mut Connection, client: usize) -> Contents {
    let mut number = |words: &[&str]| match connection.call(words) {
        Reply::Null => 0,
        reply => text_of(&reply).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{reply:?}")),
    };
    Contents {
        count: number(&["GET", &format!("count:{client}")]),
        pushed: number(&["LLEN", &format!("list:{client}")]),
        last_pushed: number(&["LINDEX", &format!("list:{client}"), "-1"]),
        left: number(&["GET", &format!("left:{client}")]),
        right: number(&["GET", &format!("right:{client}")]),
        between: number(&["LLEN", &format!("between:{client}")]),
    }
}

fn work(state: &RunState, address: SocketAddr, client: usize, mut random: Random) {
    let mut connection = Connection::open(address, &format!("client {client}"));
    let history = &state.histories[client];
    while state.left.load(Ordering::Relaxed) > 0 {
        match random.below(10) {
            0..6 => {
                // Several clients may exceed the number a little.
                let _ =
                    state.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                change(&mut connection, client, history, &mut random);
            }
            6..9 => {
                let other = random.below(state.histories.len());
                let count = match connection.call(&["GET", &format!("count:{other}")]) {
                    Reply::Null => 0,
                    reply => text_of(&reply).and_then(|text| text.parse().ok()).expect("a number"),
                };
                lock(history).read(other, count);
            }
            _ => {
                let reply = connection.call(&["WAITAOF", "1", "0", "3000"]);
                if reply == Reply::List(b'*', vec![Reply::Integer(1), Reply::Integer(0)]) {
                    lock(history).awaited();
                }
            }
        }
    }
    state.working.fetch_sub(1, Ordering::Relaxed);
}

/// One change. It has no effect if the server refuses it because the disk fails.
fn change(connection: &mut Connection, client: usize, history: &Mutex<History>, random: &mut Random) {
    let change = *random.pick(&[Change::Count, Change::Push, Change::Transaction]);
    let pushed = lock(history).pushed() + 1;
    lock(history).send(&[change]);
    let line = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let requests = match change {
        Change::Count => vec![line(format!("INCR count:{client}"))],
        Change::Push => vec![line(format!("RPUSH list:{client} {pushed}"))],
        Change::Transaction => vec![
            line("MULTI".to_owned()),
            line(format!("INCR left:{client}")),
            line(format!("RPUSH between:{client} x")),
            line(format!("INCR right:{client}")),
            line("EXEC".to_owned()),
        ],
    };
    connection.send(&requests).expect("this connection is never closed");
    let replies = requests.iter().map(|_| connection.receive().expect("this connection is never closed"));
    let last = replies.last().expect("there is a request");
    match &last {
        Reply::Error(text) => {
            let text = String::from_utf8_lossy(text);
            assert!(text.starts_with("MISCONF") || text.starts_with("EXECABORT"), "{text}");
            lock(history).refuse();
        }
        _ => lock(history).acknowledge(),
    }
}

/// Copies the disk's contents after a crash, and makes the disk work again.
fn crash(state: &RunState, count: usize, recovers: bool, mut random: Random) {
    for _ in 0..count {
        simulation::sleep_us(1 + random.below(CRASH_INTERVAL_US_MAX) as u64);
        // Both are of one instant: no other thread runs meanwhile.
        let crash = simulation::without_points(|| Crash {
            disk: state.disk.crash(),
            histories: state.histories.iter().map(|history| lock(history).clone()).collect(),
        });
        simulation::trace(|| "the disk crashes".to_owned());
        lock(&state.crashes).push(crash);
    }
    if recovers {
        simulation::sleep_us(1 + random.below(5 * CRASH_INTERVAL_US_MAX) as u64);
        state.disk.set_failing(Failing::Nothing);
    }
}

/// Changes what a failure of the disk means, and lets saves suspend synchronisation.
fn administer(state: &RunState, address: SocketAddr, count: usize, mut random: Random) {
    let mut connection = Connection::open(address, "administrator");
    for _ in 0..count {
        simulation::sleep_us(1 + random.below(CRASH_INTERVAL_US_MAX / 2) as u64);
        if state.working.load(Ordering::Relaxed) == 0 {
            return;
        }
        let request = *random.pick(&[
            "CONFIG SET appendfsync always",
            "CONFIG SET appendfsync everysec",
            "CONFIG SET appendfsync no",
            "CONFIG SET no-appendfsync-on-rewrite yes",
            "CONFIG SET no-appendfsync-on-rewrite no",
            "BGSAVE",
            "CONFIG SET appendonly no",
            "CONFIG SET appendonly yes",
        ]);
        // An error if the disk fails, or another save is under way.
        drop(connection.call(&request.split(' ').collect::<Vec<_>>()));
    }
}

fn rewrite(state: &RunState, address: SocketAddr, count: usize, mut random: Random) {
    let mut connection = Connection::open(address, "rewriter");
    for _ in 0..count {
        simulation::sleep_us(1 + random.below(CRASH_INTERVAL_US_MAX / 2) as u64);
        if state.working.load(Ordering::Relaxed) > 0 {
            // An error if one is under way.
            drop(connection.call(&["BGREWRITEAOF"]));
        }
    }
}
