//! The write log: order, gaps, the end of the ring, and both kinds of wake-ups.
//!
//! Each byte of the ring has a cell, through which loom detects a reader of unfinished bytes and a writer that
//! overwrites unread ones.

use super::{Bells, explore};
use base::{DbIndex, Lsn};
use loom::thread;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use sync::write_log::{Audience, Fault, LogReader, LogWake, LogWriter, Record, Room, WriteLog};

/// Tokens are the indices of bells.
const READER: usize = 0;

fn log_with(fault: Fault, bells: &loom::sync::Arc<Bells>) -> Arc<WriteLog> {
    let ringer = bells.clone();
    let wake = move |(LogWake::Reader(token) | LogWake::Writer(token))| ringer.ring(token as usize);
    // The 48 bits of the word overflow.
    Arc::new(WriteLog::new(Lsn((1 << 48) - 70), 64, 2, wake).with_fault(fault))
}

fn append(writer: &mut LogWriter, database: u16, bytes: &[u8]) {
    let database = Some(DbIndex(database));
    let parts = [bytes];
    let record = Record { database, select: b"s", ..Record::new(&parts) };
    assert!(writer.append(&record).is_some());
}

fn read(reader: &mut LogReader, all: &mut Vec<u8>) {
    let chunk = reader.bytes(Lsn(u64::MAX));
    let size = chunk.len();
    all.extend(chunk.pieces.concat());
    reader.advance(size);
}

/// Two writers on different databases, and a reader that sleeps until it has seen both records.
fn two_writers(fault: Fault) {
    explore(Some(2), move || {
        let bells = Bells::new(1);
        let log = log_with(fault, &bells);
        // Not dropped when loom reports a defect: a second panic would abort.
        let mut reader = ManuallyDrop::new(log.attach(READER as u64, Audience::File).unwrap());
        let writers = [0, 1].map(|lane| {
            let mut writer = log.writer(lane);
            thread::spawn(move || {
                append(&mut writer, lane as u16, &[lane as u8; 2]);
                writer.notify();
            })
        });
        let mut all = Vec::new();
        while all.len() < 6 {
            read(&mut reader, &mut all);
            assert!(
                [b"".as_slice(), b"s\0\0", b"s\x01\x01", b"s\0\0s\x01\x01", b"s\x01\x01s\0\0"]
                    .contains(&&*all)
            );
            if all.len() < 6 && reader.prepare_sleep() {
                bells.wait(READER);
                reader.awake();
            }
        }
        super::join(writers);
        drop(ManuallyDrop::into_inner(reader));
    });
}

#[test]
fn a_reader_stops_at_the_first_gap_and_misses_no_wake_up() {
    two_writers(Fault::None);
}

#[test]
#[should_panic]
fn a_record_published_early_is_found() {
    two_writers(Fault::PublishedEarly);
}

/// A reader goes to sleep while a writer appends: the reader sees the record or is woken.
fn sleeping_reader(fault: Fault) {
    explore(None, move || {
        let bells = Bells::new(1);
        let log = log_with(fault, &bells);
        let mut reader = log.attach(READER as u64, Audience::File).unwrap();
        let mut writer = log.writer(0);
        let thread = thread::spawn(move || {
            append(&mut writer, 0, b"x");
            writer.notify();
        });
        let is_asleep = reader.prepare_sleep();
        thread.join().unwrap();
        assert!(!is_asleep || bells.has_rung(READER), "a wake-up is lost");
    });
}

