//! Keys deleted without a command: the expiry cycle and eviction; and the notifications of it.

use std::ops::ControlFlow;

use base::{DbIndex, Millis};
use collections::{ExpiryChange, NewValue};
use keyspace::{
    Aging, EvictionOrder, EvictionPolicy, Evictor, ExpiryCycle, Key, Keyspace, Latching, Watching,
};
use sync::Mode;

const NOW: i64 = 1_000_000;
const DB: DbIndex = DbIndex(1);

fn keyspace() -> Keyspace {
    Keyspace::new(2, [1, 2, 3, 4], |_| ())
}

fn latching(keyspace: &Keyspace, thread: usize) -> Latching<'_> {
    let mut latching = Latching::new(keyspace, thread, 1 + thread as u64);
    latching.mode.now = Millis(NOW);
    latching
}

/// Latches the key's slot while `act` runs.
fn held<R>(
    latching: &mut Latching<'_>,
    name: &str,
    db: DbIndex,
    act: impl FnOnce(&mut Latching<'_>, Key<'_>) -> R,
) -> R {
    let key = Key::new(latching.keyspace().hasher(), name.as_bytes(), db);
    latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
    let result = act(latching, key);
    latching.release();
    result
}

fn set(latching: &mut Latching<'_>, name: &str, db: DbIndex, expiry: Option<i64>) {
    let expiry = expiry.map_or(ExpiryChange::Clear, ExpiryChange::At);
    held(latching, name, db, |latching, key| latching.set(key, NewValue::Int(1), expiry));
}

/// Adds live and expired keys to both databases; returns how many are expired.
fn populate(latching: &mut Latching<'_>) -> usize {
    for number in 0..3000 {
        let expiry = match number % 3 {
            0 => None,
            1 => Some(NOW + 1 + number),
            _ => Some(NOW - number),
        };
        set(latching, &number.to_string(), DbIndex((number % 2) as u16), expiry);
    }
    1000
}

#[test]
fn expiry_cycles_delete_exactly_the_expired_keys() {
    let keyspace = keyspace();
    let due = populate(&mut latching(&keyspace, 0));
    let mut deleted = 0;
    for thread in 0..3 {
        let mut latching = latching(&keyspace, thread);
        ExpiryCycle::new(thread).run(
            &mut latching,
            3,
            || true,
            |expired| {
                assert!(expired.removed.entry().expiry().is_some_and(|at| at <= NOW));
                deleted += 1;
            },
        );
    }
    assert_eq!(deleted, due);
    let left: u64 = (0..2).map(|db| keyspace.counters.population(db).keys).sum();
    assert_eq!(left, 2000);
    assert_eq!(keyspace.counters.sum(|counters| &counters.expired_keys_active), due as u64);
}

#[test]
fn a_cycle_resumes_where_its_budget_ended() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace, 0);
    let due = populate(&mut latching);
    let mut cycle = ExpiryCycle::new(0);
    let mut deleted = 0;
    let mut round_count = 0;
    while deleted < due {
        cycle.run(&mut latching, 1, || false, |_| deleted += 1);
        round_count += 1;
        assert!(round_count < 1_000_000, "{deleted} of {due}");
    }
    assert!(round_count > 10);
}

#[test]
fn eviction_follows_its_policy() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace, 0);
    for number in 0..200 {
        let expiry = (number % 2 == 0).then_some(NOW + 1000 + number);
        set(&mut latching, &number.to_string(), DB, expiry);
    }
    let number_of = |evicted: keyspace::Evicted| -> i64 {
        let name = String::from_utf8_lossy(evicted.removed.entry().key()).into_owned();
        name.parse().expect("a number")
    };
    let evict = |latching: &mut Latching<'_>, volatile_only, order| {
        let policy = EvictionPolicy { volatile_only, order };
        let mut victim = None;
        Evictor::default().evict(latching, policy, 64, 1, |evicted| {
            victim = Some(number_of(evicted));
            ControlFlow::Continue(())
        });
        victim
    };
    for _ in 0..10 {
        let victim = evict(&mut latching, true, EvictionOrder::Ttl).expect("there are volatile ones");
        assert!(victim % 2 == 0 && victim < 100, "{victim} is not among the first to expire");
        let victim = evict(&mut latching, true, EvictionOrder::Random).expect("there are volatile ones");
        assert!(victim % 2 == 0);
    }
    latching.mode.aging = Aging::lru(NOW + 500_000);
    for number in 0..200 {
        if number > 50 {
            held(&mut latching, &number.to_string(), DB, |latching, key| latching.find(key).is_some());
        }
    }
    for _ in 0..10 {
        let victim = evict(&mut latching, false, EvictionOrder::Aging).expect("there are keys");
        assert!(victim <= 50, "{victim} was used of late");
    }
    while evict(&mut latching, true, EvictionOrder::Aging).is_some() {}
    assert_eq!(keyspace.counters.population(1).volatile, 0);
    while evict(&mut latching, false, EvictionOrder::Random).is_some() {}
    assert_eq!(keyspace.counters.population(1).keys, 0);
    assert_eq!(keyspace.counters.sum(|counters| &counters.evicted_keys), 200);
}

