//! One thread's counters of the keyspace: written by this thread only, read by all.
//!
//! A thread's counters are created at their first use: with many databases they are large.
//! Invariant: the sum over all threads of `keys[db]` is the number of entries of that database. One
//! thread's share may be negative, as it may delete keys that another thread inserted.
//!
//! From the first change of a number of keys to the release of the command's latches, `changing` marks the thread; that of a
//! cycle, which has latches of its own, to the end of the thread's turn. So a
//! transaction that counts the keys can do so at an instant at which no command has changed a part of its keys.

use base::limits::WRITER_COUNT_MAX;
use collections::{Entry, ValueSize};
use sync::OnceLock;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{ChangeMark, Padded, ThreadCounter as Counter};

use super::sizes::{self, Sizes};

/// How often the counters are read until no command changes keys meanwhile. A command takes less time than these tries; if its
/// thread is not running, waiting for its latches is better.
const INSTANT_TRIES: usize = 32;

/// One thread's counters.
#[derive(Default)]
pub struct Counters {
    /// Lookups for reading that found a key.
    pub hits: Counter,
    /// Lookups for reading that found none.
    pub misses: Counter,
    /// Expired keys that were deleted.
    pub expired_keys: Counter,
    /// Keys deleted by the active expiry cycle, a part of `expired_keys`.
    pub expired_keys_active: Counter,
    /// Expired hash fields that were deleted.
    pub expired_fields: Counter,
    /// Hash fields deleted by the active expiry cycle, a part of `expired_fields`.
    pub expired_fields_active: Counter,
    /// Keys evicted to free memory.
    pub evicted_keys: Counter,
    /// Changes since the start, as Redis counts `dirty`.
    pub dirty: Counter,
    /// Keys with blocked clients.
    pub waited_keys: Counter,
    /// Keys with blocked clients that are also served when the key is deleted.
    pub waited_keys_or_none: Counter,
    /// Scripts that are paused, and keep latches.
    pub paused_scripts: Counter,
    /// The command that changes numbers of keys.
    pub(crate) changing: ChangeMark,
    per_db: Box<[PerDb]>,
}

/// One thread's share of a database.
#[derive(Default)]
struct PerDb {
    keys: Counter,
    volatile: Counter,
    volatile_members: Counter,
    expiry_sum: Counter,
    /// The histograms of the sizes of its values, see `sizes.rs`: made at the first value, as they are large.
    sizes: OnceLock<Box<[Counter]>>,
}

/// The counters of all possible threads.
pub struct AllCounters {
    threads: Box<[OnceLock<Padded<Counters>>]>,
    /// One more than the highest number of a thread with counters: the end of the range that sums read.
    end: AtomicUsize,
    db_count: usize,
}

/// Totals of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// Entries, including expired ones that are not yet deleted.
    pub keys: u64,
    /// Entries with an expiry.
    pub volatile: u64,
    /// Entries whose values have members with an expiry.
    pub volatile_members: u64,
    /// Sum of the expiry times of the volatile entries, in Unix milliseconds, wrapping.
    pub expiry_sum: u64,
}

impl Counters {
    /// Sets the number of paused scripts. One that continues has a change under way, as it may have begun one before.
    pub fn set_paused_scripts(&self, count: usize) {
        if (count as u64) < self.paused_scripts.value() {
            self.changing.begin();
        }
        self.paused_scripts.set(count as u64);
    }

    /// This thread's share of the entries of one database.
    pub(crate) fn keys(&self, db: usize) -> u64 {
        self.per_db[db].keys.value()
    }

    fn new(db_count: usize) -> Self {
        Self { per_db: (0..db_count).map(|_| PerDb::default()).collect(), ..Self::default() }
    }

    /// Counts an inserted (`1`) or removed (`-1`) entry.
    #[inline]
    pub(crate) fn population(&self, db: usize, change: i64, entry: Entry<'_>) {
        self.changing.begin();
        let part = &self.per_db[db];
        part.keys.add(change as u64);
        if let Some(at) = entry.expiry() {
            part.volatile.add(change as u64);
            part.expiry_sum.add((change * at) as u64);
        }
        if entry.has_volatile_members() {
            part.volatile_members.add(change as u64);
        }
        self.count_size(db, entry.value_size(), change);
    }

    /// Counts a changed value by its type and size before and after.
    #[inline]
    pub(crate) fn size(&self, db: usize, before: ValueSize, after: ValueSize) {
        if before != after && before.bin() != after.bin() {
            self.count_size(db, before, -1);
            self.count_size(db, after, 1);
        }
    }

    fn count_size(&self, db: usize, size: ValueSize, change: i64) {
        if let Some(index) = size.bin() {
            self.per_db[db].sizes.get_or_init(sizes::counters)[index].add(change as u64);
        }
    }

