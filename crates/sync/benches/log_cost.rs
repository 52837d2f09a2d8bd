//! The cost of the write log: nanoseconds for a record.
//!
//! `cargo bench -p sync --bench log_cost`. Indicative: on a shared machine, use the minimum of several runs.

use base::{DbIndex, Lsn};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;
use sync::write_log::{Audience, LogWriter, Record, WriteLog};

const RECORD_COUNT: usize = 1_000_000;
const ROUND_COUNT: usize = 5;
const CAPACITY: usize = 4 << 20;

fn main() {
    println!("append, ns, minimum of {ROUND_COUNT} rounds");
    report("100 bytes, the writer's thread also reads", alone);
    println!("the reader runs on a thread of its own");
    report("off", || rounds(1, 100, false));
    report("1 thread, 40 bytes", || rounds(1, 40, true));
    report("1 thread, 100 bytes", || rounds(1, 100, true));
    report("1 thread, 1000 bytes", || rounds(1, 1000, true));
    report("2 threads, 40 bytes", || rounds(2, 40, true));
    report("2 threads, 100 bytes", || rounds(2, 100, true));
}

fn report(what: &str, round: impl Fn() -> f64) {
    let least_ns = (0..ROUND_COUNT).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{least_ns:8.1}  {what}");
}

/// The cost without another thread.
fn alone() -> f64 {
    let log = Arc::new(WriteLog::new(Lsn(0), CAPACITY, 1, |_| ()));
    let mut reader = log.attach(0, Audience::File).expect("no other reader");
    let mut writer = log.writer(0);
    let record = Record {
        database: Some(DbIndex(0)),
        leaves: None,
        select: b"select",
        ..Record::new(&[&[b'x'; 100]])
    };
    let start = Instant::now();
    for index in 0..RECORD_COUNT {
        black_box(writer.append(black_box(&record)));
        if index % 1024 == 0 {
            writer.notify();
            let size = reader.bytes(Lsn(u64::MAX)).len();
            reader.advance(size);
        }
    }
    start.elapsed().as_nanos() as f64 / RECORD_COUNT as f64
}

/// Wall time of one record of one thread.
fn rounds(thread_count: usize, size: usize, is_on: bool) -> f64 {
    let log = Arc::new(WriteLog::new(Lsn(0), CAPACITY, thread_count, |_| ()));
    let (barrier, done) = (Barrier::new(thread_count), AtomicBool::new(false));
    let mut reader = is_on.then(|| log.attach(0, Audience::File).expect("no other reader"));
    thread::scope(|scope| {
        let done = &done;
        let reading = scope.spawn(move || {
            while let Some(reader) = &mut reader {
                let size = reader.bytes(Lsn(u64::MAX)).len();
                reader.advance(size);
                if size == 0 && done.load(Ordering::Acquire) {
                    break;
                }
                thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..thread_count)
            .map(|lane| {
                let (mut writer, barrier) = (log.writer(lane), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    write(&mut writer, size)
                })
            })
            .collect();
        let slowest = writers.into_iter().map(|writer| writer.join().expect("no panic")).fold(0.0, f64::max);
        done.store(true, Ordering::Release);
        reading.join().expect("no panic");
        slowest
    })
}

fn write(writer: &mut LogWriter, size: usize) -> f64 {
    let bytes = vec![b'x'; size];
    let parts = [bytes.as_slice()];
    let record =
        Record { database: Some(DbIndex(0)), leaves: None, select: b"select", ..Record::new(&parts) };
    let start = Instant::now();
    for index in 0..RECORD_COUNT {
        while !writer.log().has_room(size) {
            thread::yield_now();
        }
        black_box(writer.append(black_box(&record)));
        // Once in a turn of the event loop.
        if index % 16 == 0 {
            writer.notify();
        }
    }
    start.elapsed().as_nanos() as f64 / RECORD_COUNT as f64
}
