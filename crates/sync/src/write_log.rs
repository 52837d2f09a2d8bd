//! The write log: one totally ordered stream of bytes, written by all workers and read by a few threads through a
//! bounded ring. An LSN is an offset in the stream.
//!
//! **Writing.** A thread that holds latches appends a record in three steps. (1) It stores the position that it
//! expects in its lane. (2) It reserves its range: one compare-exchange of the *word*, which holds the position
//! (48 bits) and the database that the stream has selected (16 bits), which determines whether the record
//! needs the text that selects a database. (3) It copies without a lock, then marks its lane idle. The order of
//! records is the order of step 2, hence an order that agrees with the latches.
//!
//! **Reading.** The stream is complete up to the lowest position in any lane, or up to the word's position.
//! A descheduled writer therefore delays only readers. A range always ends between two records.
//!
//! | lane, FROM | TO | step |
//! |---|---|---|
//! | idle | busy at `p` | before each attempt to reserve at `p` |
//! | busy at `p` | busy at `q` | the attempt failed, the next one is at `q` |
//! | busy | idle | the record is copied |
//!
//! Invariants:
//! 1. `tail` is the lowest position of all readers; it only grows. No writer writes to the ring at or beyond
//!    `tail + capacity`.
//! 2. A reader that has loaded the word sees, for each range reserved below it, either a lane that is busy at
//!    that range's start, or the copied bytes. The lane is stored before the word's release, and each later
//!    store of the lane is a release after the copy.
//! 3. A lane below a reader's position belongs to an attempt that fails: the word has passed that position.
//!    It is ignored.
//! 4. `tail <= LSN <= tail + 2^47` for each LSN in use, so that the low 48 bits of an LSN and the tail determine
//!    it. The same position with the same database returns to the word only after 2^48 bytes; a
//!    compare-exchange that succeeds then is still correct, because a writer derives its LSN from the
//!    tail that it loads afterwards, which cannot pass its own unfinished record.
//!
//! **A full ring.** A writer checks [`WriteLog::has_room`] *before* it latches; if there is none, its owner parks it
//! ([`WriteLog::wait_for_room`]) and is notified by a token. A writer that holds latches never waits: a record
//! that does not fit is kept in a buffer of its own until all readers have passed it. Bound: the log holds at most
//! its capacity, and the records of those requests that found room and have not finished. A request finishes
//! before its worker starts the next one, so that is one request for each worker, and one for each session that
//! was parked at a latch after its check. A record larger than the ring is kept in the same way.
//!
//! **Audiences.** A record, or the text that selects its database, may be for the file or for replicas only
//! ([`Audience`]). Its range is noted under a lock before its lane becomes idle; other readers pass over it.
//!
//! **Without latches.** Messages to replicas belong to no slot. [`LogWriter::append_unlatched`] appends them under a lock,
//! which those who hold all latches acquire as well where the end of the log must be exact.
//!
//! **Off.** Without a reader the log is off: [`WriteLog::is_on`] is one relaxed load, and nothing is reserved.
//!
//! Wake-ups: [`LogWriter::notify`] after releasing the latches wakes sleeping readers;
//! [`LogReader::advance`] wakes waiting writers. No wake-up is lost, see [`LogReader::prepare_sleep`] and `room.rs`.
//!
//! Start reading at `writer.rs`, then `reader.rs`.

mod audience;
mod reader;
mod ring;
mod room;
mod writer;

#[cfg(all(test, not(loom)))]
mod stress;
#[cfg(all(test, not(loom)))]
mod tests;

pub use audience::Audience;
pub use reader::{Chunk, LogReader};
pub use room::Room;
pub use writer::{Appended, LogWriter, Record};

use crate::counter::Padded;
use crate::shim::{AtomicU32, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, lock};
use base::{DbIndex, Lsn};
use ring::Ring;
use room::RoomState;
use std::fmt;
use std::sync::Arc;

/// The readers that can be attached at a time: the bits of `sleepers`.
pub const READER_COUNT_MAX: usize = 64;

const POSITION_BITS: u32 = 48;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
/// The database part of the word when no database is selected.
const NO_DATABASE: u64 = u16::MAX as u64;

/// A lane without an unfinished record. Otherwise a lane is `BUSY` and a position.
const IDLE: u64 = 0;
const BUSY: u64 = 1 << 63;

/// A thread to wake, by the token under which it registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogWake {
    /// A reader that sleeps after [`LogReader::prepare_sleep`].
    Reader(u64),
    /// A writer that waits after [`WriteLog::wait_for_room`]; it calls that again.
    Writer(u64),
}

type Wake = Box<dyn Fn(LogWake) + Send + Sync>;

