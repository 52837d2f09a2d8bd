//! The latched table: slots of data, each accessible only through the guard of its latch.
//!
//! How to acquire slot `i` without blocking:
//! ```text
//! try_read / try_write ──some──> guard
//!        └─none─> park(i, mode, token) ──Acquired──> guard
//!                     └─Waiting─> do something else until wake(token) is called, then:
//!                          claim(i, token) ──Acquired──> guard
//!                                 └─Pending─> wake(token) will be called again
//! ```
//! A waiter that ends its wait calls `cancel`. A session that needs several slots acquires them in ascending order
//! and keeps its guards while it waits for the next: then at least one session can always proceed.
//!
//! Owns the data and the latches. Uses the lot (`lot.rs`) under contention. Never blocks on a latch.
//!
//! Invariants: a [`WriteGuard`] is the only guard of its slot; a [`ReadGuard`] coexists with [`ReadGuard`]s
//! only; each held latch belongs to a live guard, or is reserved by the lot for a waiter.
//!
//! Cost: uncontended, one read-modify-write to acquire and one to release, on the cache line that holds the
//! latch, the shared part, and the beginning of the data.

mod guard;

pub use guard::{Guard, ReadGuard, WriteGuard};

use crate::latch::{Announced, Latch, Mode};
use crate::lot::{Claimed, Lot};
use crate::shim::DataCell;
use crate::simulation::{self, Gap};
use std::fmt;

/// A fixed number of slots, each with a reader/writer latch, `shared: H` that any thread may read at any time,
/// and `data: T` that is accessible through a guard.
pub struct LatchTable<H, T> {
    cells: Box<[LatchCell<H, T>]>,
    lot: Lot,
}

/// The latch comes first, then the part that is read without it, so that one cache line holds both.
#[repr(C, align(64))]
pub(crate) struct LatchCell<H, T> {
    pub(crate) latch: Latch,
    pub(crate) shared: H,
    pub(crate) data: DataCell<T>,
}

// SAFETY: `latch` and, by its bound, `shared` may be used by several threads. `data` is reached through guards
// only: `&mut T` by one thread at a time (hence Send), `&T` by several (hence Sync).
unsafe impl<H: Sync, T: Send + Sync> Sync for LatchCell<H, T> {}

impl<H, T> LatchTable<H, T> {
    /// A table of `count` free slots, filled by `make(slot)`.
    ///
    /// `wake(token)` is called on the thread that releases a latch for which the token waits. It should only
    /// forward the notification. It may be called shortly after the waiter was cancelled.
    pub fn new(
        count: usize,
        mut make: impl FnMut(usize) -> (H, T),
        wake: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let cell = |slot| {
            let (shared, data) = make(slot);
            LatchCell { latch: Latch::new(), shared, data: DataCell::new(data) }
        };
        LatchTable { cells: (0..count).map(cell).collect(), lot: Lot::new(count, Box::new(wake)) }
    }

