//! A walk over the keys of a request that prefetches the memory of the next keys.
//!
//! The executor prefetches the first [`WARM_COUNT`] keys of a request before it runs. The other keys would miss the
//! caches. Here the bucket of each is prefetched some keys ahead of the walk, and then its entry. The place where the
//! entry was found is stored in the planned key, for this walk and for a second walk over these keys.
//!
//! Touches no data: the latches of the keys are held, but a prefetch needs none. Cost: one comparison per key for the
//! first [`WARM_COUNT`] keys.

use base::DbIndex;
use collections::ProbeResult;
use keyspace::{Key, Latched, PrefetchedKeys, PrefetchedProbes};
use wire::request::Args;

use crate::context::{Ctx, PlannedKey};

/// Keys of a request that the executor prefetches.
pub const WARM_COUNT: usize = 512;

const GROUP_SIZE: usize = keyspace::GROUP_SIZE as usize;
const ENTRIES_AHEAD: usize = keyspace::ENTRIES_AHEAD as usize;
const BUCKETS_AHEAD: usize = keyspace::BUCKETS_AHEAD as usize;

/// Keys whose buckets may be recorded: a group, and the keys ahead of it.
const WINDOW_SIZE: usize = 32;
const _: () = assert!(WINDOW_SIZE >= GROUP_SIZE + BUCKETS_AHEAD);

/// A walk over the keys of a request, in order. It borrows no data, so that keys can be changed between two steps.
pub struct Walk<'a> {
    planned: &'a [PlannedKey],
    args: Args<'a>,
    db: DbIndex,
    /// The index of the next key.
    at: usize,
    /// The key before which the next group is prefetched.
    due: usize,
    /// `None`: nothing was prefetched yet.
    ahead: Option<Box<Ahead>>,
}

/// The progress of the prefetches.
#[derive(Default)]
struct Ahead {
    window: PrefetchedKeys<WINDOW_SIZE>,
    /// Keys whose buckets, and entries, were prefetched.
    bucket_count: usize,
    entry_count: usize,
    /// Displaced keys, whose next bucket was prefetched.
    displaced: Vec<(u64, PrefetchedProbes)>,
}

impl<'a> Ctx<'a> {
    /// A walk over the request's keys from the `first`-th on, for handlers of requests with very many keys.
    #[must_use]
    #[inline]
    pub fn walk_from(&self, first: usize) -> Walk<'a> {
        Walk::new(self.planned, self.args, self.session.db, first)
    }

    /// A walk over all keys of the request.
    #[must_use]
    #[inline]
    pub fn walk(&self) -> Walk<'a> {
        self.walk_from(0)
    }

    /// Like [`Self::walk_from`], for a handler that only reads.
    #[inline]
    pub fn keys_for_reading(&self, first: usize) -> impl Iterator<Item = Key<'a>> {
        let (data, mut walk) = (&*self.data, self.walk_from(first));
        std::iter::from_fn(move || walk.next(data))
    }
}

impl<'a> Walk<'a> {
    #[inline]
    fn new(planned: &'a [PlannedKey], args: Args<'a>, db: DbIndex, first: usize) -> Self {
        let due = if planned.len() > WARM_COUNT { WARM_COUNT - BUCKETS_AHEAD } else { usize::MAX };
        Self { planned, args, db, at: first, due, ahead: None }
    }

    /// The next key.
    #[inline(always)]
    pub fn next(&mut self, data: &Latched<'_>) -> Option<Key<'a>> {
        if self.at >= self.due {
            // Fields are passed separately, so that the walk itself stays in registers.
            self.due = prefetch(&mut self.ahead, self.planned, self.db, self.at, data);
        }
        let planned = self.planned.get(self.at)?;
        self.at += 1;
        Some(planned.key(self.args, self.db))
    }
}

/// Prefetches for the group from `at` on. Returns where the next group begins.
#[inline(never)]
fn prefetch(
    ahead: &mut Option<Box<Ahead>>,
    planned: &[PlannedKey],
    db: DbIndex,
    at: usize,
    data: &Latched<'_>,
) -> usize {
    let ahead = ahead.get_or_insert_default();
    let due = at + GROUP_SIZE;
    ahead.follow_displaced(data, planned);
    ahead.entry_count = ahead.entry_count.max(at);
    ahead.prefetch_entries(data, planned, due + ENTRIES_AHEAD);
    ahead.bucket_count = ahead.bucket_count.max(at);
    ahead.prefetch_buckets(data, planned, db, due + BUCKETS_AHEAD);
    due
}

impl Ahead {
    fn prefetch_buckets(&mut self, data: &Latched<'_>, planned: &[PlannedKey], db: DbIndex, end: usize) {
        let end = end.min(planned.len());
        if end <= self.bucket_count {
            return;
        }
        let hashes = planned[self.bucket_count..end].iter().map(|key| &key.hash);
        self.window.prefetch_buckets(data.prefetcher(db), self.bucket_count as u64, hashes);
        self.bucket_count = end;
    }

