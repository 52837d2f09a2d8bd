//! Several writers and readers on real threads, or under seeds of the simulation. Each planted fault must be found.
//!
//! A record is: the writer's number, the database, a sequence number, the size, and bytes that follow from them.

#![allow(clippy::unwrap_used)]

use super::{Audience, Fault, LogWake, Record, Room, WriteLog};
use crate::{Condvar, Mutex, thread};
use base::{DbIndex, Lsn};
use std::sync::Arc;

const WRITER_COUNT: usize = 3;
const READER_COUNT: usize = 2;
const HEADER_SIZE: usize = 8;
/// A text that selects a database: this byte, then the database.
const SELECT: u8 = 0xff;

/// One bell per thread. Readers are numbered after the writers.
struct Bells {
    rung: Mutex<[bool; WRITER_COUNT + READER_COUNT]>,
    changed: Condvar,
}

impl Bells {
    fn ring(&self, token: u64) {
        self.rung.lock().unwrap()[token as usize] = true;
        self.changed.notify_all();
    }

    fn wait(&self, token: u64) {
        let mut rung = self.rung.lock().unwrap();
        while !std::mem::take(&mut rung[token as usize]) {
            rung = self.changed.wait(rung).unwrap();
        }
    }
}

fn run(record_count: u32, fault: Fault) {
    let bells = Arc::new(Bells { rung: Mutex::new([false; _]), changed: Condvar::new() });
    let ringer = Arc::clone(&bells);
    let wake = move |(LogWake::Reader(token) | LogWake::Writer(token))| ringer.ring(token);
    let log = Arc::new(WriteLog::new(Lsn((1 << 48) - 200), 256, WRITER_COUNT, wake).with_fault(fault));
    // Attached before any writer starts.
    let readers: Vec<_> = (0..READER_COUNT)
        .map(|index| {
            let token = (WRITER_COUNT + index) as u64;
            (log.attach(token, Audience::File).unwrap(), token, Arc::clone(&bells))
        })
        .collect();
    let writers: Vec<_> = (0..WRITER_COUNT)
        .map(|number| {
            let (log, bells) = (Arc::clone(&log), Arc::clone(&bells));
            thread::spawn(move || write(&log, &bells, number, record_count))
        })
        .collect();
    let readers: Vec<_> = readers
        .into_iter()
        .map(|(mut reader, token, bells)| {
            thread::spawn(move || {
                let mut checker = Checker::default();
                while checker.seen.iter().sum::<u32>() < WRITER_COUNT as u32 * record_count {
                    let chunk = reader.bytes(Lsn(u64::MAX));
                    let size = chunk.len();
                    checker.check(&chunk.pieces.concat());
                    reader.advance(size);
                    if size == 0 && reader.prepare_sleep() {
                        bells.wait(token);
                        reader.awake();
                    }
                }
            })
        })
        .collect();
    writers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
}

fn write(log: &Arc<WriteLog>, bells: &Bells, number: usize, record_count: u32) {
    let mut writer = log.writer(number);
    for sequence in 0..record_count {
        // Some records are larger than the ring.
        let random = (sequence + 1).wrapping_mul(0x9e37_79b9 + number as u32) >> 16;
        let size = if random.is_multiple_of(50) { 300 } else { random % 60 } as usize;
        while log.wait_for_room(size, number as u64) == Room::Waiting {
            writer.notify();
            bells.wait(number as u64);
        }
        let database = (random % 3) as u8;
        let mut record = vec![number as u8, database];
        record.extend(sequence.to_le_bytes());
        record.extend((size as u16).to_le_bytes());
        let body: Vec<u8> = (0..size).map(|index| byte_of(number, sequence, index)).collect();
        let database = DbIndex(u16::from(database));
        let appended = writer.append(&Record {
            database: Some(database),
            leaves: None,
            select: &[SELECT, database.0 as u8],
            ..Record::new(&[&record, &body])
        });
        assert!(appended.is_some());
        // A turn of the event loop has several records.
        if random % 4 != 0 || sequence + 1 == record_count {
            writer.notify();
        }
        if sequence % 4 == 3 {
            writer.notify();
        }
    }
}

fn byte_of(number: usize, sequence: u32, index: usize) -> u8 {
    (number as u32 * 7 + sequence + index as u32) as u8
}

#[derive(Default)]
struct Checker {
    seen: [u32; WRITER_COUNT],
    database: Option<u8>,
}

impl Checker {
    /// Whole records.
    fn check(&mut self, mut bytes: &[u8]) {
        while let [first, database, ..] = *bytes {
            if first == SELECT {
                assert_ne!(self.database, Some(database), "needless selection");
                self.database = Some(database);
                bytes = &bytes[2..];
                continue;
            }
            let number = usize::from(first);
            assert!(number < WRITER_COUNT && bytes.len() >= HEADER_SIZE, "torn");
            let sequence = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
            let size = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
            assert_eq!((sequence, Some(database)), (self.seen[number], self.database), "order");
            let body = &bytes[HEADER_SIZE..][..size];
            assert!(body.iter().enumerate().all(|(index, byte)| *byte == byte_of(number, sequence, index)));
            self.seen[number] += 1;
            bytes = &bytes[HEADER_SIZE + size..];
        }
        assert!(bytes.is_empty(), "torn");
    }
}

#[test]
fn readers_see_every_record_once_and_whole() {
    run(if cfg!(miri) { 30 } else { 30_000 }, Fault::None);
}

#[cfg(feature = "simulation")]
mod simulated {
    use super::*;
    use crate::simulation::{Failure, Scheduler, SchedulerOptions};

    fn failure_of(seed: u64, fault: Fault) -> Option<Failure> {
        Scheduler::new(seed, SchedulerOptions::default()).run(move || run(30, fault)).failure
    }

    #[test]
    fn readers_see_every_record_under_each_seed() {
        for seed in 0..100 {
            assert_eq!(failure_of(seed, Fault::None), None, "seed {seed}");
        }
    }

    #[test]
    fn each_planted_fault_is_found() {
        for fault in
            [Fault::PublishedEarly, Fault::SleepUnchecked, Fault::WritersForgotten, Fault::RingOverrun]
        {
            let found = (0..100).any(|seed| failure_of(seed, fault).is_some());
            assert!(found, "{fault:?} is not found");
        }
    }
}
