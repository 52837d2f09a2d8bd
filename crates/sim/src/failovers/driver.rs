//! The driver of a failover run: it fails over as Sentinel does, and restarts servers with their files.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use persist::disk::{Disk, DiskFile};
use server::simulated::Server;
use sync::simulation::{self, Task};
use trials::random::Random;

use super::{
    INTERVAL_US_MAX, LATE_DELAYS_US_MAX, LATE_WRITER_COUNT, RunState, SERVER_COUNT, STEP_COUNT_MAX, STEP_US,
    Setting, accept, address, await_replicas, expect_confirmed, figure, follow_all, followers, spawn, start,
    words,
};
use crate::connection::Connection;
use crate::replay;
use crate::world::lock;

/// Fails over several times.
pub(super) fn drive(state: &RunState, mut random: Random) {
    for failover in 0..state.setting.failover_count {
        simulation::sleep_us(1 + random.below(INTERVAL_US_MAX) as u64);
        let former = state.primary.load(Ordering::SeqCst);
        let id = await_history(former);
        if state.setting.diverges {
            // Until the replicas have connected again, they lack the changes of clients.
            Connection::open(address(former), "driver").call(&["CLIENT", "KILL", "TYPE", "replica"]);
            simulation::sleep_us(1 + random.below(INTERVAL_US_MAX / 20) as u64);
        }
        close(state);
        if state.setting.ends_primary {
            let running = lock(&state.servers)[former].take().expect("the primary runs");
            end_now(&running, former);
        }
        let next = best_replica(former, &id, &mut random);
        let mut admin = Connection::open(address(next), "driver");
        admin.expect_ok(&["REPLICAOF", "NO", "ONE"]);
        drop(admin);
        expect_confirmed(state, next, &format!("failover {failover}"));
        state.is_linked.store(false, Ordering::SeqCst);
        state.primary.store(next, Ordering::SeqCst);
        state.is_open.store(true, Ordering::SeqCst);
        if state.setting.ends_primary {
            let again = start(&state.setting, former, None);
            lock(&state.servers)[former] = Some(again);
        }
        if state.setting.diverges {
            simulation::sleep_us(1 + random.below(INTERVAL_US_MAX) as u64);
        }
        let writers = match state.setting.has_late_writes && !state.setting.ends_primary {
            true => {
                (0..LATE_WRITER_COUNT).map(|number| send_late_writes(former, number, random.fork())).collect()
            }
            false => Vec::new(),
        };
        follow_all(state, next);
        state.is_linked.store(true, Ordering::SeqCst);
        writers.iter().for_each(Task::join);
    }
}

/// Sends changes to a server that is about to become a replica: they are refused, belong to what it asks to continue
/// from, or are lost with data that differ from the primary's.
fn send_late_writes(server: usize, writer: usize, mut random: Random) -> Task {
    spawn(&format!("late writer {writer}"), move || {
        let mut connection = Connection::open(address(server), &format!("late writer {writer}"));
        let delay_us_max = *random.pick(LATE_DELAYS_US_MAX);
        simulation::sleep_us(1 + random.below(delay_us_max) as u64);
        let requests: Vec<Vec<String>> =
            (0..4).map(|number| words(&format!("SET late:{writer} {number}"))).collect();
        connection.send(&requests).expect("the server runs");
        for _ in &requests {
            // The waits of clients end with the role.
            let _ = connection.receive();
        }
    })
}

/// Makes clients stop changing data.
fn close(state: &RunState) {
    state.is_open.store(false, Ordering::SeqCst);
    while state.busy.load(Ordering::SeqCst) > 0 {
        simulation::sleep_us(STEP_US / 10);
    }
}

