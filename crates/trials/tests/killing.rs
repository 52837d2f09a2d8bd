//! A server is killed at random moments under load, hundreds of times, and started again on its files: all
//! changes are there that its `appendfsync` policy guarantees.
//!
//! A kill follows a random number of acknowledgements, so nothing here sleeps. While clients work, the file is rewritten
//! now and then. The seed is printed; `KILLING_SEED` repeats it, as far as the timing of processes does.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trials::connection::{Connection, encode};
use trials::durability::{Change, Contents, Guarantee, History, check};
use trials::random::Random;
use trials::reply::Reply;
use trials::server::{Program, Server, programs_or_skip};

const CLIENT_COUNT: usize = 6;
/// Changes that a client sends together, at most.
const BATCH_LEN_MAX: usize = 8;
/// Acknowledgements before a kill, at most.
const ACKNOWLEDGED_MAX: usize = 400;
/// Kills with one policy, and the time after which there are no more.
const KILL_COUNT: usize = 120;
const TIME_MAX: Duration = Duration::from_secs(28);
/// Accounts among which all clients transfer, and the sum of all.
const ACCOUNT_COUNT: usize = 8;
const ACCOUNT_SUM: i64 = 0;

struct Trial {
    server: Server,
    random: Random,
    guarantee: Guarantee,
    /// Changes that were acknowledged before a kill.
    acknowledged: usize,
}

fn seed() -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("KILLING_SEED").map_or_else(|_| fresh(), |text| text.parse().unwrap());
    eprintln!("KILLING_SEED={seed}");
    seed
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) | Reply::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Integer(number) => number.to_string(),
        Reply::Null => "0".to_owned(),
        other => panic!("{other:?}"),
    }
}

fn call(connection: &mut Connection, line: &str) -> io::Result<Reply> {
    let words: Vec<&str> = line.split(' ').collect();
    Ok(connection.call(&words)?.reply)
}

fn number(connection: &mut Connection, line: &str) -> u64 {
    text(&call(connection, line).unwrap()).parse().unwrap()
}

/// The contents of a client's keys.
fn contents(connection: &mut Connection, client: usize) -> Contents {
    Contents {
        count: number(connection, &format!("GET count:{client}")),
        pushed: number(connection, &format!("LLEN list:{client}")),
        last_pushed: number(connection, &format!("LINDEX list:{client} -1")),
        left: number(connection, &format!("GET left:{client}")),
        right: number(connection, &format!("GET right:{client}")),
        between: number(connection, &format!("LLEN between:{client}")),
    }
}

/// One client, until its connection ends.
fn work(
    server: &Server,
    client: usize,
    history: &Mutex<History>,
    random: &mut Random,
    acknowledged: &Sender<usize>,
) -> io::Result<()> {
    let mut connection = server.connect()?;
    loop {
        match random.below(100) {
            0..70 => {
                let count = change(&mut connection, client, history, random)?;
                // Fails only when the test no longer waits for acknowledgements.
                let _ = acknowledged.send(count);
            }
            70..90 => {
                let other = random.below(CLIENT_COUNT);
                let count = text(&call(&mut connection, &format!("GET count:{other}"))?).parse().unwrap();
                history.lock().unwrap().read(other, count);
            }
            90..95 => {
                let (from, to) = (random.below(ACCOUNT_COUNT), random.below(ACCOUNT_COUNT));
                let requests =
                    ["MULTI", &format!("DECRBY account:{from} 7"), &format!("INCRBY account:{to} 7"), "EXEC"];
                send(&mut connection, &requests.map(str::to_owned))?;
            }
            _ => {
                if call(&mut connection, "WAITAOF 1 0 100")?
                    == Reply::List(b'*', vec![Reply::Integer(1), Reply::Integer(0)])
                {
                    history.lock().unwrap().awaited();
                }
            }
        }
    }
}

/// Sends requests together, and receives their replies.
fn send(connection: &mut Connection, requests: &[String]) -> io::Result<()> {
    let encoded = |line: &String| encode(&line.split(' ').collect::<Vec<_>>());
    connection.send(&requests.iter().flat_map(encoded).collect::<Vec<u8>>())?;
    for request in requests {
        let reply = connection.receive()?.reply;
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    }
    Ok(())
}

/// Sends some changes together. Returns their number when all are acknowledged.
fn change(
    connection: &mut Connection,
    client: usize,
    history: &Mutex<History>,
    random: &mut Random,
) -> io::Result<usize> {
    let choices = [Change::Count, Change::Push, Change::Transaction];
    let changes: Vec<Change> = (0..=random.below(BATCH_LEN_MAX)).map(|_| *random.pick(&choices)).collect();
    let mut requests: Vec<String> = Vec::new();
    {
        let mut history = history.lock().unwrap();
        let mut pushed = history.pushed();
        history.send(&changes);
        for change in &changes {
            match change {
                Change::Count => requests.push(format!("INCR count:{client}")),
                Change::Push => {
                    pushed += 1;
                    requests.push(format!("RPUSH list:{client} {pushed}"));
                }
                Change::Transaction => requests.extend([
                    "MULTI".to_owned(),
                    format!("INCR left:{client}"),
                    format!("RPUSH between:{client} x"),
                    format!("INCR right:{client}"),
                    "EXEC".to_owned(),
                ]),
            }
        }
    }
    send(connection, &requests)?;
    history.lock().unwrap().acknowledge();
    Ok(changes.len())
}