    /// The number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are no slots at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The shared part of a slot, readable at any time. Panics, as all methods do, if the slot does not exist.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self, slot: usize) -> &H {
        &self.cells[slot].shared
    }

    /// Prefetches the first cache line of a slot for writing.
    #[inline(always)]
    pub fn prefetch(&self, slot: usize) {
        let cell: *const LatchCell<H, T> = &raw const self.cells[slot];
        crate::prefetch::prefetch_for_writing(cell.cast());
    }

    /// Acquires a slot for reading, with a short bounded spin if necessary.
    #[inline]
    #[must_use]
    pub fn try_read(&self, slot: usize) -> Option<ReadGuard<'_, H, T>> {
        let latch = &self.cells[slot].latch;
        // SAFETY: (1) just acquired, for this guard.
        (latch.try_read() || latch.spin(Mode::Read)).then(|| unsafe { self.read_guard(slot) })
    }

    /// Acquires a slot for writing, with a short bounded spin if necessary.
    #[inline]
    #[must_use]
    pub fn try_write(&self, slot: usize) -> Option<WriteGuard<'_, H, T>> {
        let latch = &self.cells[slot].latch;
        // SAFETY: (1) just acquired, for this guard.
        (latch.try_write() || latch.spin(Mode::Write)).then(|| unsafe { self.write_guard(slot) })
    }

    /// Acquires a slot in `mode`, with a short bounded spin if necessary.
    #[inline]
    #[must_use]
    pub fn try_latch(&self, slot: usize, mode: Mode) -> Option<Guard<'_, H, T>> {
        match mode {
            Mode::Read => self.try_read(slot).map(Guard::Read),
            Mode::Write => self.try_write(slot).map(Guard::Write),
        }
    }

    /// Acquires a slot for reading without spinning, for background work.
    #[inline]
    #[must_use]
    pub fn try_read_now(&self, slot: usize) -> Option<ReadGuard<'_, H, T>> {
        // SAFETY: (1) just acquired, for this guard.
        self.cells[slot].latch.try_read().then(|| unsafe { self.read_guard(slot) })
    }

    /// Acquires a slot for writing without spinning, for background work.
    #[inline]
    #[must_use]
    pub fn try_write_now(&self, slot: usize) -> Option<WriteGuard<'_, H, T>> {
        // SAFETY: (1) just acquired, for this guard.
        self.cells[slot].latch.try_write().then(|| unsafe { self.write_guard(slot) })
    }

    /// Queues a waiter, unless the slot is available now.
    ///
    /// `token` must not wait for this slot already.
    pub fn park(&self, slot: usize, mode: Mode, token: u64) -> Parked<'_, H, T> {
        simulation::pass(Gap::LatchRefused);
        match self.lot.park(&self.cells[slot].latch, slot, mode, token) {
            // SAFETY: (1) just acquired, for this guard.
            Announced::Acquired => Parked::Acquired(unsafe { self.guard(slot, mode) }),
            Announced::Waiting => Parked::Waiting,
        }
    }

    /// Acquires a slot for a woken waiter.
    ///
    /// Do not claim without a wake-up: a failed claim keeps newcomers out at once.
    pub fn claim(&self, slot: usize, token: u64) -> Claim<'_, H, T> {
        match self.lot.claim(&self.cells[slot].latch, slot, token) {
            // SAFETY: (1) acquired for the waiter, which claims it once.
            Claimed::Acquired(mode) => Claim::Acquired(unsafe { self.guard(slot, mode) }),
            Claimed::Pending => Claim::Pending,
            Claimed::NotWaiting => Claim::NotWaiting,
        }
    }

    /// Takes the slot back from waiters that hold it and have not claimed for 100 microseconds (later up to 25 milliseconds)
    /// since an earlier call for this slot has found that, and serves the other waiters. They keep their places, and claim as
    /// waiters that are woken. O(waiters of the slot). Returns whether waiters hold it and have not claimed.
    ///
    /// To be called from time to time by threads whose sessions wait: a waiter's thread may be busy for long. `now_us` is of
    /// one clock for all threads.
    pub fn take_back(&self, slot: usize, now_us: i64) -> bool {
        self.lot.take_back(&self.cells[slot].latch, slot, now_us)
    }

    /// Removes a waiter from the queue, woken or not, and serves the other waiters. O(waiters of the slot).
    pub fn cancel(&self, slot: usize, token: u64) {
        self.lot.cancel(&self.cells[slot].latch, slot, token);
    }

    /// # Safety
    /// 1. The slot's latch was acquired for reading, and only this guard releases it.
    #[inline(always)]
    unsafe fn read_guard(&self, slot: usize) -> ReadGuard<'_, H, T> {
        // SAFETY: (1) the cell is this table's, and (2) the caller's condition.
        unsafe { ReadGuard::new(self, &self.cells[slot]) }
    }

    /// # Safety
    /// 1. The slot's latch was acquired for writing, and only this guard releases it.
    #[inline(always)]
    unsafe fn write_guard(&self, slot: usize) -> WriteGuard<'_, H, T> {
        // SAFETY: (1) the cell is this table's, and (2) the caller's condition.
        unsafe { WriteGuard::new(self, &self.cells[slot]) }
    }

    /// # Safety
    /// 1. The slot's latch was acquired in this mode, and only this guard releases it.
    unsafe fn guard(&self, slot: usize, mode: Mode) -> Guard<'_, H, T> {
        match mode {
            // SAFETY: (1) is also the callee's condition.
            Mode::Read => Guard::Read(unsafe { self.read_guard(slot) }),
            // SAFETY: (1) is also the callee's condition.
            Mode::Write => Guard::Write(unsafe { self.write_guard(slot) }),
        }
    }

    /// The number of `cell`'s slot.
    pub(crate) fn slot_of(&self, cell: &LatchCell<H, T>) -> usize {
        let start = self.cells.as_ptr().addr();
        ((&raw const *cell).addr() - start) / size_of::<LatchCell<H, T>>()
    }

    /// Serves the waiters after the release of a latch.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_waiters(&self, cell: &LatchCell<H, T>) {
        simulation::pass(Gap::LatchReleased);
        self.lot.wake_waiters(&cell.latch, self.slot_of(cell));
    }
}

