//! Runs with several servers: a primary, two replicas, clients that change data and wait for acknowledgements of replicas, and a
//! driver that fails over as Sentinel does. Links are cut, replicas are restarted, and the stream is read while it is applied.
//!
//! Checked are:
//!
//! 1. What `WAIT` has confirmed is in the data after each failover, and at the end.
//! 2. A replica shows whole transactions, and each client's changes in their order, and nothing that is for the primary's file.
//! 3. At the end, all servers have the same data and offset.
//! 4. Replicas continue after a clean restart of their primary, from its dump or append-only file.
//!
//! A failover ends the primary, or only takes its role away: clients stop writing to it, the replica with the greatest offset is
//! promoted, and the others follow it. The former primary, or a new server in its place, follows it as well.
//!
//! In half of the runs servers are restarted, too, with their role. The end of an append-only file may be cut off before.
//!
//! Start reading at [`serve_and_fail_over`].

mod driver;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use server::simulated::{CrashingDisk, Failing, Server};
use sync::simulation::{self, Task};
use trials::durability::{Change, Contents, Guarantee, History, check};
use trials::random::Random;
use trials::reply::Reply;

use crate::connection::{Connection, text_of};
use crate::plan::{Focus, Race, active_workers};
use crate::replay;
use crate::world::lock;

/// The servers' addresses have successive ports from here on.
const FIRST_PORT: u16 = 6379;
const SERVER_COUNT: usize = 3;
const CHANGE_COUNT_MAX: usize = 60;
/// The time between two disturbances, at most.
const INTERVAL_US_MAX: usize = 400_000;
/// Leaves 5 on all servers. Only the primary's file has the `INCR`.
const FILE_ONLY: &str = "EVAL redis.call('set',KEYS[1],5);redis.set_repl(redis.REPL_AOF);redis.call('incr',KEYS[1]);\
                         redis.set_repl(redis.REPL_NONE);redis.call('set',KEYS[1],5) 1";
/// Clients that send changes to a former primary, and how long they wait before: at most one of these times.
const LATE_WRITER_COUNT: usize = 3;
const LATE_DELAYS_US_MAX: &[usize] = &[2_000, 30_000];
/// How long the driver waits for replicas to follow, in steps of 10 ms.
const STEP_COUNT_MAX: usize = 20_000;
const STEP_US: u64 = 10_000;

/// The random choices of a seed.
struct Setting {
    client_count: usize,
    change_count: usize,
    failover_count: usize,
    cut_count: usize,
    backlog_size: usize,
    /// Whether a failover ends the primary.
    ends_primary: bool,
    /// Whether the last replica follows the other one instead of the primary.
    is_chained: bool,
    /// Whether the primary has changes that its replicas lack when it loses its role, and comes back late.
    diverges: bool,
    /// Whether clients send changes to the former primary while it becomes a replica.
    has_late_writes: bool,
    restart_count: usize,
    /// Whether replicas whose links are cut need all data.
    forgets_history: bool,
    policy: Option<&'static str>,
    active_workers: &'static str,
}

/// State shared by the threads of a run.
struct RunState {
    setting: Setting,
    disk: CrashingDisk,
    servers: Mutex<Vec<Option<Server>>>,
    /// The number of the primary.
    primary: AtomicUsize,
    /// Whether clients may change data.
    is_open: AtomicBool,
    /// Whether all other servers have been told which one they follow. Until then one may still follow the promoted server from
    /// before.
    is_linked: AtomicBool,
    /// Clients between a request and its reply.
    busy: AtomicUsize,
    histories: Vec<Mutex<History>>,
    left: AtomicUsize,
    working: AtomicUsize,
}