#[test]
fn no_wake_up_of_a_reader_is_lost() {
    sleeping_reader(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up is lost")]
fn a_lost_wake_up_of_a_reader_is_found() {
    sleeping_reader(Fault::SleepUnchecked);
}

/// A writer requests room while a reader frees it: the writer finds it or is woken.
fn waiting_writer(fault: Fault) {
    explore(None, move || {
        let bells = Bells::new(2);
        let log = log_with(fault, &bells);
        let mut reader = log.attach(READER as u64, Audience::File).unwrap();
        append(&mut log.writer(0), 0, &[0; 60]);
        let thread = thread::spawn(move || log.wait_for_room(40, 1));
        read(&mut reader, &mut Vec::new());
        let is_waiting = thread.join().unwrap() == Room::Waiting;
        assert!(!is_waiting || bells.has_rung(1), "a wake-up is lost");
    });
}

#[test]
fn no_wake_up_of_a_writer_is_lost() {
    waiting_writer(Fault::None);
}

#[test]
#[should_panic(expected = "a wake-up is lost")]
fn a_lost_wake_up_of_a_writer_is_found() {
    waiting_writer(Fault::WritersForgotten);
}

/// A reader of files meets a message to replicas while it is written, and a record behind it.
fn message_to_replicas(fault: Fault) {
    explore(Some(3), move || {
        let bells = Bells::new(1);
        let log = log_with(fault, &bells);
        // Not dropped when loom reports a defect: a second panic would abort.
        let mut reader = ManuallyDrop::new(log.attach(READER as u64, Audience::File).unwrap());
        let mut writer = log.writer(0);
        let thread = thread::spawn(move || {
            let message = [b"m".as_slice()];
            writer.append_unlatched(&Record::for_audience(&message, Audience::Replicas)).unwrap();
            append(&mut writer, 0, b"x");
            writer.notify();
        });
        let mut all = Vec::new();
        while all.len() < 2 {
            read(&mut reader, &mut all);
            assert!(!all.contains(&b'm'), "a message reaches the file");
            if all.len() < 2 && reader.prepare_sleep() {
                bells.wait(READER);
                reader.awake();
            }
        }
        thread.join().unwrap();
        drop(ManuallyDrop::into_inner(reader));
        assert_eq!(all, b"sx");
    });
}

#[test]
fn a_message_to_replicas_is_passed_over() {
    message_to_replicas(Fault::None);
}

#[test]
#[should_panic(expected = "a message reaches the file")]
fn a_range_noted_late_is_found() {
    message_to_replicas(Fault::LateAudience);
}

/// While a thread holds appends without latches away, the end of the log is exact.
#[test]
fn the_end_is_exact_while_appends_without_latches_are_held_away() {
    explore(None, || {
        let bells = Bells::new(1);
        let log = log_with(Fault::None, &bells);
        let reader = log.attach(READER as u64, Audience::Replicas).unwrap();
        let mut writer = log.writer(0);
        let thread = thread::spawn(move || {
            let message = [b"m".as_slice()];
            writer.append_unlatched(&Record::for_audience(&message, Audience::Replicas)).unwrap();
        });
        let held = log.hold_unlatched();
        assert_eq!(log.end(), log.complete_end());
        drop(held);
        thread.join().unwrap();
        drop(reader);
    });
}

/// A writer that fills the ring, waits for room and wraps around, or does not check and spills its record.
fn full_ring(fault: Fault, checks_room: bool) {
    explore(Some(3), move || {
        let bells = Bells::new(2);
        let log = log_with(fault, &bells);
        // Not dropped when loom reports a defect: a second panic would abort.
        let mut reader = ManuallyDrop::new(log.attach(READER as u64, Audience::File).unwrap());
        let mut writer = log.writer(0);
        let other = bells.clone();
        let thread = thread::spawn(move || {
            for index in 0..2_u8 {
                while checks_room && writer.log().wait_for_room(40, 1) == Room::Waiting {
                    other.wait(1);
                }
                append(&mut writer, 0, &[index; 40]);
                writer.notify();
            }
        });
        let mut all = Vec::new();
        while all.len() < 81 {
            read(&mut reader, &mut all);
            if all.len() < 81 && reader.prepare_sleep() {
                bells.wait(READER);
                reader.awake();
            }
        }
        thread.join().unwrap();
        drop(ManuallyDrop::into_inner(reader));
        assert_eq!(all, [b"s".as_slice(), &[0; 40], &[1; 40]].concat());
    });
}

#[test]
fn a_full_ring_delays_writers_until_it_is_read() {
    full_ring(Fault::None, true);
}

#[test]
fn a_writer_that_holds_latches_never_waits() {
    full_ring(Fault::None, false);
}

#[test]
#[should_panic]
fn overwritten_bytes_are_found() {
    full_ring(Fault::RingOverrun, false);
}