/// Ends a server and starts it again with its role, if there is a file. Its end may be cut off meanwhile.
pub(super) fn restart(state: &RunState, server: usize, random: &mut Random) {
    let Setting { policy, cut_count, .. } = state.setting;
    let primary = state.primary.load(Ordering::Relaxed);
    close(state);
    await_replicas(primary);
    let running = lock(&state.servers)[server].take().expect("each server runs");
    let mut admin = Connection::open(address(server), "driver");
    replay::await_file(&mut admin);
    let (save, now) = (if policy.is_some() { "NOSAVE" } else { "SAVE" }, random.below(2) == 0);
    let request = format!("SHUTDOWN {save} FORCE{}", if now { " NOW" } else { "" });
    admin.send(&[words(&request)]).expect("the server runs");
    assert!(admin.receive().is_err(), "SHUTDOWN has no reply");
    drop(admin);
    running.wait();
    let is_cut = policy.is_some() && random.below(2) == 0 && cut_file(state, server, random);
    let followed = followers(state, primary).into_iter().find(|(follower, _)| *follower == server);
    let again = start(&state.setting, server, followed.map(|(_, followed)| followed));
    lock(&state.servers)[server] = Some(again);
    if server != primary {
        // It follows.
    } else if is_cut {
        accept(state, server);
    } else {
        expect_confirmed(state, server, "restart");
    }
    await_replicas(primary);
    if !is_cut && !now && cut_count == 0 {
        let text = Connection::open(address(primary), "driver").text(&["INFO", "stats"]);
        assert!(server != primary || text.contains("sync_full:0\r\n"), "replicas do not continue: {text}");
    }
    state.is_open.store(true, Ordering::SeqCst);
}

/// Cuts the end of the newest increment of a server's append-only file off. Returns whether it had one.
fn cut_file(state: &RunState, server: usize, random: &mut Random) -> bool {
    let directory = PathBuf::from(format!("files-{server}"));
    let names = state.disk.list(&directory).expect("the server has files");
    let names = names.into_iter().map(|name| String::from_utf8(name).expect("a name in ASCII"));
    let number =
        |name: &String| -> Option<u32> { name.strip_suffix(".incr.aof")?.rsplit('.').next()?.parse().ok() };
    let Some(newest) = names.filter(|name| number(name).is_some()).max_by_key(number) else { return false };
    let mut file = state.disk.open(&directory.join(newest)).expect("it is listed");
    let size = file.size().expect("it is open");
    let cut = (1 + random.below(300) as u64).min(size);
    file.truncate(size - cut).and_then(|()| file.sync()).expect("nothing fails");
    cut > 0
}

/// Ends a server without waiting for its replicas.
fn end_now(running: &Server, server: usize) {
    let mut admin = Connection::open(address(server), "driver");
    admin.send(&[words("SHUTDOWN NOSAVE NOW FORCE")]).expect("the server runs");
    assert!(admin.receive().is_err(), "SHUTDOWN has no reply");
    drop(admin);
    running.wait();
}

/// Waits until a replica has data of a primary's history. Returns its id.
fn await_history(primary: usize) -> String {
    let id_of = |server| figure(&mut Connection::open(address(server), "driver"), "master_replid");
    for _ in 0..STEP_COUNT_MAX {
        // The first replica may give the data of a primary another id.
        let id = id_of(primary).expect("a primary shows its id");
        if (0..SERVER_COUNT).any(|server| server != primary && id_of(server).as_ref() == Some(&id)) {
            return id;
        }
        simulation::sleep_us(STEP_US);
    }
    panic!("no replica has data of server {primary}")
}

/// The replica that is to be promoted: of those with data of the primary's history the one that has received most of it.
fn best_replica(former: usize, id: &str, random: &mut Random) -> usize {
    let offset = |server: usize| -> i64 {
        for _ in 0..STEP_COUNT_MAX {
            let mut replica = Connection::open(address(server), "driver");
            if figure(&mut replica, "master_replid").is_some_and(|other| other != id) {
                // Offsets of other histories can't be compared.
                return -1;
            }
            // Not while it loads a snapshot of the primary.
            if figure(&mut replica, "master_sync_in_progress").as_deref() == Some("0")
                && let Some(offset) = figure(&mut replica, "slave_repl_offset").and_then(|it| it.parse().ok())
            {
                simulation::trace(|| format!("server {server} has the offset {offset}"));
                return offset;
            }
            simulation::sleep_us(STEP_US);
        }
        panic!("server {server} shows no offset")
    };
    let mut others: Vec<usize> = (0..SERVER_COUNT).filter(|server| *server != former).collect();
    if random.below(2) == 0 {
        others.reverse();
    }
    others.into_iter().max_by_key(|server| offset(*server)).expect("there are replicas")
}