impl Setting {
    fn draw(seed: u64, random: &mut Random) -> Self {
        Self {
            client_count: 2 + random.below(3),
            change_count: 10 + random.below(CHANGE_COUNT_MAX - 10),
            failover_count: random.below(3),
            cut_count: random.below(4),
            backlog_size: *random.pick(&[16 << 10, 1 << 20]),
            ends_primary: random.below(2) == 0,
            is_chained: random.below(3) == 0,
            diverges: random.below(2) == 0,
            has_late_writes: random.below(2) == 0,
            policy: *random.pick(&[None, None, Some("everysec"), Some("always")]),
            restart_count: 0,
            forgets_history: false,
            active_workers: active_workers(seed),
        }
    }

    /// With late writes in each failover, and nothing else that costs a replica the stream of its new primary.
    fn racing(self) -> Self {
        Self { failover_count: 4, ends_primary: false, diverges: false, has_late_writes: true, ..self }
    }

    /// With full synchronisations beside changes.
    fn cutting(self) -> Self {
        Self {
            failover_count: 0,
            restart_count: 0,
            cut_count: 2,
            change_count: CHANGE_COUNT_MAX,
            forgets_history: true,
            ..self
        }
    }

    /// The configuration of a server that replicates `primary`, if there is one.
    fn config(&self, server: usize, primary: Option<usize>) -> String {
        let replicaof = match primary {
            Some(primary) => format!("replicaof 127.0.0.1 {}\n", port(primary)),
            None => String::new(),
        };
        let file = match self.policy {
            Some(policy) => format!("appendonly yes\nappendfsync {policy}\nappenddirname files-{server}\n"),
            None => String::new(),
        };
        format!(
            "bind 127.0.0.1\nport {}\nio-threads 2\n{}save \"\"\ndbfilename dump-{server}.rdb\nsnapshot-cpu-percent 100\n\
             repl-diskless-sync-delay 0\nrepl-backlog-size {}\nrepl-timeout 60\nenable-debug-command yes\n{file}{replicaof}",
            port(server),
            self.active_workers,
            self.backlog_size
        )
    }
}

fn port(server: usize) -> u16 {
    FIRST_PORT + server as u16
}

fn address(server: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port(server)))
}

