//! Linearisability trials as tests: of Valkey, which is correct because it has a single thread, and of
//! Broadloom with four threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use trials::linearisability::collections::TYPES;
use trials::linearisability::queues::{QUEUES, queue_loses_and_doubles_nothing};
use trials::linearisability::recorder::{Plan, WITH_EXPIRIES, of_collections, record};
use trials::linearisability::transfers::{LEDGERS, transfers_keep_the_sum};
use trials::linearisability::{invariants, search};
use trials::server::{Program, Server, programs_or_skip};

const BATCH_COUNT: usize = 150;
const TRANSFER_COUNT: usize = 200;
const ITEM_COUNT: usize = 500;

fn round_count() -> u64 {
    std::env::var("TRIALS_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

fn check_server(program: &Program) -> io::Result<()> {
    check_running(&Server::start(program)?)
}

fn check_running(server: &Server) -> io::Result<()> {
    for round in 0..round_count() {
        if let Err(failure) = search::check_each_key(&record(server, &Plan::SINGLE, round)?) {
            panic!("{}, one key, round {round}: {failure}", server.name());
        }
        if let Err(failure) = search::check(&record(server, &Plan::SEVERAL, round)?) {
            panic!("{}, several keys, round {round}: {failure}", server.name());
        }
        if let Err(failure) = search::check(&record(server, &Plan::SCRIPTED, round)?) {
            panic!("{}, with scripts, round {round}: {failure}", server.name());
        }
        if let Err(failure) = search::check_each_key(&record(server, &WITH_EXPIRIES, round)?) {
            panic!("{}, with expiries, round {round}: {failure}", server.name());
        }
        for verbs in TYPES {
            if let Err(failure) = search::check(&record(server, &of_collections(verbs), round)?) {
                panic!("{}, {:?} and so on, round {round}: {failure}", server.name(), verbs[0]);
            }
        }
    }
    let trials = [
        invariants::multi_set_is_atomic,
        invariants::rename_is_atomic,
        invariants::multi_set_if_absent_is_atomic,
        invariants::increments_add_up,
    ];
    for trial in trials {
        if let Err(violation) = trial(server, BATCH_COUNT)? {
            panic!("{}: {}", server.name(), violation.0);
        }
    }
    for ledger in LEDGERS {
        if let Err(violation) = transfers_keep_the_sum(server, ledger, TRANSFER_COUNT)? {
            panic!("{}: {}", server.name(), violation.0);
        }
    }
    for queue in QUEUES {
        if let Err(violation) = queue_loses_and_doubles_nothing(server, queue, ITEM_COUNT)? {
            panic!("{}: {}", server.name(), violation.0);
        }
    }
    Ok(())
}

#[test]
fn valkey_is_linearisable() {
    let Some([valkey]) = programs_or_skip([("valkey", Program::valkey())]) else { return };
    check_server(&valkey).unwrap();
}

#[test]
fn broadloom_is_linearisable_with_four_threads() {
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    check_server(&broadloom.with_threads("4")).unwrap();
}

/// Connections move between threads during the trial.
#[test]
fn broadloom_is_linearisable_while_its_threads_change() {
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    let server = Server::start(&broadloom.with_threads("4")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| -> io::Result<usize> {
            let (mut connection, mut count) = (server.connect()?, 0);
            while !is_over.load(Ordering::Relaxed) {
                let thread_count = [1, 4, 2, 8, 3][count % 5].to_string();
                let reply = connection.call(&["CONFIG", "SET", "io-threads", &thread_count])?;
                assert_eq!(reply.bytes, b"+OK\r\n");
                count += 1;
            }
            Ok(count)
        });
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check_running(&server)));
        is_over.store(true, Ordering::Relaxed);
        let change_count = changes.join().unwrap().unwrap();
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).unwrap();
        assert!(change_count > 5, "the threads changed {change_count} times");
    });
}
