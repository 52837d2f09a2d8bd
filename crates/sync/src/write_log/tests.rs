//! The log on one thread: order, databases, wrap-around, the limits of the ring, tokens.

#![allow(clippy::unwrap_used)]

use super::{Appended, Audience, LogReader, LogWake, LogWriter, Record, Room, WriteLog};
use base::{DbIndex, Lsn};
use std::sync::{Arc, Mutex};

const CAPACITY: usize = 64;
const ALL: Lsn = Lsn(u64::MAX);

struct Model {
    log: Arc<WriteLog>,
    woken: Arc<Mutex<Vec<LogWake>>>,
}

impl Model {
    fn starting_at(start: u64) -> Self {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let calls = Arc::clone(&woken);
        let wake = move |woken| calls.lock().unwrap().push(woken);
        Model { log: Arc::new(WriteLog::new(Lsn(start), CAPACITY, 2, wake)), woken }
    }

    fn woken(&self) -> Vec<LogWake> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }
}

fn append(writer: &mut LogWriter, database: Option<u16>, bytes: &[u8]) -> Option<(u64, u64)> {
    let (database, parts) = (database.map(DbIndex), [bytes]);
    let record = Record { database, leaves: None, select: b"<db>", ..Record::new(&parts) };
    writer.append(&record).map(|Appended { start, end }| (start.0, end.0))
}

fn read(reader: &mut LogReader) -> Vec<u8> {
    read_to(reader, ALL)
}

fn read_to(reader: &mut LogReader, limit: Lsn) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let chunk = reader.bytes(limit);
        let size = chunk.len();
        if chunk.is_empty() {
            return all;
        }
        all.extend(chunk.pieces.concat());
        reader.advance(size);
    }
}

#[test]
fn a_lane_is_free_after_its_writer_is_dropped() {
    let log = Arc::new(WriteLog::new(Lsn(0), 64, 2, |_| {}));
    let (first, second) = (log.any_writer(), log.any_writer());
    assert!(first.is_some() && second.is_some() && log.any_writer().is_none());
    drop(first);
    assert!(log.any_writer().is_some());
}

#[test]
fn selects_a_database_only_where_it_changes() {
    let model = Model::starting_at(100);
    let mut writer = model.log.writer(0);
    assert_eq!(append(&mut writer, Some(0), b"lost"), None, "the log is off");
    assert_eq!((model.log.end(), model.log.is_on()), (Lsn(100), false));
    let mut reader = model.log.attach(1, Audience::File).unwrap();
    assert_eq!(append(&mut writer, Some(0), b"a"), Some((100, 105)));
    assert_eq!(append(&mut writer, Some(0), b"b"), Some((105, 106)));
    assert_eq!(append(&mut writer, None, b"c"), Some((106, 107)));
    assert_eq!(append(&mut writer, Some(0), b"d"), Some((107, 108)));
    assert_eq!(append(&mut writer, Some(7), b"e"), Some((108, 113)));
    let across = Record {
        database: Some(DbIndex(7)),
        leaves: Some(DbIndex(0)),
        select: b"<db>",
        ..Record::new(&[b"f", b"", b"g"])
    };
    assert!(writer.append(&across).is_some());
    assert_eq!(append(&mut writer, Some(0), b"h"), Some((115, 116)));
    model.log.forget_database();
    assert_eq!(append(&mut writer, None, b"i"), Some((116, 117)));
    assert_eq!(append(&mut writer, Some(0), b"j"), Some((117, 122)));
    assert_eq!(read(&mut reader), b"<db>abcd<db>efghi<db>j");
    assert_eq!((reader.lsn(), model.log.end(), model.log.complete_end()), (Lsn(122), Lsn(122), Lsn(122)));
}

#[test]
fn wraps_around_the_ring_and_the_word() {
    // The 48 bits of the word overflow soon after the start.
    for start in [0, (1 << 48) - 100, (5 << 48) - 1] {
        let model = Model::starting_at(start);
        let mut writer = model.log.writer(1);
        let mut reader = model.log.attach(1, Audience::File).unwrap();
        let mut lsn = start;
        for round in 0..if cfg!(miri) { 20 } else { 200_u64 } {
            let bytes: Vec<u8> = (0..round % 37).map(|byte| (byte + round) as u8).collect();
            assert_eq!(append(&mut writer, None, &bytes), Some((lsn, lsn + bytes.len() as u64)));
            lsn += bytes.len() as u64;
            assert_eq!(read(&mut reader), bytes);
            assert_eq!(reader.lsn(), Lsn(lsn));
        }
    }
}

