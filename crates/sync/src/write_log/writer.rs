//! Appending: reserve, copy, publish.

use super::{Audience, BUSY, Fault, IDLE, LogWake, POSITION_MASK, WriteLog, database_of, pack, widen};
use crate::shim::{Ordering, fence, lock};
use base::{DbIndex, Lsn};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How far ahead of a record the ring is prefetched: some records of usual size.
const PREFETCH_DISTANCE: u64 = 512;

/// Bytes to append in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The database to which the record applies, or `None` if it applies to any.
    pub database: Option<DbIndex>,
    /// The database that is selected after the record. `None` if the record does not change it.
    pub leaves: Option<DbIndex>,
    /// The text that selects `database`, written first if another database is selected.
    pub select: &'a [u8],
    /// The record's bytes, one after the other.
    pub parts: &'a [&'a [u8]],
    /// For which readers it is. After one that is not for all, the database must be selected again.
    pub audience: Audience,
    /// For which readers the text is that selects `database`; as `audience`, if that is not [`Audience::All`].
    pub select_audience: Audience,
    /// Ranges of the bytes of `parts` that are for some readers only.
    pub partial: &'a [(Range<usize>, Audience)],
}

impl<'a> Record<'a> {
    /// A record of these parts for all readers, that applies to any database.
    #[must_use]
    pub const fn new(parts: &'a [&'a [u8]]) -> Self {
        let (audience, select_audience) = (Audience::All, Audience::All);
        Self { database: None, leaves: None, select: &[], parts, audience, select_audience, partial: &[] }
    }

    /// A record for an audience, that applies to any database.
    #[must_use]
    pub const fn for_audience(parts: &'a [&'a [u8]], audience: Audience) -> Self {
        Self { audience, select_audience: audience, ..Self::new(parts) }
    }
}

/// The range of an appended record, including the text that selects its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The first byte.
    pub start: Lsn,
    /// The byte after the last one.
    pub end: Lsn,
}

/// A thread's access to the log for writing. It owns a lane.
pub struct LogWriter {
    log: Arc<WriteLog>,
    lane: usize,
    has_appended: bool,
}

impl WriteLog {
    /// Creates the writer of a lane. Panics if the lane has one already.
    #[must_use]
    pub fn writer(self: &Arc<Self>, lane: usize) -> LogWriter {
        let writer = self.try_writer(lane);
        writer.unwrap_or_else(|| panic!("lane {lane} of the log has a writer already"))
    }

    /// Creates a writer of the first lane without one; `None` if each has one.
    #[must_use]
    pub fn any_writer(self: &Arc<Self>) -> Option<LogWriter> {
        (0..self.lanes.len()).find_map(|lane| self.try_writer(lane))
    }

    fn try_writer(self: &Arc<Self>, lane: usize) -> Option<LogWriter> {
        if self.lanes[lane].taken.swap(1, Ordering::AcqRel) != 0 {
            return None;
        }
        self.lane_used_count.fetch_max(lane as u32 + 1, Ordering::Relaxed);
        Some(LogWriter { log: Arc::clone(self), lane, has_appended: false })
    }
}

impl LogWriter {
    /// The log.
    #[must_use]
    pub fn log(&self) -> &Arc<WriteLog> {
        &self.log
    }

