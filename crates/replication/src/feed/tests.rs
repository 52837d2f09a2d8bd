//! The feed between a log and replicas: offsets, histories, and what is kept.

use sync::write_log::{Audience, LogWriter, Record, WriteLog};

use super::*;

struct Model {
    log: Arc<WriteLog>,
    writer: LogWriter,
    feed: Feed,
}

fn id(digit: u8) -> ReplicationId {
    ReplicationId::from_random([digit; 20])
}

impl Model {
    fn new() -> Self {
        let log = Arc::new(WriteLog::new(Lsn(1000), 1 << 10, 1, |_| {}));
        let feed = Feed::new(id(1), 100, |_| {});
        feed.begin(log.attach(0, Audience::Replicas).expect("the first reader"));
        Self { writer: log.writer(0), log, feed }
    }

    /// Appends bytes for an audience, without a text that selects a database. Returns their end.
    fn append(&mut self, audience: Audience, bytes: &[u8]) -> Lsn {
        let parts = [bytes];
        let record = Record::for_audience(&parts, audience);
        self.writer.append(&record).expect("the log is on").end
    }

    fn read(&self, cursor: &Cursor) -> Vec<u8> {
        let mut out = Vec::new();
        self.feed.read(cursor, u64::MAX, usize::MAX, &mut out).expect("it is not lost");
        out
    }
}

#[test]
fn replicas_receive_what_is_for_them() {
    let mut model = Model::new();
    let cursor = model.feed.attach_at_end();
    model.append(Audience::All, b"set");
    model.append(Audience::File, b"local");
    model.append(Audience::Replicas, b"ping");
    model.feed.request_move();
    assert_eq!(model.feed.end_offset(), 7);
    let mut out = Vec::new();
    assert_eq!(model.feed.read(&cursor, 2, 100, &mut out), Ok(2));
    assert_eq!(model.feed.read(&cursor, u64::MAX, 3, &mut out), Ok(3));
    assert_eq!((out.as_slice(), model.read(&cursor)), (b"setpi".as_slice(), b"ng".to_vec()));
    assert_eq!(model.log.end(), Lsn(1012));
}

#[test]
fn offsets_are_not_below_those_of_the_log() {
    let mut model = Model::new();
    let first = model.append(Audience::All, b"abc");
    assert_eq!(model.feed.offset_of(first), 3);
    let local = model.append(Audience::File, b"local");
    let second = model.append(Audience::All, b"de");
    let last = model.append(Audience::File, b"more");
    for (lsn, offset) in [(Lsn(0), 0), (Lsn(1000), 0), (first, 3), (local, 3), (second, 5), (last, 5)] {
        assert_eq!(model.feed.offset_of(lsn), offset, "{lsn:?}");
    }
    assert_eq!(model.feed.offset_of(Lsn(last.0 + 7)), 12, "not below what is still to come");
    assert_eq!(model.feed.offset_below(Lsn(last.0 + 7)), Some(5), "not above what there is");
    assert_eq!((model.feed.offset_below(first), model.feed.offset_below(local)), (Some(3), Some(3)));
    for (lsn, offset) in [(Lsn(1000), 0), (first, 3), (local, 3), (second, 5), (last, 5)] {
        assert_eq!(model.feed.position_of(lsn), Some((id(1), offset)), "{lsn:?}");
    }
    for lsn in [0, 999, last.0 + 7] {
        assert_eq!(model.feed.position_of(Lsn(lsn)), None, "{lsn}");
    }
    model.feed.reset(History::new(id(2)), 500);
    assert_eq!((model.feed.offset_of(first), model.feed.offset_below(first)), (500, None));
    assert_eq!(model.feed.position_of(first), None, "of another history");
    let third = model.append(Audience::All, b"xyz");
    assert_eq!(model.feed.position_of(third), Some((id(2), 503)));
    assert_eq!((model.feed.offset_of(third), model.feed.end_offset()), (503, 503));
}

#[test]
fn a_replica_continues_within_the_window_of_its_history() {
    let mut model = Model::new();
    model.append(Audience::All, &[b'x'; 300]);
    let resume = |feed: &Feed, id, offset| matches!(feed.resume(id, offset), Resumption::Partial(..));
    assert_eq!(model.feed.figures().kept_start, 0, "it is not moved yet");
    assert!(resume(&model.feed, id(1), 200) && resume(&model.feed, id(1), 300));
    assert!(!resume(&model.feed, id(1), 199) && !resume(&model.feed, id(1), 301));
    assert!(!resume(&model.feed, id(2), 250));
    model.feed.shift_id(id(2));
    model.append(Audience::All, b"new");
    assert!(resume(&model.feed, id(2), 303) && resume(&model.feed, id(1), 300));
    assert!(!resume(&model.feed, id(1), 301), "the former history has no such byte");
    model.feed.end(id(3));
    assert!(!resume(&model.feed, id(3), 303), "changes are not counted");
    assert!(!model.log.is_on());
}

#[test]
fn what_a_replica_needs_is_kept_up_to_a_limit() {
    let mut model = Model::new();
    model.feed.configure(100, 500);
    let cursor = model.feed.attach_at_end();
    for _ in 0..5 {
        model.append(Audience::All, &[b'x'; 100]);
        model.feed.request_move();
    }
    assert_eq!((cursor.offset(), model.feed.figures().kept_start), (Ok(0), 0));
    model.append(Audience::All, b"y");
    model.feed.request_move();
    assert_eq!(cursor.offset(), Err(Lost));
    assert_eq!(model.feed.read(&cursor, u64::MAX, 1, &mut Vec::new()), Err(Lost));
    let later = model.feed.attach_at_end();
    model.append(Audience::All, b"z");
    assert_eq!(model.read(&later), b"", "nothing was moved");
    model.feed.move_now();
    assert_eq!(model.read(&later), b"z");
    model.feed.detach(&later);
    assert_eq!(model.feed.figures().kept_start, 402);
}