    fn prefetch_entries(&mut self, data: &Latched<'_>, planned: &[PlannedKey], end: usize) {
        let numbers = self.entry_count..end.min(self.bucket_count);
        if numbers.is_empty() {
            return;
        }
        let displaced = &mut self.displaced;
        self.window.prefetch_entries(data, numbers.start as u64..numbers.end as u64, |number, probes| {
            displaced.push((number, probes));
        });
        self.entry_count = numbers.end;
        for number in numbers {
            planned[number].guess.set(self.window.at(number as u64).guess);
        }
    }

    /// Prefetches the next bucket of displaced keys.
    fn follow_displaced(&mut self, data: &Latched<'_>, planned: &[PlannedKey]) {
        let Some(db) = self.displaced.first().map(|(number, _)| self.window.at(*number).db) else { return };
        let prefetcher = data.prefetcher(db);
        self.displaced.retain_mut(|(number, probes)| {
            let result = prefetcher.follow(probes);
            if let ProbeResult::Found(guess) = result {
                planned[*number as usize].guess.set(guess);
            }
            result == ProbeResult::Displaced
        });
    }
}

#[cfg(test)]
mod tests {
    use collections::{ExpiryChange, Guess, NewValue};
    use keyspace::{Keyspace, Latching};
    use sync::Mode;
    use wire::request::ArgsBuf;

    use super::*;

    const KEY_COUNT: usize = 4 * WARM_COUNT;

    /// Walks over keys of which every second one exists; `step` runs before each step.
    fn walked(step: impl Fn(&mut Latching<'static>, usize)) -> Vec<PlannedKey> {
        let db = DbIndex(0);
        let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(1, [1, 2, 3, 4], |_| {})));
        let mut latching = Latching::new(keyspace, 0, 1);
        assert!(latching.join_epochs());
        let mut args = ArgsBuf::new();
        let names: Vec<_> = (0..KEY_COUNT).map(|number| format!("key:{number}")).collect();
        names.iter().for_each(|name| args.push(name.as_bytes()));
        let planned =
            |number: usize| PlannedKey::new(keyspace.hasher().hash(names[number].as_bytes()), number as u32);
        let planned: Vec<_> = (0..KEY_COUNT).map(planned).collect();
        for name in names.iter().step_by(2) {
            let key = Key::new(keyspace.hasher(), name.as_bytes(), db);
            latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
            latching.set(key, NewValue::Bytes(b"value"), ExpiryChange::Clear);
            latching.release();
        }
        let mut walk = Walk::new(&planned, args.args(), db, 0);
        for (number, name) in names.iter().enumerate() {
            step(&mut latching, number);
            let key = walk.next(&latching).expect("there are more keys");
            assert_eq!(key.bytes, name.as_bytes());
            latching.latch(key.slot, Mode::Read).expect("no other session holds a latch");
            assert_eq!(latching.peek(key).is_some(), number % 2 == 0);
            latching.release();
        }
        assert!(walk.next(&latching).is_none());
        planned
    }

    fn seen_count(planned: &[PlannedKey]) -> usize {
        planned.iter().filter(|key| key.guess.get() != Guess::NONE).count()
    }

    #[test]
    fn walks_prefetch_beyond_the_executors_window() {
        let planned = walked(|_, _| ());
        assert_eq!(seen_count(&planned[..WARM_COUNT - BUCKETS_AHEAD]), 0);
        assert!(planned.iter().skip(1).step_by(2).all(|key| key.guess.get() == Guess::NONE));
        let existing_count = (KEY_COUNT - WARM_COUNT) / 2;
        assert!(
            seen_count(&planned) > existing_count * 9 / 10,
            "{} of {existing_count}",
            seen_count(&planned)
        );
    }

    #[test]
    fn prefetches_are_void_after_a_quiescent_state() {
        let planned = walked(|latching, _| latching.quiescent());
        assert_eq!(seen_count(&planned), 0);
    }
}
