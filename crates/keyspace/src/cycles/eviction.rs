//! Eviction: selects keys to delete when memory is used up, by Redis's policies. Candidates are sampled,
//! and the best of several rounds are kept in a small pool, so that a few samples approximate the true
//! order.
//!
//! Keys are evicted in groups: most of an eviction's time is cache misses. The slots, buckets and entries
//! that a group samples are prefetched together, and so are those of its victims. A round samples
//! neighbours of one slot.
//!
//! Invariants
//! 1. A candidate is not evicted by its sampled state alone: under its slot's write latch it is read again,
//!    and stays if it has no expiry any more (`volatile-*`) or was accessed since.
//! 2. All scores in the pool are of one policy and kind of access clock: a change of either empties the pool.

use std::iter::zip;
use std::mem;
use std::ops::ControlFlow;

use base::limits::{SLOT_BITS, SLOT_COUNT};
use base::{DbIndex, Slot};
use collections::{Entry, OwnedEntry, SampleRun, Table};
use sync::Mode;

use crate::latching::Latching;
use crate::prefetching::prefetcher::PrefetchedBucket;
use crate::store::aging::Aging;
use crate::store::events::EventClass;
use crate::store::key::{Key, slot_of_hash};
use crate::store::random::Random;

/// Largest number of keys evicted together.
pub const EVICTION_GROUP_SIZE_MAX: usize = 16;

/// Candidates kept from one group to the next, in addition to a group's own.
const POOL_SIZE: usize = 64;

/// Buckets of a slot searched for keys with an expiry.
const VOLATILE_BUCKET_COUNT: usize = 32;

/// Groups after which the victims of each database are counted again.
const GROUPS_BETWEEN_COUNTS: u32 = 16;

/// The number of attempts to sample a group if none of its candidates exists any more.
const ATTEMPT_COUNT_MAX: usize = 4;

/// Which keys may be evicted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Only keys with an expiry.
    pub volatile_only: bool,
    /// The order of eviction.
    pub order: EvictionOrder,
}

/// Which candidate is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// The least recently or least frequently used, by its [`Aging`].
    Aging,
    /// In random order.
    Random,
    /// The candidate that expires first.
    Ttl,
}

#[derive(Clone, Copy)]
struct Candidate {
    score: u64,
    db: DbIndex,
    /// The bits of the key's hash that determine its slot and its position in the table.
    hash: u64,
}

/// Selects victims. One for each thread.
#[derive(Default)]
pub struct Evictor {
    /// Ascending by score: the best victim last.
    pool: Vec<Candidate>,
    /// The policy and the access clock by which the candidates were scored.
    score_kind: Option<(EvictionPolicy, mem::Discriminant<Aging>)>,
    /// Databases with victims, each with the number of victims in it and in those before it.
    dbs: Vec<(DbIndex, u64)>,
    /// Groups until the victims are counted again.
    groups_left: u32,
}

/// A key that was evicted.
pub struct Evicted {
    /// The database it was in.
    pub db: DbIndex,
    /// Its entry; dropping it frees the memory.
    pub removed: OwnedEntry,
}

/// Where one round of sampling begins.
#[derive(Clone, Copy, Default)]
struct Round {
    db: DbIndex,
    slot: usize,
    run: SampleRun,
}

/// The outcome for a candidate.
enum CandidateOutcome {
    Evicted(Evicted),
    /// It exists, but its score is lower than when it was sampled.
    Younger(u64),
    /// It no longer exists or may not be evicted any more, or its slot is held.
    Missed,
}

impl Evictor {
    /// Removes keys by the policy, at most `count_max` and [`EVICTION_GROUP_SIZE_MAX`], until
    /// `each` breaks; samples `sample_count` keys for each. Returns the number of keys; 0 if there is no
    /// victim (or all possible victims are latched). Holds no latch before and after, nor while `each`
    /// runs.
    pub fn evict(
        &mut self,
        latching: &mut Latching<'_>,
        policy: EvictionPolicy,
        sample_count: usize,
        count_max: usize,
        mut each: impl FnMut(Evicted) -> ControlFlow<()>,
    ) -> usize {
        let score_kind = Some((policy, mem::discriminant(&latching.mode.aging)));
        if self.score_kind != score_kind {
            self.score_kind = score_kind;
            self.pool.clear();
            self.groups_left = 0;
        }
        // Under a random order neighbours do not differ.
        let sample_count = if policy.order == EvictionOrder::Random { 1 } else { sample_count.max(1) };
        for _ in 0..ATTEMPT_COUNT_MAX {
            let Some(victim_count) = self.victim_count(latching, policy) else { break };
            let wanted = count_max.clamp(1, EVICTION_GROUP_SIZE_MAX);
            let round_count = wanted.min((victim_count as usize).div_ceil(sample_count));
            self.sample(latching, policy, sample_count, round_count);
            let count = self.take_best(latching, policy, wanted, &mut each);
            if count > 0 {
                return count;
            }
            self.groups_left = 0;
        }
        self.pool.clear();
        0
    }