#[test]
fn deletions_set_the_dirty_flags_of_watchers() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace, 0);
    let watch = |latching: &mut Latching<'_>, name: &str| {
        let mut watching = Watching::default();
        held(latching, name, DB, |latching, key| latching.watch(key, &mut watching));
        watching
    };
    let has_changed = |latching: &mut Latching<'_>, name: &str, watching: &Watching| {
        held(latching, name, DB, |latching, _| latching.has_changed(watching))
    };

    set(&mut latching, "k", DB, Some(NOW + 10));
    let by_change = watch(&mut latching, "k");
    let elsewhere = watch(&mut latching, "other");
    held(&mut latching, "k", DbIndex(0), |latching, key| latching.note_change(key));
    assert!(!by_change.has_changed(), "that was another database");
    held(&mut latching, "k", DB, |latching, key| latching.note_change(key));
    assert!(by_change.has_changed() && !elsewhere.has_changed());

    let by_time = watch(&mut latching, "k");
    assert!(!has_changed(&mut latching, "k", &by_time));
    latching.mode.now.0 += 10;
    assert!(!by_time.has_changed() && has_changed(&mut latching, "k", &by_time));
    let of_the_expired = watch(&mut latching, "k");
    ExpiryCycle::new(0).run(&mut latching, 1, || true, drop);
    assert!(by_time.has_changed(), "the cycle deleted it");
    assert!(!has_changed(&mut latching, "k", &of_the_expired), "the key was absent already");
    set(&mut latching, "k", DB, None);
    held(&mut latching, "k", DB, |latching, key| latching.note_change(key));
    assert!(of_the_expired.has_changed());

    let by_eviction = watch(&mut latching, "k");
    let policy = EvictionPolicy { volatile_only: false, order: EvictionOrder::Random };
    assert_eq!(Evictor::default().evict(&mut latching, policy, 5, 1, |_| ControlFlow::Continue(())), 1);
    assert!(by_eviction.has_changed());
    assert!(!elsewhere.has_changed());
}

/// Sessions that end without an unwatch leave entries behind, which are swept when other sessions watch.
#[test]
fn stale_watches_are_swept() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace, 0);
    let mut staying = Watching::default();
    held(&mut latching, "k", DB, |latching, key| latching.watch(key, &mut staying));
    for _ in 0..1000 {
        let mut passing = Watching::default();
        held(&mut latching, "k", DB, |latching, key| latching.watch(key, &mut passing));
        if latching.random().below(2) == 0 {
            latching.unwatch(passing);
        }
    }
    assert!(!staying.has_changed());
    held(&mut latching, "k", DB, |latching, key| latching.note_change(key));
    assert!(staying.has_changed());
}

#[test]
fn a_flush_frees_all_memory() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace, 0);
    for db in [0, 1].map(DbIndex) {
        for number in 0..200 {
            let name = number.to_string();
            set(&mut latching, &name, db, None);
            // Some slots keep only a table that was used.
            if number % 2 == 0 {
                held(&mut latching, &name, db, |latching, key| drop(latching.remove(key)));
            }
        }
    }
    latching.latch_all(Mode::Write).expect("no other session holds a latch");
    let cleared = latching.clear(None);
    latching.release();
    assert_eq!(cleared.key_count, 200);
    cleared.free();
    let mut scratch = Vec::new();
    while keyspace.retired_bytes() > 0 {
        keyspace.reclaim(&mut scratch);
    }
    drop(scratch);
    assert_eq!(keyspace.used_bytes(), 0);
}