#[test]
fn spilled_records_keep_their_order() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let mut reader = model.log.attach(1, Audience::File).unwrap();
    let mut expected = Vec::new();
    // Nothing is read meanwhile. 200 bytes are more than the ring.
    for size in [40, 20, 200, 4, 1, 64, 65, 3] {
        let bytes: Vec<u8> = (0..size).map(|byte| byte ^ size).collect();
        append(&mut writer, None, &bytes);
        expected.extend(bytes);
    }
    assert!(!model.log.has_room(0));
    for limit in [1, 41, 60, 61, 259, 260, 263, 300] {
        let from = reader.lsn().0 as usize;
        assert_eq!(read_to(&mut reader, Lsn(limit)), expected[from..limit as usize], "up to {limit}");
    }
    let from = reader.lsn().0 as usize;
    assert_eq!(read(&mut reader), expected[from..]);
    assert!(model.log.has_room(CAPACITY / 2) && model.log.has_room(usize::MAX >> 1));
    append(&mut writer, None, b"back in the ring");
    assert_eq!(read(&mut reader), b"back in the ring");
}

#[test]
fn passed_bytes_can_be_read_again_until_they_are_released() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let mut reader = model.log.attach(1, Audience::File).unwrap();
    let pass = |reader: &mut LogReader| {
        let mut all = Vec::new();
        loop {
            let chunk = reader.bytes(ALL);
            let size = chunk.len();
            if chunk.is_empty() {
                return all;
            }
            all.extend(chunk.pieces.concat());
            reader.pass(size);
        }
    };
    // The second record does not fit into the ring.
    append(&mut writer, None, &[1; 40]);
    append(&mut writer, None, &[2; 100]);
    append(&mut writer, None, &[3; 4]);
    let all = [vec![1; 40], vec![2; 100], vec![3; 4]].concat();
    assert_eq!(pass(&mut reader), all);
    assert!(!model.log.has_room(0), "it is kept");
    for at in [0, 39, 40, 90, 141, 144] {
        reader.return_to(Lsn(at));
        assert_eq!(pass(&mut reader), all[at as usize..], "from {at}");
    }
    reader.release(Lsn(60));
    assert_eq!((reader.kept(), reader.lsn()), (Lsn(60), Lsn(144)));
    reader.return_to(Lsn(60));
    assert_eq!(pass(&mut reader), all[60..]);
    reader.release(Lsn(10));
    assert_eq!(reader.kept(), Lsn(60), "what was released stays so");
    reader.release(reader.lsn());
    assert!(model.log.has_room(CAPACITY / 2));
    append(&mut writer, None, b"next");
    assert_eq!(pass(&mut reader), b"next");
}

/// Appends a record for some readers; `select_audience` holds for the text that selects the database 5.
fn append_for(writer: &mut LogWriter, audience: Audience, select_audience: Audience, bytes: &[u8]) {
    let database = (select_audience != audience).then_some(DbIndex(5));
    let record = Record {
        database,
        leaves: database,
        select: b"<db>",
        parts: &[bytes],
        audience,
        select_audience,
        partial: &[],
    };
    writer.append_unlatched(&record).unwrap();
}