    /// The number of keys that may be evicted, by a recent count; `None`: there is none.
    fn victim_count(&mut self, latching: &Latching<'_>, policy: EvictionPolicy) -> Option<u64> {
        if self.groups_left == 0 {
            self.groups_left = GROUPS_BETWEEN_COUNTS;
            self.dbs.clear();
            let counters = &latching.keyspace().counters;
            let mut sum = 0;
            for db in 0..latching.keyspace().db_count() {
                let count =
                    if policy.volatile_only { counters.volatile_count(db) } else { counters.key_count(db) };
                if count > 0 {
                    sum += count;
                    self.dbs.push((DbIndex(db as u16), sum));
                }
            }
        }
        self.groups_left -= 1;
        self.dbs.last().map(|(_, sum)| *sum)
    }

    /// A random database, weighted by its number of victims.
    fn choose_db(&self, random: &Random) -> DbIndex {
        let [.., (last, sum)] = self.dbs[..] else { return DbIndex(0) };
        if self.dbs.len() == 1 {
            return last;
        }
        let nth = random.below(sum);
        self.dbs[self.dbs.partition_point(|(_, end)| *end <= nth)].0
    }

    /// Adds the best of `round_count` rounds to the pool.
    fn sample(
        &mut self,
        latching: &Latching<'_>,
        policy: EvictionPolicy,
        sample_count: usize,
        round_count: usize,
    ) {
        let (keyspace, random) = (latching.keyspace(), latching.random());
        let slots = keyspace.slots();
        let mut rounds = [Round::default(); EVICTION_GROUP_SIZE_MAX];
        let rounds = &mut rounds[..round_count];
        let bucket_count_max = if policy.volatile_only { VOLATILE_BUCKET_COUNT } else { usize::MAX };
        for round in &mut *rounds {
            let run = SampleRun {
                random: random.next_u64(),
                volatile_only: policy.volatile_only,
                len_max: sample_count,
                bucket_count_max,
            };
            *round =
                Round { db: self.choose_db(random), slot: random.below(SLOT_COUNT as u64) as usize, run };
            slots.prefetch(round.slot);
        }
        let mut guards = [const { None }; EVICTION_GROUP_SIZE_MAX];
        for (guard, round) in zip(&mut guards, &*rounds) {
            *guard = slots.try_read_now(round.slot);
            if let Some(table) =
                guard.as_ref().and_then(|slot| slot.table(keyspace.place(usize::from(round.db.0))))
            {
                table.prefetch_run(round.run);
            }
        }
        let mut tables = [None; EVICTION_GROUP_SIZE_MAX];
        for (table, (guard, round)) in zip(&mut tables, zip(&guards, &*rounds)) {
            *table = guard.as_ref().and_then(|slot| slot.table(keyspace.place(usize::from(round.db.0))));
            if let Some(table) = table {
                table.prefetch_run_entries(round.run);
            }
        }
        for (table, round) in zip(tables, &mut *rounds) {
            let len = table.map_or(0, |table| self.offer_run(table, round, policy, latching.mode.aging));
            round.run.len_max -= len;
        }
        drop(guards);
        for round in rounds.iter_mut().filter(|round| round.run.len_max > 0) {
            if !self.sample_elsewhere(latching, policy, round) {
                break;
            }
        }
    }

    /// Continues a round in other slots if its slot had too few keys. Their order is random, so that a key
    /// behind empty slots is not sampled more often. Returns whether a key was found.
    fn sample_elsewhere(
        &mut self,
        latching: &Latching<'_>,
        policy: EvictionPolicy,
        round: &mut Round,
    ) -> bool {
        let (keyspace, random) = (latching.keyspace(), latching.random());
        let slots = keyspace.slots();
        let stride = random.next_u64() as usize | 1;
        let (mut tries_left, mut has_found) = (SLOT_COUNT, false);
        while tries_left > 0 && round.run.len_max > 0 {
            tries_left -= 1;
            round.slot = round.slot.wrapping_add(stride) % SLOT_COUNT;
            let Some(guard) = slots.try_read_now(round.slot) else { continue };
            let Some(table) = guard.table(keyspace.place(usize::from(round.db.0))) else { continue };
            if table.is_empty() || (policy.volatile_only && table.volatile_len() == 0) {
                continue;
            }
            round.run.random = random.next_u64();
            let len = self.offer_run(table, round, policy, latching.mode.aging);
            round.run.len_max -= len;
            has_found |= len > 0;
        }
        has_found
    }

