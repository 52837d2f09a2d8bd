//! Memory replaced by tables is freed while one command continues to replace it.
#![allow(clippy::unwrap_used)]

use base::DbIndex;
use collections::{ExpiryChange, NewValue};
use keyspace::{Key, Keyspace, Latching};
use sync::Mode;

#[test]
fn long_commands_reclaim_replaced_values() {
    const KEY_COUNT: u64 = 600_000;
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 1);
    assert!(latching.join_epochs());
    let first_pass = latching.pass();
    let mut waiting_max = 0;
    for number in 0..KEY_COUNT {
        let name = number.to_le_bytes();
        let key = Key::new(keyspace.hasher(), &name, DbIndex(0));
        latching.latch(key.slot, Mode::Write).unwrap();
        latching.set(key, NewValue::Int(1), ExpiryChange::Clear);
        latching.release();
        waiting_max = waiting_max.max(keyspace.retired_bytes());
    }
    let pass_count = latching.pass() - first_pass;
    assert!(pass_count > 4, "{pass_count}");
    assert!(waiting_max < 4 << 20, "{waiting_max}");
}

#[test]
fn a_flush_frees_segments_once_no_reader_can_hold_them() {
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 1);
    assert!(latching.join_epochs());
    for is_quiescent in [false, true] {
        for number in 0..1000_u64 {
            let name = number.to_le_bytes();
            let key = Key::new(keyspace.hasher(), &name, DbIndex(0));
            latching.latch(key.slot, Mode::Write).unwrap();
            latching.set(key, NewValue::Int(1), ExpiryChange::Clear);
            latching.release();
        }
        latching.latch_all(Mode::Write).unwrap();
        let cleared = latching.clear(None);
        latching.release();
        if is_quiescent {
            latching.quiescent();
        }
        cleared.free();
        assert_eq!(keyspace.retired_bytes() > 0, !is_quiescent);
        latching.offline();
        let mut scratch = Vec::new();
        while keyspace.retired_bytes() > 0 {
            keyspace.reclaim(&mut scratch);
        }
        latching.online();
        assert_eq!(keyspace.used_bytes(), 0);
    }
}

#[test]
fn cleared_data_count_until_they_are_freed() {
    let keyspace = Keyspace::new(2, [1, 2, 3, 4], |_| {});
    let mut latching = Latching::new(&keyspace, 0, 1);
    assert!(latching.join_epochs());
    let fill = |latching: &mut Latching<'_>, db: u16, count: u64, size: usize| {
        for number in 0..count {
            let name = number.to_le_bytes();
            let key = Key::new(keyspace.hasher(), &name, DbIndex(db));
            latching.latch(key.slot, Mode::Write).unwrap();
            latching.set(key, NewValue::Bytes(&vec![b'x'; size]), ExpiryChange::Clear);
            latching.release();
        }
    };
    fill(&mut latching, 0, 3000, 100);
    fill(&mut latching, 1, 1000, 100);
    let clear = |latching: &mut Latching<'_>, db| {
        latching.latch_all(Mode::Write).unwrap();
        let cleared = latching.clear(db);
        latching.release();
        cleared
    };
    // How much of the memory is that of one database is unknown.
    let first = clear(&mut latching, Some(DbIndex(0)));
    assert_eq!(keyspace.cleared_bytes(), 0);
    // All of the rest.
    let second = clear(&mut latching, None);
    let unretired = keyspace.used_bytes() - keyspace.retired_bytes();
    assert!(keyspace.cleared_bytes().abs_diff(unretired) < 1000, "{} {unretired}", keyspace.cleared_bytes());
    // What is left counts no more than what is in use.
    first.free();
    assert!(keyspace.cleared_bytes() <= keyspace.used_bytes());
    drop(second);
    assert_eq!(keyspace.cleared_bytes(), 0);
}