impl Trial {
    fn new(policy: &str, guarantee: Guarantee, threads: &str) -> Option<Self> {
        let [program] = programs_or_skip([("broadloom", Program::broadloom())])?;
        let program = program.with_arguments(&["--appendonly", "yes", "--appendfsync", policy]);
        let server = Server::start(&program.with_arguments(&["--io-threads", threads])).unwrap();
        Some(Self { server, random: Random::new(seed()), guarantee, acknowledged: 0 })
    }

    /// Lets clients work, kills the server and starts it again after `damage`. Checks the data.
    fn kill_once(&mut self, damage: impl FnOnce(&Server)) -> Result<(), String> {
        let mut admin = self.server.connect().unwrap();
        let histories: Vec<Mutex<History>> =
            (0..CLIENT_COUNT).map(|client| Mutex::new(History::new(contents(&mut admin, client)))).collect();
        let target = self.random.below(ACKNOWLEDGED_MAX);
        let rewrites = self.random.chance(20);
        let seeds: Vec<Random> = (0..CLIENT_COUNT).map(|_| self.random.fork()).collect();
        let (sender, receiver): (_, Receiver<usize>) = channel();
        let process = self.server.process_id();
        std::thread::scope(|scope| {
            for (client, mut random) in seeds.into_iter().enumerate() {
                let (server, history, sender) = (&self.server, &histories[client], sender.clone());
                scope.spawn(move || work(server, client, history, &mut random, &sender));
            }
            let mut count = 0;
            while count < target {
                count += receiver.recv().expect("no client ends before the server");
            }
            if rewrites {
                call(&mut admin, "BGREWRITEAOF").unwrap();
            }
            kill(process);
        });
        self.server.kill().unwrap();
        damage(&self.server);
        self.server.start_again().unwrap();
        let histories: Vec<History> =
            histories.into_iter().map(|history| history.into_inner().unwrap()).collect();
        self.acknowledged += histories.iter().map(History::acknowledged).sum::<usize>();
        let mut admin = self.server.connect().unwrap();
        let found: Vec<Contents> = (0..CLIENT_COUNT).map(|client| contents(&mut admin, client)).collect();
        check(&histories, &found, self.guarantee)?;
        let accounts = (0..ACCOUNT_COUNT).map(|account| call(&mut admin, &format!("GET account:{account}")));
        let sum: i64 = accounts.map(|reply| text(&reply.unwrap()).parse::<i64>().unwrap()).sum();
        (sum == ACCOUNT_SUM)
            .then_some(())
            .ok_or_else(|| format!("a transfer is half there: the sum is {sum}"))
    }

    fn run(mut self) {
        let began = Instant::now();
        let mut kill_count = 0;
        while kill_count < KILL_COUNT && began.elapsed() < TIME_MAX {
            let kept = self.kill_once(|_| ());
            assert_eq!(kept, Ok(()), "after kill {kill_count}");
            kill_count += 1;
        }
        assert!(self.acknowledged > 0, "no change was acknowledged");
        eprintln!("{kill_count} kills, {} changes were acknowledged", self.acknowledged);
    }
}

fn kill(process: u32) {
    let status = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The last increment of the append-only file.
fn last_increment(server: &Server) -> PathBuf {
    let directory = server.data_dir().join("appendonlydir");
    let manifest = std::fs::read_to_string(directory.join("appendonly.aof.manifest")).unwrap();
    let last = manifest.lines().rfind(|line| line.ends_with("type i")).unwrap();
    directory.join(last.split(' ').nth(1).unwrap())
}

#[test]
fn always_loses_nothing_that_was_shown() {
    if let Some(trial) = Trial::new("always", Guarantee::Shown, "2") {
        trial.run();
    }
}

#[test]
fn everysec_loses_nothing_that_was_awaited() {
    if let Some(trial) = Trial::new("everysec", Guarantee::Awaited, "3") {
        trial.run();
    }
}

#[test]
fn no_loses_only_the_newest_changes() {
    if let Some(trial) = Trial::new("no", Guarantee::Awaited, "1") {
        trial.run();
    }
}

/// A server that acknowledges before it writes leaves such files.
#[test]
fn a_loss_is_found() {
    let Some(mut trial) = Trial::new("always", Guarantee::Shown, "2") else { return };
    let cut = |server: &Server| {
        let file = std::fs::OpenOptions::new().write(true).open(last_increment(server)).unwrap();
        file.set_len(file.metadata().unwrap().len() * 3 / 4).unwrap();
    };
    let found = (0..20).find_map(|_| trial.kill_once(cut).err());
    assert!(found.is_some_and(|text| text.contains("guaranteed") || text.contains("before the start")));
}