/// See the module documentation.
pub struct WriteLog {
    /// The position and the selected database, see [`pack`].
    word: Padded<AtomicU64>,
    /// Invariant 1. Stored under the lock of `state`.
    tail: Padded<AtomicU64>,
    /// One bit for each reader that sleeps.
    sleepers: Padded<AtomicU64>,
    lanes: Box<[Padded<Lane>]>,
    /// One more than the highest lane ever used.
    lane_used_count: AtomicU32,
    /// 1 while there are readers.
    on: AtomicU32,
    /// The number of readers that send to replicas.
    replica_reader_count: AtomicU32,
    capacity: u64,
    /// Allocated when the log is first switched on.
    ring: OnceLock<Ring>,
    /// Bytes of memory of the ring. Set before it is allocated: a reading of the memory in use is never without it.
    ring_size: AtomicU64,
    /// The number of records outside the ring. Changed under the lock of `state`.
    spilled_count: AtomicU32,
    /// The number of ranges that are not for all readers. Changed under the lock of `state`.
    partial_count: AtomicU32,
    /// See [`Self::note_divergence`].
    divergence_count: AtomicU64,
    /// Held to append without latches, and by those who hold all latches to keep such appends away.
    unlatched: Mutex<()>,
    state: Mutex<RoomState>,
    wake: Wake,
    #[cfg(any(test, loom))]
    fault: Fault,
}

struct Lane {
    /// [`IDLE`], or [`BUSY`] and a position.
    reserving: AtomicU64,
    /// 1 while a [`LogWriter`] has this lane.
    taken: AtomicU32,
}

/// Planted faults, which tests must find.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A lane becomes idle before the record is copied.
    PublishedEarly,
    /// A reader sleeps without checking the log again.
    SleepUnchecked,
    /// A reader's progress does not wake waiting writers.
    WritersForgotten,
    /// The ring's end is ignored: unread bytes are overwritten.
    RingOverrun,
    /// A range that is not for all readers is noted after its record is published.
    LateAudience,
}

impl WriteLog {
    /// Creates a log that is off, whose first byte will have the LSN `start`.
    ///
    /// `capacity` is the ring's size, a power of two of at least 64 and at most 2^40. Each writer has a lane of its
    /// own below `lane_count`. `wake` must not call this log.
    #[must_use]
    pub fn new(
        start: Lsn,
        capacity: usize,
        lane_count: usize,
        wake: impl Fn(LogWake) + Send + Sync + 'static,
    ) -> Self {
        assert!(capacity.is_power_of_two() && (64..=1 << 40).contains(&capacity));
        let lane = |_| Padded(Lane { reserving: AtomicU64::new(IDLE), taken: AtomicU32::new(0) });
        WriteLog {
            word: Padded(AtomicU64::new(pack(start.0, None))),
            tail: Padded(AtomicU64::new(start.0)),
            sleepers: Padded(AtomicU64::new(0)),
            lanes: (0..lane_count).map(lane).collect(),
            lane_used_count: AtomicU32::new(0),
            on: AtomicU32::new(0),
            replica_reader_count: AtomicU32::new(0),
            capacity: capacity as u64,
            ring: OnceLock::new(),
            ring_size: AtomicU64::new(0),
            spilled_count: AtomicU32::new(0),
            partial_count: AtomicU32::new(0),
            divergence_count: AtomicU64::new(0),
            unlatched: Mutex::new(()),
            state: Mutex::new(RoomState::default()),
            wake: Box::new(wake),
            #[cfg(any(test, loom))]
            fault: Fault::None,
        }
    }