#[test]
fn readers_pass_over_what_is_not_for_them() {
    let model = Model::starting_at(100);
    let mut writer = model.log.writer(0);
    let mut file = model.log.attach(1, Audience::File).unwrap();
    let mut replicas = model.log.attach(2, Audience::Replicas).unwrap();
    append(&mut writer, None, b"a");
    append_for(&mut writer, Audience::Replicas, Audience::Replicas, b"ping");
    append_for(&mut writer, Audience::Replicas, Audience::Replicas, b"pong");
    append_for(&mut writer, Audience::File, Audience::File, b"local");
    append_for(&mut writer, Audience::All, Audience::File, b"b");
    append_for(&mut writer, Audience::Replicas, Audience::Replicas, b"x");
    assert_eq!(read(&mut file), b"alocal<db>b");
    assert_eq!(read(&mut replicas), b"apingpongbx");
    assert_eq!((file.lsn(), replicas.lsn()), (model.log.end(), model.log.end()));
    assert_eq!(file.kept(), file.lsn(), "what is passed over is released");
    // A record that only one reader sees leaves no database selected for the others.
    append(&mut writer, Some(5), b"c");
    let select = Record {
        database: Some(DbIndex(6)),
        leaves: Some(DbIndex(6)),
        select: b"<db>",
        parts: &[b"d"],
        audience: Audience::File,
        select_audience: Audience::File,
        partial: &[],
    };
    writer.append(&select).unwrap();
    append(&mut writer, Some(6), b"e");
    assert_eq!(read(&mut file), b"c<db>d<db>e");
    assert_eq!(read(&mut replicas), b"c<db>e");
    assert!(file.prepare_sleep());
    file.awake();
    append_for(&mut writer, Audience::Replicas, Audience::Replicas, b"more");
    assert_eq!(read(&mut file), b"");
    assert!(file.prepare_sleep(), "nothing is left to read");
}

#[test]
fn bytes_passed_over_stay_while_earlier_ones_are_kept() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let mut file = model.log.attach(1, Audience::File).unwrap();
    append(&mut writer, None, b"a");
    assert_eq!(file.bytes(ALL).pieces[0], b"a");
    file.pass(1);
    append_for(&mut writer, Audience::Replicas, Audience::Replicas, b"ping");
    append(&mut writer, None, b"b");
    assert_eq!((file.bytes(Lsn(3)).len(), file.lsn()), (0, Lsn(3)), "up to the limit");
    assert_eq!(read(&mut file), b"b");
    let mut other = model.log.attach(2, Audience::File).unwrap();
    append(&mut writer, None, b"c");
    other.return_to(Lsn(6));
    assert_eq!((read(&mut other), read(&mut file)), (b"c".to_vec(), b"c".to_vec()));
}

#[test]
fn writers_that_wait_are_woken_without_room_to_check_again() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let _reader = model.log.attach(1, Audience::File).unwrap();
    append(&mut writer, None, &[1; CAPACITY]);
    assert_eq!(
        (model.log.wait_for_room(1, 5), model.log.wait_for_room(1, 6)),
        (Room::Waiting, Room::Waiting)
    );
    model.log.wake_writers();
    assert_eq!(model.woken(), [LogWake::Writer(5), LogWake::Writer(6)]);
    assert!(!model.log.cancel_wait(5), "no longer queued");
}

#[test]
fn keeps_bytes_for_the_slowest_reader() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let mut fast = model.log.attach(1, Audience::File).unwrap();
    append(&mut writer, None, &[1; 50]);
    assert_eq!(read(&mut fast).len(), 50);
    let mut slow = model.log.attach(2, Audience::File).unwrap();
    append(&mut writer, None, &[2; 40]);
    assert_eq!(read(&mut fast), [2; 40]);
    assert!(!model.log.has_room(25) && model.log.has_room(24));
    assert!(model.log.attach_at(Lsn(49), 3, Audience::File).is_none(), "no longer there");
    assert!(model.log.attach_at(Lsn(91), 3, Audience::File).is_none(), "not written yet");
    let mut again = model.log.attach_at(Lsn(80), 3, Audience::File).unwrap();
    append(&mut writer, None, &[3; 30]);
    assert_eq!(read(&mut slow), [[2; 40].as_slice(), &[3; 30]].concat());
    assert_eq!(read(&mut again), [[2; 10].as_slice(), &[3; 30]].concat());
    drop((fast, again, slow));
    assert!(!model.log.is_on() && model.log.has_room(1000));
    let mut later = model.log.attach(4, Audience::File).unwrap();
    assert_eq!(append(&mut writer, Some(3), b"x"), Some((120, 125)), "the database is selected again");
    assert_eq!(read(&mut later), b"<db>x");
}

