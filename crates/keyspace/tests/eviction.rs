//! Eviction: which keys each policy evicts, and that sampled keys are kept if they may not be evicted any more.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use base::{DbIndex, Millis};
use collections::{ExpiryChange, NewValue};
use keyspace::{
    Aging, EVICTION_GROUP_SIZE_MAX, EvictionOrder, EvictionPolicy, Evictor, Key, Keyspace, Latching,
    WantedEvents,
};
use sync::Mode;

const NOW_MS: i64 = 1_700_000_000_000;

fn keyspace() -> Keyspace {
    Keyspace::new(16, [1, 2, 3, 4], |_| {})
}

fn latching(keyspace: &Keyspace) -> Latching<'_> {
    let mut latching = Latching::new(keyspace, 0, 42);
    latching.mode.now = Millis(NOW_MS);
    latching.mode.aging = Aging::lru(NOW_MS);
    latching
}

fn with_key<'k, R>(
    latching: &mut Latching<'k>,
    db: u16,
    name: &str,
    change: impl FnOnce(&mut Latching<'k>, Key<'_>) -> R,
) -> R {
    let key = Key::new(latching.keyspace().hasher(), name.as_bytes(), DbIndex(db));
    latching.latch(key.slot, Mode::Write).expect("no other session holds the latch");
    let result = change(latching, key);
    latching.release();
    result
}

fn set(latching: &mut Latching<'_>, db: u16, name: &str, expiry: ExpiryChange) {
    with_key(latching, db, name, |latching, key| latching.set(key, NewValue::Bytes(b"value"), expiry));
}

fn policy(volatile_only: bool, order: EvictionOrder) -> EvictionPolicy {
    EvictionPolicy { volatile_only, order }
}

/// Evicts up to this many keys in one call. Returns their databases and names.
fn evict(
    evictor: &mut Evictor,
    latching: &mut Latching<'_>,
    policy: EvictionPolicy,
    count: usize,
) -> Vec<(u16, String)> {
    let mut evicted = Vec::new();
    let returned = evictor.evict(latching, policy, 5, count, |victim| {
        let name = String::from_utf8(victim.removed.entry().key().to_vec()).expect("names are text");
        evicted.push((victim.db.0, name));
        ControlFlow::Continue(())
    });
    assert_eq!(returned, evicted.len());
    evicted
}

/// Evicts one key as the first of a group: the candidates for the others are kept.
fn evict_first(evictor: &mut Evictor, latching: &mut Latching<'_>, policy: EvictionPolicy) -> String {
    let mut name = None;
    evictor.evict(latching, policy, 5, EVICTION_GROUP_SIZE_MAX, |victim| {
        name = Some(String::from_utf8(victim.removed.entry().key().to_vec()).expect("names are text"));
        ControlFlow::Break(())
    });
    name.expect("there are keys to evict")
}

/// The policies that keep candidates from one call to the next.
const POOLED: [EvictionOrder; 2] = [EvictionOrder::Aging, EvictionOrder::Ttl];

#[test]
fn persisted_candidates_are_not_evicted() {
    for (order, is_lfu) in [(POOLED[0], false), (POOLED[0], true), (POOLED[1], false)] {
        let keyspace = keyspace();
        let mut latching = latching(&keyspace);
        if is_lfu {
            latching.mode.aging = Aging::lfu(NOW_MS, 10, 1);
        }
        let names: Vec<_> = (0..40).map(|number| format!("key:{number}")).collect();
        for (at, name) in (1..).zip(&names) {
            set(&mut latching, 0, name, ExpiryChange::At(NOW_MS + 1_000_000 * at));
        }
        let mut evictor = Evictor::default();
        let policy = policy(true, order);
        let gone = evict(&mut evictor, &mut latching, policy, EVICTION_GROUP_SIZE_MAX);
        assert_eq!(gone.len(), EVICTION_GROUP_SIZE_MAX);
        for name in &names {
            with_key(&mut latching, 0, name, |latching, key| latching.set_expiry(key, None));
        }
        assert_eq!(evict(&mut evictor, &mut latching, policy, 1), []);
        assert_eq!(keyspace.counters.population(0).keys as usize, names.len() - gone.len());
    }
}

