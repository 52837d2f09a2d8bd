//! The changes on which replies depend: those of the slots that a command or a walk has read, or all.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use base::{DbIndex, Lsn, Slot};
use collections::{ExpiryChange, NewValue};
use keyspace::{ChangedKey, DatabaseWalk, Key, Keyspace, Latched, Latching, ScanPosition, WantedEvents};
use sync::Mode;
use sync::write_log::{Audience, LogReader, WriteLog};

const DB: DbIndex = DbIndex(0);

/// Two threads, of which the second notes what it reads, and the reader for which the log is on.
fn threads() -> (Latching<'static>, Latching<'static>, LogReader) {
    let log = Arc::new(WriteLog::new(Lsn(0), 1 << 16, 2, |_| ()));
    let keyspace = Keyspace::new(4, [1, 2, 3, 4], |_| ()).logged_to(Arc::clone(&log));
    let keyspace: &'static Keyspace = Box::leak(Box::new(keyspace));
    let reader = log.attach(0, Audience::File).unwrap();
    let [mut writer, mut other] = [0, 1].map(|thread| Latching::new(keyspace, thread, 1));
    assert!(writer.join_log());
    other.note_reads(true);
    (writer, other, reader)
}

/// Sets a key, and returns the end of its record and its slot.
fn set(writer: &mut Latching<'static>, name: &[u8]) -> (Lsn, Slot) {
    let key = Key::new(writer.hasher(), name, DB);
    writer.latch(key.slot, Mode::Write).unwrap();
    writer.set(key, NewValue::Bytes(b"v"), ExpiryChange::Clear);
    writer.record_effect(DB, [&b"SET"[..], name, b"v"].into_iter());
    writer.effects.end_command();
    writer.release();
    (writer.take_reply_lsn(), key.slot)
}

#[test]
fn a_walk_depends_on_the_slots_that_it_visits() {
    let (mut writer, mut other, _reader) = threads();
    let (end, _) = set(&mut writer, b"a");
    assert!(end > Lsn(0));
    assert_eq!(other.take_reply_lsn(), Lsn(0));
    let mut count = 0;
    DatabaseWalk::new(&other, DB).scan(ScanPosition::START, |_, _| count += 1, || false);
    assert_eq!((count, other.take_reply_lsn()), (1, end));
    assert!(DatabaseWalk::new(&other, DB).with_random_entry(|_| ()).is_some());
    assert_eq!(other.take_reply_lsn(), end);
    other.note_all_changes();
    assert_eq!(other.take_reply_lsn(), end);
    // Nothing depends on reads unless replies wait.
    other.note_reads(false);
    DatabaseWalk::new(&other, DB).scan(ScanPosition::START, |_, _| (), || false);
    other.note_all_changes();
    assert_eq!(other.take_reply_lsn(), Lsn(0));
}

#[test]
fn a_reply_that_is_sent_under_the_latch_depends_on_earlier_changes() {
    let (mut writer, mut other, _reader) = threads();
    let (end, slot) = set(&mut writer, b"a");
    other.latch(slot, Mode::Write).unwrap();
    assert_eq!(other.reply_lsn(), Lsn(0));
    assert_eq!(other.shown_lsn(), end);
    other.release();
}

#[test]
fn what_another_holder_has_read_is_passed_on() {
    let (mut writer, mut other, _reader) = threads();
    let (end, slot) = set(&mut writer, b"a");
    let mut script = other.companion(7);
    other.exchange(&mut script);
    DatabaseWalk::new(&script, DB).scan(ScanPosition::START, |_, _| (), || false);
    assert_eq!(other.take_reply_lsn(), Lsn(0));
    other.exchange(&mut script);
    assert_eq!(other.take_reply_lsn(), end);
    assert!(other.latch(slot, Mode::Read).is_ok());
    other.release();
}

#[test]
fn a_paused_script_keeps_no_changed_keys_of_other_requests() {
    let (mut worker, _, _reader) = threads();
    worker.events.wanted = WantedEvents::default().with_every_change(true);
    let mut script = worker.companion(7);
    let change = |data: &mut Latched<'static>, name: &[u8], by: u64| {
        data.events.changed_keys.push(ChangedKey { key: name.into(), by });
    };
    let changed = |data: &Latched<'static>| -> Vec<u64> {
        data.events.changed_keys.iter().map(|changed| changed.by).collect()
    };
    change(&mut worker, b"before", 1);
    worker.exchange(&mut script);
    assert_eq!((changed(&worker), changed(&script)), (vec![1], vec![]));
    change(&mut script, b"within", 2);
    change(&mut worker, b"meanwhile", 3);
    worker.exchange(&mut script);
    assert_eq!((changed(&worker), changed(&script)), (vec![1, 3, 2], vec![]));
}