    /// Appends a record. Never waits, even if the ring is full. The caller holds the latches of the change that the
    /// record describes, and calls [`Self::notify`] after releasing them.
    ///
    /// Returns `None` if the log is off.
    #[inline]
    pub fn append(&mut self, record: &Record<'_>) -> Option<Appended> {
        let log = &*self.log;
        if !log.is_on() {
            return None;
        }
        let lane = &log.lanes[self.lane].reserving;
        let record_size: usize = record.parts.iter().map(|part| part.len()).sum();
        let mut seen = log.word.load(Ordering::Relaxed);
        let select = loop {
            // Release: orders the copy of the lane's previous record before this, see invariant 2.
            lane.store(BUSY | seen & POSITION_MASK, Ordering::Release);
            let selected = database_of(seen);
            let select =
                if record.database.is_some() && record.database != selected { record.select } else { &[] };
            let position = (seen & POSITION_MASK) + (select.len() + record_size) as u64;
            let leaves = match record.audience {
                Audience::All => record.leaves.or(record.database).or(selected),
                _ if select.is_empty() && record.leaves == record.database => selected,
                _ => None,
            };
            let next = pack(position, leaves);
            // Release pairs with the Acquire in `complete_from`. All changes of the word are read-modify-writes, so
            // later ones continue the release sequence.
            match log.word.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break select,
                Err(now) => seen = now,
            }
        };
        // Acquire pairs with the Release in `move_reader`. The tail cannot pass this record's start.
        let tail = log.tail.load(Ordering::Acquire);
        let start = widen(seen, tail);
        let end = start + (select.len() + record_size) as u64;
        if log.is_planted(Fault::PublishedEarly) {
            lane.store(IDLE, Ordering::Release);
        }
        if end - tail <= log.capacity || end - start <= log.capacity && log.is_planted(Fault::RingOverrun) {
            log.copy(start, select, record.parts);
        } else {
            log.spill(start, select, record.parts);
        }
        let is_late = log.is_planted(Fault::LateAudience);
        if is_late {
            lane.store(IDLE, Ordering::Release);
        }
        match (record.audience, record.select_audience) {
            (Audience::All, Audience::All) => {}
            (Audience::All, of_select) => log.note_partial(start, start + select.len() as u64, of_select),
            (audience, _) => log.note_partial(start, end, audience),
        }
        let parts_start = start + select.len() as u64;
        for (range, audience) in record.partial {
            log.note_partial(parts_start + range.start as u64, parts_start + range.end as u64, *audience);
        }
        if !is_late {
            // Release: invariant 2.
            lane.store(IDLE, Ordering::Release);
        }
        self.has_appended = true;
        Some(Appended { start: Lsn(start), end: Lsn(end) })
    }

    /// As [`Self::append`], for a record that belongs to no latch.
    pub fn append_unlatched(&mut self, record: &Record<'_>) -> Option<Appended> {
        let log = Arc::clone(&self.log);
        let _unlatched = log.hold_unlatched();
        self.append(record)
    }

    /// Whether anything was appended since the last call of [`Self::notify`].
    #[must_use]
    #[inline]
    pub fn has_appended(&self) -> bool {
        self.has_appended
    }

    /// Wakes the readers that sleep, if anything was appended since the last call. Called after the latches are
    /// released, and at the latest before this thread waits for events: until then a sleeping reader may not see the
    /// records.
    #[inline]
    pub fn notify(&mut self) {
        if std::mem::take(&mut self.has_appended) {
            // Pairs with the fence in `prepare_sleep`: either the reader sees the records, or this thread sees that
            // it sleeps.
            fence(Ordering::SeqCst);
            if self.log.sleepers.load(Ordering::Relaxed) != 0 {
                self.log.wake_readers();
            }
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.notify();
        self.log.lanes[self.lane].taken.store(0, Ordering::Release);
    }
}

impl WriteLog {
    #[inline(always)]
    fn copy(&self, start: u64, select: &[u8], parts: &[&[u8]]) {
        let ring = self.ring.get().expect("the ring exists since the log was switched on");
        let mut at = start;
        for part in std::iter::once(&select).chain(parts) {
            // SAFETY: (1) the range is reserved for this thread; no reader passes the start of this record while the
            // lane is busy, and all readers have passed the bytes that were here before: the end is at most the
            // tail plus the capacity. (2) For the same reason the record is not longer than the ring.
            unsafe { ring.write(at, part) };
            at += part.len() as u64;
        }
        ring.prefetch(start + PREFETCH_DISTANCE, at + PREFETCH_DISTANCE);
    }

    /// Keeps a record that does not fit in the ring.
    #[cold]
    #[inline(never)]
    fn spill(&self, start: u64, select: &[u8], parts: &[&[u8]]) {
        let bytes: Vec<u8> = std::iter::once(&select).chain(parts).copied().flatten().copied().collect();
        let mut state = lock(&self.state);
        if self.is_on() {
            state.spilled.insert(start, bytes.into());
            self.spilled_count.store(state.spilled.len() as u32, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_readers(&self) {
        let asleep = self.sleepers.swap(0, Ordering::AcqRel);
        let tokens = lock(&self.state).reader_tokens(asleep);
        tokens.into_iter().for_each(|token| (self.wake)(LogWake::Reader(token)));
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogWriter {{ lane: {} }}", self.lane)
    }
}