    /// Adds the entries of a run of a table to the pool if they score high enough. Returns the length of the
    /// run.
    fn offer_run(&mut self, table: &Table, round: &Round, policy: EvictionPolicy, aging: Aging) -> usize {
        let slot_bits = (round.slot as u64) << (u64::BITS - SLOT_BITS);
        table.visit_run(round.run, |name, entry| {
            self.offer(Candidate {
                score: score(entry, policy, aging),
                db: round.db,
                hash: slot_bits | name,
            });
        })
    }

    fn offer(&mut self, candidate: Candidate) {
        let is_full = self.pool.len() >= POOL_SIZE;
        if is_full && self.pool[0].score >= candidate.score {
            return;
        }
        if self.pool.iter().any(|known| known.hash == candidate.hash && known.db == candidate.db) {
            return;
        }
        let place = self.pool.partition_point(|known| known.score < candidate.score);
        if is_full {
            self.pool[..place].rotate_left(1);
            self.pool[place - 1] = candidate;
        } else {
            self.pool.insert(place, candidate);
        }
    }

    /// Evicts up to `count_max` of the pool's candidates, the best first.
    fn take_best(
        &mut self,
        latching: &mut Latching<'_>,
        policy: EvictionPolicy,
        count_max: usize,
        each: &mut impl FnMut(Evicted) -> ControlFlow<()>,
    ) -> usize {
        let best = &self.pool[self.pool.len().saturating_sub(count_max)..];
        prefetch(latching, best);
        let mut count = 0;
        while count < count_max
            && let Some(best) = self.pool.pop()
        {
            match take(latching, best, policy) {
                CandidateOutcome::Evicted(evicted) => {
                    count += 1;
                    if each(evicted).is_break() {
                        break;
                    }
                }
                CandidateOutcome::Younger(score) => self.offer(Candidate { score, ..best }),
                CandidateOutcome::Missed => {}
            }
        }
        count
    }
}

/// Prefetches the slots, buckets and entries of candidates, as far as hints lead to them.
fn prefetch(latching: &Latching<'_>, candidates: &[Candidate]) {
    let mut homes = [PrefetchedBucket::default(); EVICTION_GROUP_SIZE_MAX];
    for candidate in candidates {
        latching.keyspace().hints(candidate.db).prefetch_slot(candidate.hash);
    }
    for (home, candidate) in zip(&mut homes, candidates) {
        *home = latching.prefetcher(candidate.db).prefetch_home(candidate.hash);
    }
    for (home, candidate) in zip(homes, candidates) {
        // The result is not used: the prefetch is the purpose.
        let _ = latching.prefetcher(candidate.db).prefetch_entry(home, candidate.hash);
    }
}

fn score(entry: Entry<'_>, policy: EvictionPolicy, aging: Aging) -> u64 {
    match policy.order {
        EvictionOrder::Ttl => u64::MAX - entry.expiry().map_or(u64::MAX, |at| at.max(0) as u64),
        EvictionOrder::Aging => aging.victim_score(entry.access()),
        EvictionOrder::Random => 0,
    }
}

/// Removes a candidate, if it still exists with an equal or better score and its slot is free.
fn take(latching: &mut Latching<'_>, candidate: Candidate, policy: EvictionPolicy) -> CandidateOutcome {
    let Candidate { hash, db, .. } = candidate;
    let slot: Slot = slot_of_hash(hash);
    if latching.latch(slot, Mode::Write).is_err() {
        return CandidateOutcome::Missed;
    }
    let (counters, aging) = (latching.counters, latching.mode.aging);
    let mut younger = None;
    let removed = latching.change(Key::with_hash(&[], hash, db), |table, heap| {
        let removed = table.remove_named(heap, hash, |entry| {
            let score = score(entry, policy, aging);
            younger = (score < candidate.score).then_some(score);
            younger.is_none() && (entry.expiry().is_some() || !policy.volatile_only)
        })?;
        counters.population(usize::from(db.0), -1, removed.entry());
        Some(removed)
    });
    if let Some(removed) = &removed {
        let key = Key::new(latching.keyspace().hasher(), removed.entry().key(), db);
        latching.announce(EventClass::Evicted, "evicted", key);
        latching.note_change(key);
        let lazy = latching.mode.lazy_eviction;
        latching.record_deletion(key, lazy);
        latching.counters.evicted_keys.add(1);
    }
    // The removal of a slot's last key also frees the table: in a small database the tables are most of the
    // memory.
    let keyspace = latching.keyspace();
    let data = latching.slot_data_mut(slot);
    if data.table(keyspace.place(usize::from(db.0))).is_none_or(Table::is_empty) {
        data.drop_empty_tables(|place, table| {
            keyspace.publish(slot, place, table);
        });
    }
    latching.release();
    match (removed, younger) {
        (Some(removed), _) => CandidateOutcome::Evicted(Evicted { db, removed }),
        (None, Some(score)) => CandidateOutcome::Younger(score),
        (None, None) => CandidateOutcome::Missed,
    }
}