#[test]
fn waiting_writers_are_woken_once_half_is_free() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    assert_eq!(model.log.wait_for_room(1000, 7), Room::Now, "the log is off");
    let mut reader = model.log.attach(1, Audience::File).unwrap();
    append(&mut writer, None, &[0; 60]);
    assert_eq!(model.log.wait_for_room(4, 7), Room::Now);
    assert_eq!(model.log.wait_for_room(5, 7), Room::Waiting);
    assert_eq!(model.log.wait_for_room(500, 8), Room::Waiting);
    assert_eq!(model.log.wait_for_room(50, 9), Room::Waiting);
    assert!(model.log.cancel_wait(8) && !model.log.cancel_wait(8));
    let _ = reader.bytes(ALL);
    reader.advance(27);
    assert_eq!(model.woken(), []);
    reader.advance(1);
    assert_eq!(model.woken(), [LogWake::Writer(7), LogWake::Writer(9)]);
    append(&mut writer, None, &[0; 30]);
    assert_eq!(model.log.wait_for_room(50, 9), Room::Waiting);
    drop(reader);
    assert_eq!(model.woken(), [LogWake::Writer(9)], "the log is off");
}

#[test]
fn a_sleeping_reader_is_woken_once() {
    let model = Model::starting_at(0);
    let mut writer = model.log.writer(0);
    let mut reader = model.log.attach(5, Audience::File).unwrap();
    let other = model.log.attach(6, Audience::File).unwrap();
    assert!(reader.prepare_sleep());
    writer.notify();
    assert_eq!(model.woken(), [], "nothing was appended");
    append(&mut writer, None, b"a");
    append(&mut writer, None, b"b");
    writer.notify();
    append(&mut writer, None, b"c");
    writer.notify();
    assert_eq!(model.woken(), [LogWake::Reader(5)]);
    reader.awake();
    assert!(!reader.prepare_sleep(), "bytes are unread");
    append(&mut writer, None, b"d");
    writer.notify();
    assert_eq!(model.woken(), []);
    assert_eq!((read(&mut reader), other.lsn()), (b"abcd".to_vec(), Lsn(0)));
}

#[test]
fn a_reader_stops_at_the_first_gap() {
    use super::{BUSY, IDLE};
    use crate::atomic::Ordering;
    let model = Model::starting_at(1000);
    let mut writer = model.log.writer(0);
    let _unused = model.log.writer(1);
    let mut reader = model.log.attach(1, Audience::File).unwrap();
    append(&mut writer, None, b"first");
    // The second lane plays a descheduled writer.
    let lane = &model.log.lanes[1].reserving;
    lane.store(BUSY | 1005, Ordering::Release);
    append(&mut writer, None, b"second");
    assert_eq!((read(&mut reader), model.log.complete_end()), (b"first".to_vec(), Lsn(1005)));
    assert!(reader.prepare_sleep(), "nothing can be read yet");
    lane.store(BUSY | 1002, Ordering::Release);
    assert_eq!(read(&mut reader), b"second", "an attempt below the position fails");
    lane.store(IDLE, Ordering::Release);
    assert_eq!(model.log.complete_end(), Lsn(1011));
}

#[test]
#[should_panic(expected = "lane 1 of the log has a writer already")]
fn a_lane_has_one_writer() {
    let model = Model::starting_at(0);
    drop(model.log.writer(1));
    let _first = model.log.writer(1);
    let _second = model.log.writer(1);
}

#[test]
#[should_panic(expected = "can't pass a gap")]
fn a_reader_cannot_advance_past_the_end() {
    let model = Model::starting_at(0);
    model.log.attach(1, Audience::File).unwrap().advance(1);
}

#[test]
fn the_reader_count_is_limited() {
    let model = Model::starting_at(0);
    let readers: Vec<_> =
        (0..super::READER_COUNT_MAX).map(|token| model.log.attach(token as u64, Audience::File)).collect();
    assert!(readers.iter().all(Option::is_some));
    assert!(
        model.log.attach(99, Audience::File).is_none()
            && model.log.attach_at(Lsn(0), 99, Audience::File).is_none()
    );
    drop(readers);
    assert!(model.log.attach(99, Audience::File).is_some());
}