#[test]
fn candidates_accessed_since_sampling_lose_their_priority() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    for number in 0..30 {
        set(&mut latching, 0, &format!("key:{number}"), ExpiryChange::Clear);
    }
    let mut evictor = Evictor::default();
    let policy = policy(false, EvictionOrder::Aging);
    latching.mode.aging = Aging::lru(NOW_MS + 100_000);
    let first = evict_first(&mut evictor, &mut latching, policy);
    // The remaining keys are in the pool, and all but two are accessed now.
    for number in 0..30 {
        let name = format!("key:{number}");
        if name != "key:7" && name != "key:8" {
            with_key(&mut latching, 0, &name, |latching, key| latching.touch_key(key));
        }
    }
    let old = ["key:7", "key:8"].into_iter().filter(|name| first != *name).count();
    for _ in 0..old {
        let evicted = evict(&mut evictor, &mut latching, policy, 1);
        assert!(["key:7", "key:8"].contains(&evicted[0].1.as_str()), "{evicted:?}");
    }
}

#[test]
fn the_least_recently_modified_key_is_evicted_whatever_was_read() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    latching.events.wanted = WantedEvents::default().with_change_times(true);
    let names: Vec<_> = (0..40).map(|number| format!("key:{number}")).collect();
    for (seconds, name) in (0..).zip(&names) {
        latching.mode.aging = Aging::lrm(NOW_MS + seconds * 1000);
        set(&mut latching, 0, name, ExpiryChange::Clear);
    }
    latching.mode.aging = Aging::lrm(NOW_MS + 1_000_000);
    // Read, changed in place, and edited without a change: only the second one is younger now.
    with_key(&mut latching, 0, &names[0], |latching, key| latching.touch_key(key));
    with_key(&mut latching, 0, &names[1], |latching, key| latching.note_change(key));
    with_key(&mut latching, 0, &names[2], |latching, key| latching.edit(key, |_| ()));
    let policy = policy(false, EvictionOrder::Aging);
    let mut idle = |name: &String| {
        with_key(&mut latching, 0, name, |latching, key| {
            latching.peek(key).map(|entry| latching.mode.aging.idle_seconds(entry.access()))
        })
    };
    assert_eq!([&names[0], &names[1], &names[2]].map(&mut idle), [Some(1000), Some(0), Some(998)]);
    let gone = evict(&mut Evictor::default(), &mut latching, policy, 5);
    assert!(gone.iter().all(|(_, name)| *name != names[1]), "{gone:?}");
}

#[test]
fn postponed_candidates_are_ordered_by_their_new_expiry() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    for number in 0..20 {
        set(&mut latching, 0, &format!("key:{number}"), ExpiryChange::At(NOW_MS + 1_000 * (number + 1)));
    }
    let mut evictor = Evictor::default();
    let policy = policy(true, EvictionOrder::Ttl);
    for _ in 0..8 {
        evict(&mut evictor, &mut latching, policy, 1);
    }
    let left: Vec<_> =
        (0..20).filter(|number| is_there(&mut latching, 0, &format!("key:{number}"))).collect();
    for number in &left[..left.len() - 1] {
        let name = format!("key:{number}");
        with_key(&mut latching, 0, &name, |latching, key| latching.set_expiry(key, Some(NOW_MS + 1_000_000)));
    }
    let last = format!("key:{}", left[left.len() - 1]);
    let evicted: Vec<_> = (0..8).flat_map(|_| evict(&mut evictor, &mut latching, policy, 1)).collect();
    assert_eq!(evicted.iter().filter(|(_, name)| *name == last).count(), 1, "{evicted:?}");
}

fn is_there(latching: &mut Latching<'_>, db: u16, name: &str) -> bool {
    with_key(latching, db, name, |latching, key| latching.peek(key).is_some())
}

#[test]
fn deleted_candidates_cause_no_event() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    latching.events.wanted = WantedEvents::default().with_every_change(true);
    let names: Vec<_> = (0..12).map(|number| format!("key:{number}")).collect();
    names.iter().for_each(|name| set(&mut latching, 3, name, ExpiryChange::Clear));
    let mut evictor = Evictor::default();
    let policy = policy(false, EvictionOrder::Aging);
    evict_first(&mut evictor, &mut latching, policy);
    for name in &names {
        with_key(&mut latching, 3, name, |latching, key| latching.remove(key));
    }
    latching.events.changed_keys.clear();
    assert_eq!(evict(&mut evictor, &mut latching, policy, 1), []);
    assert_eq!(latching.events.changed_keys.len(), 0);
    assert_eq!(latching.counters.evicted_keys.value(), 1);
}

