//! Reading: complete ranges in order, at each reader's own pace.

use super::{Audience, Fault, WriteLog};
use crate::shim::{Ordering, fence, lock};
use base::Lsn;
use std::fmt;
use std::sync::Arc;

/// A position in the log. The log keeps everything from it on, and bytes before it that were passed and not released.
pub struct LogReader {
    log: Arc<WriteLog>,
    index: usize,
    audience: Audience,
    lsn: u64,
    /// The log keeps everything from here on. Not above `lsn`.
    kept: u64,
    /// Everything below is copied. Not below `lsn`.
    complete: u64,
    /// The record outside the ring that was last found, and its LSN.
    spilled: Option<(u64, Arc<[u8]>)>,
}

/// Contiguous bytes of the stream, in one or two pieces.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'r> {
    /// The LSN of the first byte.
    pub start: Lsn,
    /// The pieces. The second may be empty; both are if there is nothing to read.
    pub pieces: [&'r [u8]; 2],
}

impl Chunk<'_> {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces[0].len() + self.pieces[1].len()
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces[0].is_empty()
    }
}

impl LogReader {
    pub(super) fn new(log: Arc<WriteLog>, index: usize, lsn: u64, audience: Audience) -> Self {
        if audience == Audience::Replicas {
            log.replica_reader_count.fetch_add(1, Ordering::Relaxed);
        }
        LogReader { log, index, audience, lsn, kept: lsn, complete: lsn, spilled: None }
    }

    /// The LSN of the next byte to read.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// The lowest LSN that [`Self::return_to`] accepts.
    #[must_use]
    pub fn kept(&self) -> Lsn {
        Lsn(self.kept)
    }

    /// The LSN up to which everything can be read: the first gap. It is between two records, and never decreases.
    pub fn complete_end(&mut self) -> Lsn {
        self.complete = self.complete.max(self.log.complete_from(self.lsn));
        Lsn(self.complete)
    }

    /// Bytes to read, from the reader's LSN up to `limit` at most. Empty only if there is nothing to read below
    /// `limit`; there may be more behind them. A chunk that does not end at `limit` ends between two records, or between
    /// a record and the text that selects its database.
    ///
    /// The reader's LSN first moves over what is not for this reader.
    pub fn bytes(&mut self, limit: Lsn) -> Chunk<'_> {
        let mut end = self.complete_end().0.min(limit.0).max(self.lsn);
        while let Some((passed_over, until)) = self.log.next_passed_over(self.lsn, end, self.audience) {
            if passed_over > self.lsn {
                end = passed_over;
                break;
            }
            self.pass_over(until.min(end));
            if self.lsn == end {
                break;
            }
        }
        let start = self.lsn;
        // The lock is needed only for records outside the ring. The count was stored before the writer's lane became
        // idle, so a record below `end` is counted.
        if self.log.spilled_count.load(Ordering::Relaxed) != 0 || self.spilled.is_some() {
            self.find_spilled(end);
        }
        if let Some((at, bytes)) = &self.spilled {
            if *at <= start {
                let rest = &bytes[(start - at) as usize..];
                let piece = &rest[..rest.len().min((end - start) as usize)];
                return Chunk { start: Lsn(start), pieces: [piece, &[]] };
            }
            end = end.min(*at);
        }
        let ring = self.log.ring.get().expect("the ring exists since the log was switched on");
        // SAFETY: (1) all records below `end` are copied, and none is outside the ring. Nothing is written over them
        // before this reader advances, which needs `&mut self`. (2) Records in the ring end at most a
        // capacity above the tail, which is at most `start`.
        let (first, second) = unsafe { ring.slices(start, end) };
        Chunk { start: Lsn(start), pieces: [first, second] }
    }

    /// Moves past `size` bytes, which have been read, and releases them.
    pub fn advance(&mut self, size: usize) {
        self.pass(size);
        self.release(self.lsn());
    }

    /// Moves past `size` bytes, which have been read. The log keeps them until they are released.
    pub fn pass(&mut self, size: usize) {
        let lsn = self.lsn + size as u64;
        assert!(lsn <= self.complete, "a reader can't pass a gap");
        let is_in_ring = self.spilled.as_ref().is_none_or(|(at, _)| lsn <= *at);
        if let (true, Some(ring)) = (is_in_ring, self.log.ring.get()) {
            ring.note_read(self.lsn, lsn);
        }
        self.lsn = lsn;
        if self.spilled.as_ref().is_some_and(|(at, bytes)| at + bytes.len() as u64 <= lsn) {
            self.spilled = None;
        }
    }

    /// Moves over bytes that are not for this reader, and releases them unless earlier ones are kept.
    fn pass_over(&mut self, to: u64) {
        let keeps_earlier = self.kept < self.lsn;
        self.pass((to - self.lsn) as usize);
        if !keeps_earlier {
            self.release(Lsn(to));
        }
    }

    /// Releases the bytes below `to`: the log needs not keep them.
    pub fn release(&mut self, to: Lsn) {
        assert!(to.0 <= self.lsn, "only what was passed can be released");
        if to.0 <= self.kept {
            return;
        }
        self.kept = to.0;
        self.log.move_reader(self.index, Some(to.0));
    }

    /// Moves back to bytes that were passed and not released, to read them again.
    pub fn return_to(&mut self, lsn: Lsn) {
        assert!(self.kept <= lsn.0 && lsn.0 <= self.lsn, "only what is kept can be read again");
        self.lsn = lsn.0;
        self.spilled = None;
    }

    /// Marks this reader as asleep and returns true. If there is something to read, returns false.
    ///
    /// The next [`LogWriter::notify`](super::LogWriter::notify) wakes it, once. A wake-up may come without anything
    /// to read: an earlier record is not copied yet, and its writer will notify too.
    #[must_use = "false: there is something to read, and no wake-up may follow"]
    pub fn prepare_sleep(&mut self) -> bool {
        self.log.sleepers.fetch_or(self.bit(), Ordering::Relaxed);
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        let is_idle = self.complete_end().0 == self.lsn || self.log.is_planted(Fault::SleepUnchecked);
        if !is_idle {
            self.awake();
        }
        is_idle
    }

    /// Marks this reader as awake. Must be called after each sleep, whatever ended it.
    pub fn awake(&mut self) {
        self.log.sleepers.fetch_and(!self.bit(), Ordering::Relaxed);
    }

    fn bit(&self) -> u64 {
        1 << self.index
    }

    /// Finds the first record outside the ring at or above the position and below `end`.
    fn find_spilled(&mut self, end: u64) {
        if self.spilled.is_some() {
            return;
        }
        let state = lock(&self.log.state);
        let covering = state.spilled.range(..=self.lsn).next_back();
        let is_here = |(at, bytes): &(&u64, &Arc<[u8]>)| **at + bytes.len() as u64 > self.lsn;
        let next = || state.spilled.range(self.lsn..end).next();
        let found = covering.filter(is_here).or_else(next);
        self.spilled = found.map(|(at, bytes)| (*at, Arc::clone(bytes)));
    }
}

impl Drop for LogReader {
    /// Detaches the reader. Without readers the log is off.
    fn drop(&mut self) {
        self.awake();
        if self.audience == Audience::Replicas {
            self.log.replica_reader_count.fetch_sub(1, Ordering::Relaxed);
        }
        self.log.move_reader(self.index, None);
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogReader {{ lsn: {} }}", self.lsn)
    }
}