    /// Counts an entry whose value gained its first member with an expiry or lost its last.
    #[inline]
    pub(crate) fn members(&self, db: usize, before: bool, after: bool) {
        if before != after {
            self.per_db[db].volatile_members.add((i64::from(after) - i64::from(before)) as u64);
        }
    }

    /// Counts a change of an entry's expiry.
    #[inline]
    pub(crate) fn expiry(&self, db: usize, before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        let part = &self.per_db[db];
        part.volatile.add((i64::from(after.is_some()) - i64::from(before.is_some())) as u64);
        part.expiry_sum.add((after.unwrap_or(0) - before.unwrap_or(0)) as u64);
    }

    /// Counts the removal of all entries of a database, or the difference to another one.
    pub(crate) fn cleared(&self, db: usize, gone: Population, sizes: &Sizes) {
        self.changing.begin();
        let part = &self.per_db[db];
        part.keys.add(gone.keys.wrapping_neg());
        part.volatile.add(gone.volatile.wrapping_neg());
        part.volatile_members.add(gone.volatile_members.wrapping_neg());
        part.expiry_sum.add(gone.expiry_sum.wrapping_neg());
        if !sizes.are_zero() {
            sizes.subtract_from(part.sizes.get_or_init(sizes::counters));
        }
    }
}

impl AllCounters {
    pub(crate) fn new(db_count: usize) -> Self {
        Self {
            threads: (0..WRITER_COUNT_MAX).map(|_| OnceLock::new()).collect(),
            end: AtomicUsize::new(0),
            db_count,
        }
    }

    /// The counters of one thread.
    #[must_use]
    pub fn thread(&self, index: usize) -> &Counters {
        let make = || {
            self.end.fetch_max(index + 1, Ordering::Release);
            Padded(Counters::new(self.db_count))
        };
        self.threads[index].get_or_init(make)
    }

    /// The counters of all threads that have counters.
    fn all(&self) -> impl Iterator<Item = &Counters> {
        let created = &self.threads[..self.end.load(Ordering::Acquire)];
        created.iter().filter_map(|thread| thread.get().map(|counters| &**counters))
    }

    /// Entries of one database.
    #[must_use]
    pub fn key_count(&self, db: usize) -> u64 {
        self.sum_of_db(db, |part| &part.keys)
    }

    /// Entries with an expiry of one database.
    #[must_use]
    pub fn volatile_count(&self, db: usize) -> u64 {
        self.sum_of_db(db, |part| &part.volatile)
    }

    fn sum_of_db(&self, db: usize, of: impl Fn(&PerDb) -> &Counter) -> u64 {
        let sum = self.all().map(|thread| of(&thread.per_db[db]).value()).fold(0, u64::wrapping_add);
        // A sum may include an entry's removal and miss its insertion.
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// Entries of one database that the other threads count, at an instant at which no command has changed a part of its
    /// keys. `None` if there seems to be no such instant.
    pub(crate) fn keys_of_others(&self, own: &Counters, db: usize) -> Option<u64> {
        if own.paused_scripts.value() > 0 {
            return None;
        }
        let others = || self.all().filter(|thread| !std::ptr::eq(*thread, own));
        let settled = || {
            let mark = |thread: &Counters| {
                let number = thread.changing.settled()?;
                (thread.paused_scripts.value() == 0).then_some(number)
            };
            others().try_fold(0, |sum: u64, thread| Some(sum.wrapping_add(mark(thread)?)))
        };
        for _ in 0..INSTANT_TRIES {
            if let Some(before) = settled() {
                let keys = others().map(|thread| thread.keys(db)).fold(0, u64::wrapping_add);
                ChangeMark::has_read();
                if settled() == Some(before) {
                    return Some(keys);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Totals of one database.
    #[must_use]
    pub fn population(&self, db: usize) -> Population {
        let mut total = Population::default();
        for thread in self.all() {
            let part = &thread.per_db[db];
            total.keys = total.keys.wrapping_add(part.keys.value());
            total.volatile = total.volatile.wrapping_add(part.volatile.value());
            total.volatile_members = total.volatile_members.wrapping_add(part.volatile_members.value());
            total.expiry_sum = total.expiry_sum.wrapping_add(part.expiry_sum.value());
        }
        total
    }

    /// The histograms of the sizes of the values of one database.
    #[must_use]
    pub fn sizes(&self, db: usize) -> Sizes {
        let mut sizes = Sizes::default();
        self.all().filter_map(|thread| thread.per_db[db].sizes.get()).for_each(|part| sizes.add(part));
        sizes
    }

    /// The sum of one counter over all threads.
    #[must_use]
    pub fn sum(&self, of: impl Fn(&Counters) -> &Counter) -> u64 {
        self.all().map(|thread| of(thread).value()).fold(0, u64::wrapping_add)
    }

    /// Sets one counter to zero for all threads (`CONFIG RESETSTAT`); a concurrent increment may survive.
    pub fn reset(&self, of: impl Fn(&Counters) -> &Counter) {
        for thread in self.all() {
            of(thread).set(0);
        }
    }
}
