//! Trials without a search: many commands on several keys at full speed, of which every reply must satisfy an
//! invariant.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::connection::{Connection, encode};
use crate::random::Random;
use crate::reply::Reply;
use crate::server::Server;

const KEY_COUNT: usize = 8;
const WRITER_COUNT: usize = 4;
const READER_COUNT: usize = 3;
/// Outstanding commands per connection.
const BATCH_LENGTH: usize = 16;

/// An inadmissible reply.
#[derive(Debug)]
pub struct Violation(pub String);

/// The commands of the writers and the invariant of each MGET of all keys.
struct Trial {
    prepare: fn(&mut Connection) -> io::Result<()>,
    write: fn(&mut Random) -> Vec<String>,
    holds: fn(&[Reply]) -> bool,
}

/// MSET of all keys to one value, with the keys in any order: every MGET returns a single value.
pub fn multi_set_is_atomic(server: &Server, batch_count: usize) -> io::Result<Result<(), Violation>> {
    run(
        server,
        batch_count,
        &Trial {
            prepare: |connection| expect_ok(connection, &["MSET"], KEY_COUNT, "0"),
            write: |random| {
                let value = random.below(1000).to_string();
                let pairs = shuffled_keys(random).into_iter().flat_map(|key| [key, value.clone()]);
                [vec!["MSET".to_owned()], pairs.collect()].concat()
            },
            holds: |values| values.iter().all(|value| *value == values[0] && *value != Reply::Null),
        },
    )
}

/// All clients rename one key to another, and only one key exists initially: every MGET finds exactly one.
pub fn rename_is_atomic(server: &Server, batch_count: usize) -> io::Result<Result<(), Violation>> {
    run(
        server,
        batch_count,
        &Trial {
            prepare: |connection| expect_ok(connection, &["MSET"], 1, "token"),
            write: |random| {
                let keys = shuffled_keys(random);
                vec!["RENAME".to_owned(), keys[0].clone(), keys[1].clone()]
            },
            holds: |values| values.iter().filter(|value| **value != Reply::Null).count() == 1,
        },
    )
}

/// MSETNX of all keys, and DEL of all keys: every MGET returns a single value, or none.
pub fn multi_set_if_absent_is_atomic(
    server: &Server,
    batch_count: usize,
) -> io::Result<Result<(), Violation>> {
    run(
        server,
        batch_count,
        &Trial {
            prepare: |_| Ok(()),
            write: |random| {
                if random.chance(50) {
                    return [vec!["DEL".to_owned()], shuffled_keys(random)].concat();
                }
                let value = random.below(1000).to_string();
                let pairs = shuffled_keys(random).into_iter().flat_map(|key| [key, value.clone()]);
                [vec!["MSETNX".to_owned()], pairs.collect()].concat()
            },
            holds: |values| values.iter().all(|value| *value == values[0]),
        },
    )
}

/// INCR by all clients: no increment is lost, and no reply occurs twice.
pub fn increments_add_up(server: &Server, batch_count: usize) -> io::Result<Result<(), Violation>> {
    server.connect()?.call(&["FLUSHALL"])?;
    let request = encode(&["INCR", "counter"]).repeat(BATCH_LENGTH);
    let count_up = || -> io::Result<Vec<i64>> {
        let mut connection = server.connect()?;
        let mut seen = Vec::new();
        for _ in 0..batch_count {
            connection.send(&request)?;
            for _ in 0..BATCH_LENGTH {
                match connection.receive()?.reply {
                    Reply::Integer(value) => seen.push(value),
                    other => return Err(io::Error::other(format!("INCR gave {other:?}"))),
                }
            }
        }
        Ok(seen)
    };
    let mut seen = Vec::new();
    for part in in_parallel(WRITER_COUNT, &count_up)? {
        if !part.is_sorted_by(|earlier, later| earlier < later) {
            return Ok(Err(Violation("the counter decreased within one connection".to_owned())));
        }
        seen.extend(part);
    }
    seen.sort_unstable();
    let expected: Vec<i64> = (1..=(WRITER_COUNT * batch_count * BATCH_LENGTH) as i64).collect();
    Ok(if seen == expected {
        Ok(())
    } else {
        Err(Violation("increments were lost or returned twice".to_owned()))
    })
}

fn run(server: &Server, batch_count: usize, trial: &Trial) -> io::Result<Result<(), Violation>> {
    let mut connection = server.connect()?;
    connection.call(&["FLUSHALL"])?;
    (trial.prepare)(&mut connection)?;
    let is_over = AtomicBool::new(false);
    let read = || -> io::Result<Option<String>> {
        let mut connection = server.connect()?;
        let keys: Vec<String> = (0..KEY_COUNT).map(key_name).collect();
        let request = encode(&[vec!["MGET".to_owned()], keys].concat()).repeat(BATCH_LENGTH);
        while !is_over.load(Ordering::Relaxed) {
            connection.send(&request)?;
            for _ in 0..BATCH_LENGTH {
                match connection.receive()?.reply {
                    Reply::List(_, values) if (trial.holds)(&values) => {}
                    other => return Ok(Some(format!("MGET gave {other:?}"))),
                }
            }
        }
        Ok(None)
    };
    let write = |mut random: Random| -> io::Result<()> {
        let mut connection = server.connect()?;
        for _ in 0..batch_count {
            let batch: Vec<u8> =
                (0..BATCH_LENGTH).flat_map(|_| encode(&(trial.write)(&mut random))).collect();
            connection.send(&batch)?;
            for _ in 0..BATCH_LENGTH {
                connection.receive()?;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READER_COUNT).map(|_| scope.spawn(read)).collect();
        let writers: Vec<_> =
            (0..WRITER_COUNT).map(|writer| scope.spawn(move || write(Random::new(writer as u64)))).collect();
        let written: io::Result<Vec<()>> = writers.into_iter().map(|writer| finish(writer.join())).collect();
        is_over.store(true, Ordering::Relaxed);
        let seen: io::Result<Vec<Option<String>>> =
            readers.into_iter().map(|reader| finish(reader.join())).collect();
        written?;
        Ok(seen?.into_iter().flatten().next().map_or(Ok(()), |violation| Err(Violation(violation))))
    })
}

fn in_parallel<T: Send>(count: usize, work: &(impl Fn() -> io::Result<T> + Sync)) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| finish(worker.join())).collect()
    })
}

pub(super) fn finish<T>(joined: thread::Result<io::Result<T>>) -> io::Result<T> {
    joined.unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
}

fn key_name(index: usize) -> String {
    format!("invariant:{index}")
}

fn shuffled_keys(random: &mut Random) -> Vec<String> {
    let mut keys: Vec<String> = (0..KEY_COUNT).map(key_name).collect();
    random.shuffle(&mut keys);
    keys
}

fn expect_ok(connection: &mut Connection, command: &[&str], key_count: usize, value: &str) -> io::Result<()> {
    let pairs = (0..key_count).flat_map(|index| [key_name(index), value.to_owned()]);
    let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).chain(pairs).collect();
    let reply = connection.call(&words)?.reply;
    if reply == Reply::Simple(b"OK".to_vec()) {
        Ok(())
    } else {
        Err(io::Error::other(format!("{words:?}: {reply:?}")))
    }
}