    /// Plants a fault.
    #[doc(hidden)]
    #[cfg(any(test, loom))]
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        WriteLog { fault, ..self }
    }

    /// Whether there are readers. If not, changes need not be appended. A writer checks it under its latches.
    #[inline(always)]
    #[must_use]
    pub fn is_on(&self) -> bool {
        // Relaxed: the log is switched on while all latches are held, which orders it.
        self.on.load(Ordering::Relaxed) != 0
    }

    /// Whether a reader sends to replicas.
    #[inline]
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.replica_reader_count.load(Ordering::Relaxed) != 0
    }

    /// The LSN of the next byte. Exact while all latches are held.
    #[must_use]
    pub fn end(&self) -> Lsn {
        let tail = self.tail.load(Ordering::Acquire);
        Lsn(widen(self.word.load(Ordering::Acquire), tail))
    }

    /// An LSN up to which every record is copied: the end, if all latches are held. A later call may return less.
    #[must_use]
    pub fn complete_end(&self) -> Lsn {
        Lsn(self.complete_from(self.tail.load(Ordering::Acquire)))
    }

    /// The size of the ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of memory of the log: its ring, once there was a reader, and the records outside the ring.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let ring = self.ring_size.load(Ordering::Relaxed);
        if self.spilled_count.load(Ordering::Relaxed) == 0 {
            return ring;
        }
        ring + lock(&self.state).spilled.values().map(|record| record.len() as u64).sum::<u64>()
    }

    /// Keeps away appends without latches while the guard lives: with all latches, it makes [`Self::end`] and
    /// [`Self::complete_end`] exact. Held briefly.
    pub fn hold_unlatched(&self) -> MutexGuard<'_, ()> {
        lock(&self.unlatched)
    }

    /// Notes, before anything of it is in the log, that a file with its bytes will not have the data of the stream for replicas, or
    /// not the database that the stream has selected. All latches, or those of the change, are held.
    pub fn note_divergence(&self) {
        self.divergence_count.fetch_add(1, Ordering::AcqRel);
    }

    /// How often [`Self::note_divergence`] was called.
    #[must_use]
    pub fn divergence_count(&self) -> u64 {
        self.divergence_count.load(Ordering::Acquire)
    }

    /// Lets the next record select its database. Called while all latches are held, where a file or a replica's
    /// stream begins.
    pub fn forget_database(&self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while let Err(now) =
            self.word.compare_exchange_weak(seen, pack(seen, None), Ordering::Release, Ordering::Relaxed)
        {
            seen = now;
        }
    }

    /// Attaches a reader at the end, and switches the log on if it is off. The caller holds all latches, so that
    /// no writer is between its call of [`Self::is_on`] and the end of its record.
    ///
    /// Returns `None` if there are [`READER_COUNT_MAX`] readers. `token` identifies the reader to `wake`. Panics if
    /// the log is off and a record is being written.
    #[must_use]
    pub fn attach(self: &Arc<Self>, token: u64, audience: Audience) -> Option<LogReader> {
        let _unlatched = self.hold_unlatched();
        let mut state = lock(&self.state);
        let from = self.complete_end().0;
        let index = state.add_reader(from, token)?;
        if !self.is_on() {
            // An unfinished record of the time before the log was off could share the ring's bytes with a new one.
            assert!(from == self.end().0 && state.spilled.is_empty(), "a record is being written");
            self.tail.store(from, Ordering::Release);
            self.ring_size.store(self.capacity, Ordering::Relaxed);
            self.ring.get_or_init(|| Ring::new(self.capacity as usize));
            self.forget_database();
            self.on.store(1, Ordering::Release);
        }
        drop(state);
        Some(LogReader::new(Arc::clone(self), index, from, audience))
    }

    /// Attaches a reader at an LSN that another reader still keeps. `lsn` must be between two records to begin with
    /// a whole one.
    ///
    /// Returns `None` if the log is off or no longer has this LSN, or if there are too many readers.
    #[must_use]
    pub fn attach_at(self: &Arc<Self>, lsn: Lsn, token: u64, audience: Audience) -> Option<LogReader> {
        let mut state = lock(&self.state);
        let tail = self.tail.load(Ordering::Relaxed);
        if !self.is_on() || lsn.0 < tail || lsn.0 > self.complete_from(tail) {
            return None;
        }
        let index = state.add_reader(lsn.0, token)?;
        drop(state);
        Some(LogReader::new(Arc::clone(self), index, lsn.0, audience))
    }

    /// The end of the range from `from` on in which each record is copied. `from` is not below the tail.
    fn complete_from(&self, from: u64) -> u64 {
        // Acquire pairs with the Release of each reservation: invariant 2.
        let mut length = widen(self.word.load(Ordering::Acquire), from) - from;
        let lane_count = self.lane_used_count.load(Ordering::Relaxed) as usize;
        for lane in &self.lanes[..lane_count] {
            let reserving = lane.reserving.load(Ordering::Acquire);
            if reserving != IDLE {
                // A position below `from` becomes a huge number: invariant 3.
                length = length.min(reserving.wrapping_sub(from) & POSITION_MASK);
            }
        }
        from + length
    }

    #[cfg(any(test, loom))]
    fn is_planted(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    #[cfg(not(any(test, loom)))]
    #[inline(always)]
    fn is_planted(&self, _: Fault) -> bool {
        false
    }
}

/// The word for an LSN or position, and a database.
fn pack(position: u64, database: Option<DbIndex>) -> u64 {
    let database = database.map_or(NO_DATABASE, |database| u64::from(database.0));
    position & POSITION_MASK | database << POSITION_BITS
}

/// The database in a word.
fn database_of(word: u64) -> Option<DbIndex> {
    let database = word >> POSITION_BITS;
    (database != NO_DATABASE).then_some(DbIndex(database as u16))
}

/// The LSN of the position in `word`, which is at most 2^48 - 1 after `base`.
fn widen(word: u64, base: u64) -> u64 {
    base + (word.wrapping_sub(base) & POSITION_MASK)
}

impl fmt::Debug for WriteLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteLog").field("end", &self.end()).field("is_on", &self.is_on()).finish()
    }
}