#[test]
fn every_policy_evicts_exactly_the_keys_it_may() {
    let orders = [EvictionOrder::Aging, EvictionOrder::Random, EvictionOrder::Ttl];
    for (volatile_only, order) in orders.map(|order| [(false, order), (true, order)]).concat() {
        let keyspace = keyspace();
        let mut latching = latching(&keyspace);
        for number in 0..600 {
            let expiry =
                if number % 3 == 0 { ExpiryChange::At(NOW_MS + 1_000 + number) } else { ExpiryChange::Clear };
            set(&mut latching, (number % 10) as u16, &format!("key:{number}"), expiry);
        }
        let mut evictor = Evictor::default();
        let mut seen = HashSet::new();
        loop {
            let evicted = evict(&mut evictor, &mut latching, policy(volatile_only, order), 16);
            if evicted.is_empty() {
                break;
            }
            assert!(evicted.len() <= EVICTION_GROUP_SIZE_MAX);
            for victim in evicted {
                assert!(seen.insert(victim), "evicted twice");
            }
        }
        assert_eq!(seen.len(), if volatile_only { 200 } else { 600 }, "{volatile_only} {order:?}");
        assert_eq!(keyspace.key_count(), 600 - seen.len() as u64);
        assert_eq!(latching.counters.evicted_keys.value(), seen.len() as u64);
    }
}

#[test]
fn longest_idle_or_earliest_expiring_keys_are_evicted_first() {
    for order in POOLED {
        let keyspace = keyspace();
        let mut latching = latching(&keyspace);
        for number in 0..2000_i64 {
            latching.mode.aging = Aging::lru(NOW_MS + 1_000 * number);
            set(
                &mut latching,
                0,
                &format!("{number}"),
                ExpiryChange::At(NOW_MS + 10_000_000 + 1_000 * number),
            );
        }
        latching.mode.aging = Aging::lru(NOW_MS + 3_000_000);
        let mut evictor = Evictor::default();
        let mut evicted = Vec::new();
        while evicted.len() < 500 {
            evicted.extend(evict(&mut evictor, &mut latching, policy(true, order), 16));
        }
        let among_the_oldest =
            evicted.iter().filter(|(_, name)| name.parse::<i64>().is_ok_and(|number| number < 1000)).count();
        // Of five sampled keys, one is evicted: seldom one of the younger half.
        assert!(among_the_oldest >= evicted.len() * 95 / 100, "{among_the_oldest} of {}", evicted.len());
    }
}

#[test]
fn eviction_is_uniform_over_slots_and_databases() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    let mut evictor = Evictor::default();
    let mut counts: HashMap<(u16, String), u32> = HashMap::new();
    // A few keys in 16,384 slots, four times as many in one database as in the other.
    let fill = |latching: &mut Latching<'_>| {
        for number in 0..50 {
            let db = if number % 5 == 0 { 7 } else { 0 };
            set(latching, db, &format!("key:{number}"), ExpiryChange::Clear);
        }
    };
    for _ in 0..400 {
        fill(&mut latching);
        for victim in evict(&mut evictor, &mut latching, policy(false, EvictionOrder::Random), 10) {
            *counts.entry(victim).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), 50);
    // A group that sampled a key twice is smaller.
    let mean = counts.values().sum::<u32>() / 50;
    assert!(mean > 60 && counts.values().all(|count| (mean / 2..2 * mean).contains(count)), "{counts:?}");
}

#[test]
fn a_policy_change_discards_the_candidates() {
    let keyspace = keyspace();
    let mut latching = latching(&keyspace);
    for number in 0..20 {
        let expiry = if number == 0 { ExpiryChange::At(NOW_MS + 1) } else { ExpiryChange::Clear };
        set(&mut latching, 0, &format!("key:{number}"), expiry);
    }
    let mut evictor = Evictor::default();
    let first = evict(&mut evictor, &mut latching, policy(false, EvictionOrder::Random), 1);
    let second = evict(&mut evictor, &mut latching, policy(true, EvictionOrder::Aging), 16);
    let volatile = vec![(0, "key:0".to_owned())];
    assert_eq!(if first == volatile { first } else { second }, volatile);
}