/// Outcome of [`LatchTable::park`].
#[must_use]
#[derive(Debug)]
pub enum Parked<'t, H, T> {
    /// The slot was available: no waiter is queued.
    Acquired(Guard<'t, H, T>),
    /// The waiter is queued. Its token will be woken and must then claim or cancel.
    Waiting,
}

/// Outcome of [`LatchTable::claim`].
#[must_use]
#[derive(Debug)]
pub enum Claim<'t, H, T> {
    /// The waiter holds the slot, and is no longer queued.
    Acquired(Guard<'t, H, T>),
    /// Another session was faster. The waiter keeps its place, newcomers are kept out, and the token will be
    /// woken again.
    Pending,
    /// The token does not wait for this slot: it was cancelled, or has already claimed.
    NotWaiting,
}

impl<H, T> fmt::Debug for LatchTable<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatchTable({} slots)", self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Claim, Guard, LatchTable, Mode, Parked, ReadGuard, WriteGuard};
    use std::sync::mpsc::{Receiver, channel};

    type Table = LatchTable<(), u64>;

    fn table() -> (Table, Receiver<u64>) {
        let (sender, woken) = channel();
        let wake = move |token| sender.send(token).expect("the test holds the receiver");
        (LatchTable::new(3, |slot| ((), slot as u64), wake), woken)
    }

    fn park(table: &Table, mode: Mode, token: u64) {
        assert!(matches!(table.park(1, mode, token), Parked::Waiting));
    }

    fn claim(table: &Table, token: u64) -> Guard<'_, (), u64> {
        match table.claim(1, token) {
            Claim::Acquired(guard) => guard,
            other => panic!("{token}: {other:?}"),
        }
    }

    fn woken(woken: &Receiver<u64>) -> Vec<u64> {
        woken.try_iter().collect()
    }

    #[test]
    fn guards_are_send_and_may_be_static() {
        fn check<G: Send + 'static>() {}
        check::<ReadGuard<'static, (), u64>>();
        check::<WriteGuard<'static, (), u64>>();
        check::<Guard<'static, (), u64>>();
    }

    #[test]
    fn readers_share_and_writers_exclude() {
        let (table, _) = table();
        let first = table.try_read(1).unwrap();
        let second = table.try_read_now(1).unwrap();
        assert!(table.try_write(1).is_none());
        assert_eq!((first.slot(), *second), (1, 1));
        drop((first, second));
        let mut writer = table.try_write_now(1).unwrap();
        assert!(table.try_read(1).is_none() && table.try_write(1).is_none() && table.try_read(2).is_some());
        *writer = 7;
        drop(writer);
        assert_eq!(*table.try_read(1).unwrap(), 7);
    }

    #[test]
    fn parking_acquires_a_free_latch() {
        let (table, _) = table();
        let Parked::Acquired(mut guard) = table.park(1, Mode::Write, 9) else { panic!() };
        *guard.as_mut().unwrap() = 8;
        drop(guard);
        assert!(matches!(table.claim(1, 9), Claim::NotWaiting));
    }

    #[test]
    fn release_wakes_all_leading_readers_or_one_writer() {
        let (table, calls) = table();
        let writer = table.try_write(1).unwrap();
        for (token, mode) in [Mode::Read, Mode::Read, Mode::Write, Mode::Read].into_iter().enumerate() {
            park(&table, mode, token as u64);
        }
        assert!(writer.is_wanted());
        drop(writer);
        assert_eq!(woken(&calls), [0, 1]);
        let readers = (claim(&table, 0), claim(&table, 1));
        assert_eq!(woken(&calls), []);
        drop(readers.0);
        assert_eq!(woken(&calls), []);
        drop(readers.1);
        assert_eq!(woken(&calls), [2]);
        drop(claim(&table, 2));
        assert_eq!(woken(&calls), [3]);
        drop(claim(&table, 3));
        assert!(!table.try_read(1).unwrap().is_wanted());
    }

    #[test]
    fn newcomer_may_overtake_once_then_the_latch_is_handed_over() {
        let (table, calls) = table();
        let first = table.try_write(1).unwrap();
        park(&table, Mode::Write, 5);
        drop(first);
        assert_eq!(woken(&calls), [5]);
        let newcomer = table.try_write(1).unwrap();
        assert!(matches!(table.claim(1, 5), Claim::Pending));
        park(&table, Mode::Write, 6);
        drop(newcomer);
        assert_eq!(woken(&calls), [5]);
        assert!(table.try_write(1).is_none() && table.try_read(1).is_none());
        drop(claim(&table, 5));
        assert_eq!(woken(&calls), [6]);
        drop(table.try_read(1).unwrap());
        drop(claim(&table, 6));
    }

    #[test]
    fn newcomers_are_excluded_during_a_pending_handover() {
        let (table, calls) = table();
        let reader = table.try_read(1).unwrap();
        park(&table, Mode::Write, 1);
        assert!(matches!(table.claim(1, 1), Claim::Pending));
        assert!(table.try_read(1).is_none());
        park(&table, Mode::Read, 2);
        drop(reader);
        assert_eq!(woken(&calls), [1]);
        drop(claim(&table, 1));
        assert_eq!(woken(&calls), [2]);
        drop(claim(&table, 2));
    }

    #[test]
    fn readers_overtake_a_waiting_writer_boundedly() {
        let (table, calls) = table();
        let mut readers = vec![table.try_read(1).unwrap()];
        park(&table, Mode::Write, 1);
        while let Some(reader) = table.try_read(1) {
            readers.push(reader);
        }
        assert_eq!(readers.len(), 64);
        park(&table, Mode::Write, 2);
        drop(readers);
        assert_eq!(woken(&calls), [1]);
        // Waking the writer resets the limit, even though another writer waits.
        let pair = (table.try_read(1).unwrap(), table.try_read(1).unwrap());
        drop(pair);
        assert_eq!(woken(&calls), [2]);
        drop(claim(&table, 1));
        drop(claim(&table, 2));
        assert!(table.try_write(1).is_some());
    }

    #[test]
    fn an_unclaimed_grant_is_taken_back_at_the_second_call() {
        for mode in [Mode::Write, Mode::Read] {
            let (table, calls) = table();
            let first = table.try_write(1).unwrap();
            park(&table, mode, 1);
            assert!(matches!(table.claim(1, 1), Claim::Pending));
            park(&table, Mode::Write, 2);
            drop(first);
            assert_eq!(woken(&calls), [1]);
            assert!(table.take_back(1, 1_000));
            // A look of another thread comes soon after.
            for now_us in [1_000, 1_099, 900] {
                assert!(table.take_back(1, now_us));
                assert!(table.try_write(1).is_none() && woken(&calls).is_empty(), "it may claim soon");
            }
            assert!(!table.take_back(1, 1_100));
            assert_eq!(woken(&calls), [2]);
            let second = claim(&table, 2);
            // It keeps its place, and the next release hands the latch over again.
            assert!(matches!(table.claim(1, 1), Claim::Pending));
            park(&table, Mode::Write, 3);
            drop(second);
            assert_eq!(woken(&calls), [1]);
            table.take_back(1, 2_000);
            assert!(table.take_back(1, 2_399), "it has more time after it lost a grant");
            drop(claim(&table, 1));
            assert_eq!(woken(&calls), [3]);
            table.take_back(1, 2_400);
            drop(claim(&table, 3));
            assert!(!table.take_back(1, 3_000));
            assert!(table.try_write(1).is_some() && woken(&calls).is_empty());
        }
    }

    #[test]
    fn newcomers_acquire_a_latch_that_was_taken_back() {
        let (table, _calls) = table();
        let first = table.try_write(1).unwrap();
        park(&table, Mode::Write, 1);
        assert!(matches!(table.claim(1, 1), Claim::Pending));
        drop(first);
        table.take_back(1, 0);
        table.take_back(1, 100);
        drop(table.try_write(1).unwrap());
        drop(claim(&table, 1));
        assert!(!table.try_read(1).unwrap().is_wanted());
    }

    #[test]
    fn cancelled_waiters_wake_the_next_waiter() {
        let (table, calls) = table();
        // Woken, not yet claimed.
        let writer = table.try_write(1).unwrap();
        park(&table, Mode::Write, 1);
        park(&table, Mode::Write, 2);
        drop(writer);
        assert_eq!(woken(&calls), [1]);
        table.cancel(1, 1);
        assert_eq!(woken(&calls), [2]);
        // Granted, not yet claimed.
        let newcomer = table.try_read(1).unwrap();
        assert!(matches!(table.claim(1, 2), Claim::Pending));
        park(&table, Mode::Read, 3);
        drop(newcomer);
        assert_eq!(woken(&calls), [2]);
        table.cancel(1, 2);
        assert_eq!(woken(&calls), [3]);
        drop(claim(&table, 3));
        // A waiting writer that kept readers from joining a reader.
        let reader = table.try_read(1).unwrap();
        park(&table, Mode::Write, 4);
        assert!(matches!(table.claim(1, 4), Claim::Pending));
        park(&table, Mode::Read, 5);
        table.cancel(1, 4);
        assert_eq!(woken(&calls), [5]);
        drop((claim(&table, 5), reader));
        table.cancel(1, 77);
        assert!(table.try_write(1).is_some());
    }
}