/// The first simulated thread.
///
/// # Panics
/// If a check fails.
pub fn serve_and_fail_over(seed: u64, focus: Focus) {
    let mut random = Random::new(seed);
    let mut restarts = Random::new(!seed);
    let restart_count = restarts.below(2) * (1 + restarts.below(3));
    let drawn = Setting { restart_count, ..Setting::draw(seed, &mut random) };
    let setting = match focus {
        Focus::Race(Race::Roles) => drawn.racing(),
        Focus::Race(Race::Cuts) => drawn.cutting(),
        _ => drawn,
    };
    let disk = CrashingDisk::new(random.next_u64(), Failing::Nothing);
    replay::use_disk(&disk);
    let servers = (0..SERVER_COUNT).map(|server| Some(start(&setting, server, None))).collect();
    let state = Arc::new(RunState {
        disk,
        histories: (0..setting.client_count).map(|_| Mutex::default()).collect(),
        left: AtomicUsize::new(setting.change_count),
        working: AtomicUsize::new(setting.client_count),
        servers: Mutex::new(servers),
        primary: AtomicUsize::new(0),
        is_open: AtomicBool::new(true),
        is_linked: AtomicBool::new(true),
        busy: AtomicUsize::new(0),
        setting,
    });
    follow_all(&state, 0);
    let mut tasks = Vec::new();
    for client in 0..state.setting.client_count {
        let (theirs, forked) = (Arc::clone(&state), random.fork());
        tasks.push(spawn(&format!("client {client}"), move || work(&theirs, client, forked)));
    }
    let (theirs, forked) = (Arc::clone(&state), random.fork());
    tasks.push(spawn("reader", move || read(&theirs, forked)));
    let (theirs, forked) = (Arc::clone(&state), random.fork());
    tasks.push(spawn("cutter", move || cut(&theirs, forked)));
    let (theirs, forked) = (Arc::clone(&state), random.fork());
    tasks.push(spawn("driver", move || {
        driver::drive(&theirs, forked);
        for _ in 0..theirs.setting.restart_count {
            simulation::sleep_us(1 + restarts.below(INTERVAL_US_MAX) as u64);
            driver::restart(&theirs, restarts.below(SERVER_COUNT), &mut restarts);
        }
    }));
    tasks.iter().for_each(Task::join);
    let primary = state.primary.load(Ordering::Relaxed);
    await_replicas(primary);
    expect_confirmed(&state, primary, "at the end");
    let mut digests = (0..SERVER_COUNT)
        .map(|server| Connection::open(address(server), "digest").text(&["DEBUG", "DIGEST"]));
    let first = digests.next().expect("there is a server");
    assert!(digests.all(|digest| digest == first), "the data of the servers differ");
    for (server, running) in std::mem::take(&mut *lock(&state.servers)).into_iter().enumerate() {
        end(&running.expect("each server runs"), server);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Task {
    simulation::spawn(name, body).expect("the operating system creates a thread")
}

fn start(setting: &Setting, server: usize, primary: Option<usize>) -> Server {
    Server::start(&setting.config(server, primary))
        .unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

/// Ends a server, whose file is not written as a whole at present: it would refuse to end.
fn end(running: &Server, server: usize) {
    let mut admin = Connection::open(address(server), "admin");
    replay::await_file(&mut admin);
    replay::end(running, admin);
    let left = running.leftovers();
    assert!(left.is_empty(), "at the end of server {server} {}", left.join("; "));
}

/// Makes a server a replica of another one.
fn follow(server: usize, primary: usize) {
    let mut admin = Connection::open(address(server), "driver");
    for _ in 0..STEP_COUNT_MAX {
        match admin.call(&["REPLICAOF", "127.0.0.1", &port(primary).to_string()]) {
            // It refuses that while it loads a snapshot.
            Reply::Error(text) if text.starts_with(b"LOADING") => simulation::sleep_us(STEP_US),
            // In a chain it may follow that one already.
            reply if text_of(&reply).is_some_and(|text| text.starts_with("OK")) => return,
            reply => panic!("server {server}: {reply:?}"),
        }
    }
    panic!("server {server} loads for ever");
}

/// The servers that follow another one, with that: a primary, or for the last one the other replica.
fn followers(state: &RunState, primary: usize) -> Vec<(usize, usize)> {
    let others: Vec<usize> = (0..SERVER_COUNT).filter(|server| *server != primary).collect();
    let last = if state.setting.is_chained { others[0] } else { primary };
    vec![(others[0], primary), (others[1], last)]
}

/// Makes the other servers follow a primary.
fn follow_all(state: &RunState, primary: usize) {
    followers(state, primary).into_iter().for_each(|(server, followed)| follow(server, followed));
}

/// A number in the reply to `INFO replication`.
fn figure(connection: &mut Connection, name: &str) -> Option<String> {
    let text = connection.text(&["INFO", "replication"]);
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
}

/// Waits until all other servers have what a primary has.
fn await_replicas(primary: usize) {
    let mut at_primary = Connection::open(address(primary), "driver");
    for server in (0..SERVER_COUNT).filter(|server| *server != primary) {
        let mut replica = Connection::open(address(server), "driver");
        let mut follows = || {
            let offset = figure(&mut at_primary, "master_repl_offset");
            figure(&mut replica, "master_link_status").as_deref() == Some("up")
                && figure(&mut replica, "slave_repl_offset") == offset
                && figure(&mut replica, "master_repl_offset") == offset
        };
        let has_followed = (0..STEP_COUNT_MAX).any(|_| {
            let has_followed = follows();
            if !has_followed {
                simulation::sleep_us(STEP_US);
            }
            has_followed
        });
        assert!(
            has_followed,
            "server {server} does not follow:\n{}\n{}",
            replica.text(&["INFO", "replication"]),
            at_primary.text(&["INFO", "replication"])
        );
    }
}

/// Checks that a server has all changes that `WAIT` has confirmed, and makes what it has the histories' beginning.
fn expect_confirmed(state: &RunState, server: usize, when: &str) {
    let histories: Vec<History> = state.histories.iter().map(|history| lock(history).clone()).collect();
    if let Err(loss) = check(&histories, &accept(state, server), Guarantee::Awaited) {
        panic!("{when}: {loss}");
    }
}

/// Makes what a server has the histories' beginning, and returns it.
fn accept(state: &RunState, server: usize) -> Vec<Contents> {
    let mut admin = Connection::open(address(server), "check");
    let count = state.histories.len();
    let all: Vec<Contents> = (0..count).map(|client| contents(&mut admin, client)).collect();
    for (history, found) in state.histories.iter().zip(&all) {
        *lock(history) = History::new(*found);
    }
    all
}

/// The contents of a client's keys.
fn contents(connection: &mut Connection, client: usize) -> Contents {
    let mut number = |words: &[&str]| number(&connection.call(words));
    Contents {
        count: number(&["GET", &format!("count:{client}")]),
        pushed: number(&["LLEN", &format!("list:{client}")]),
        last_pushed: number(&["LINDEX", &format!("list:{client}"), "-1"]),
        left: number(&["GET", &format!("left:{client}")]),
        right: number(&["GET", &format!("right:{client}")]),
        between: number(&["LLEN", &format!("between:{client}")]),
    }
}

fn number(reply: &Reply) -> u64 {
    match reply {
        Reply::Null => 0,
        reply => text_of(reply).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{reply:?}")),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn work(state: &RunState, client: usize, mut random: Random) {
    while state.left.load(Ordering::Relaxed) > 0 {
        state.busy.fetch_add(1, Ordering::SeqCst);
        if state.is_open.load(Ordering::SeqCst) {
            let primary = state.primary.load(Ordering::SeqCst);
            let mut connection = Connection::open(address(primary), &format!("client {client}"));
            for _ in 0..1 + random.below(5) {
                let _ =
                    state.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                change(&mut connection, client, &state.histories[client], &mut random);
                if random.below(2) == 0 {
                    beside(&mut connection, state, client);
                }
                let (count, timeout) = (1 + random.below(2), random.below(200).max(1));
                if random.below(2) == 0 {
                    let mark = state.left.load(Ordering::Relaxed).to_string();
                    expect_done(&mut connection, &[words(&format!("SET mark:{client} {mark}"))]);
                    let is_linked = state.is_linked.load(Ordering::SeqCst);
                    let confirmed = connection.number(&["WAIT", &count.to_string(), &timeout.to_string()]);
                    if confirmed >= 1 {
                        lock(&state.histories[client]).awaited();
                    }
                    if is_linked {
                        expect_shown(state, primary, client, &mark, confirmed);
                    }
                }
            }
        }
        state.busy.fetch_sub(1, Ordering::SeqCst);
        simulation::sleep_us(1 + random.below(INTERVAL_US_MAX / 40) as u64);
    }
    state.working.fetch_sub(1, Ordering::Relaxed);
}

/// Checks that so many replicas of the primary show what `WAIT` has confirmed, unless they load a snapshot at present.
fn expect_shown(state: &RunState, primary: usize, client: usize, mark: &str, confirmed: i64) {
    let replicas = followers(state, primary).into_iter().filter(|(_, followed)| *followed == primary);
    let mut lacking = 0;
    let mut count = 0;
    for (server, _) in replicas {
        count += 1;
        let Ok(mut replica) = Connection::try_open(address(server), "reader") else { continue };
        let Ok(reply) = replica.try_call(&["GET", &format!("mark:{client}")]) else { continue };
        lacking += i64::from(!matches!(reply, Reply::Error(_)) && text_of(&reply).as_deref() != Some(mark));
    }
    assert!(
        lacking + confirmed <= count,
        "WAIT of client {client} counts {confirmed}, {lacking} lack {mark}"
    );
}

/// One change.
fn change(connection: &mut Connection, client: usize, history: &Mutex<History>, random: &mut Random) {
    let change = *random.pick(&[Change::Count, Change::Push, Change::Transaction]);
    let pushed = lock(history).pushed() + 1;
    lock(history).send(&[change]);
    let requests = match change {
        Change::Count => vec![words(&format!("INCR count:{client}"))],
        // In another database, which the stream has to select.
        Change::Push => vec![
            words("SELECT 1"),
            words(&format!("SET other:{client} {pushed}")),
            words("SELECT 0"),
            words(&format!("RPUSH list:{client} {pushed}")),
        ],
        Change::Transaction => vec![
            words("MULTI"),
            words(&format!("INCR left:{client}")),
            words(&format!("RPUSH between:{client} x")),
            words(&format!("INCR right:{client}")),
            words("EXEC"),
        ],
    };
    expect_done(connection, &requests);
    lock(history).acknowledge();
}

/// Changes that no `WAIT` confirms. The last one is in another database, so that the stream may continue there.
fn beside(connection: &mut Connection, state: &RunState, client: usize) {
    let mut requests = Vec::new();
    if state.setting.policy.is_none() {
        requests.push(words(&format!("{FILE_ONLY} five:{client}")));
    }
    requests.extend([words("SELECT 1"), words(&format!("INCR beside:{client}"))]);
    expect_done(connection, &requests);
    expect_done(connection, &[words("SELECT 0")]);
}

fn expect_done(connection: &mut Connection, requests: &[Vec<String>]) {
    connection.send(requests).expect("the primary closes no connection");
    for _ in requests {
        let reply = connection.receive().expect("the primary closes no connection");
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

/// Reads from replicas: transactions are whole, and what was pushed is in order.
fn read(state: &RunState, mut random: Random) {
    while state.working.load(Ordering::Relaxed) > 0 {
        simulation::sleep_us(1 + random.below(INTERVAL_US_MAX / 10) as u64);
        let server = random.below(SERVER_COUNT);
        let client = random.below(state.histories.len());
        let Ok(replies) = try_read(server, client) else { continue };
        let [Reply::List(_, transaction)] = &replies[..] else { continue };
        let counts: Vec<u64> = transaction[..3].iter().map(number).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "server {server} shows {counts:?}");
        let five = number(&transaction[4]);
        assert!(five == 0 || five == 5, "server {server} shows {five}, which is for the file only");
        let Reply::List(_, pushed) = &transaction[3] else { panic!("{transaction:?}") };
        let pushed: Vec<u64> = pushed.iter().map(number).collect();
        assert!(pushed.iter().copied().eq(1..=pushed.len() as u64), "server {server} shows {pushed:?}");
    }
}

/// The reply to a transaction that reads a client's keys; none while the server loads or ends.
fn try_read(server: usize, client: usize) -> std::io::Result<Vec<Reply>> {
    let mut connection = Connection::try_open(address(server), "reader")?;
    let requests = [
        "MULTI".to_owned(),
        format!("GET left:{client}"),
        format!("LLEN between:{client}"),
        format!("GET right:{client}"),
        format!("LRANGE list:{client} 0 -1"),
        format!("GET five:{client}"),
        "EXEC".to_owned(),
    ];
    connection.send(&requests.iter().map(|text| words(text)).collect::<Vec<_>>())?;
    let mut last = Reply::Null;
    for _ in &requests {
        last = connection.receive()?;
    }
    Ok(vec![last].into_iter().filter(|reply| matches!(reply, Reply::List(..))).collect())
}

/// Cuts links between servers.
fn cut(state: &RunState, mut random: Random) {
    for _ in 0..state.setting.cut_count {
        simulation::sleep_us(1 + random.below(INTERVAL_US_MAX) as u64);
        let kind = *random.pick(&["replica", "master"]);
        let server = random.below(SERVER_COUNT);
        if let Ok(mut admin) = Connection::try_open(address(server), "cutter") {
            if state.setting.forgets_history {
                drop(admin.try_call(&["DEBUG", "CHANGE-REPL-ID"]));
            }
            // An error while the server loads or ends.
            drop(admin.try_call(&["CLIENT", "KILL", "TYPE", kind]));
        }
    }
}
