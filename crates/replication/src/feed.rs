//! The feed: moves what the write log has for replicas into the backlog, from which each replica is sent what it lacks.
//!
//! Any thread that has appended to the log requests a move, after it has released its latches, so no thread of its own is
//! needed and the log never waits for a replica. A replica that falls behind what may be kept is lost: it must synchronise
//! anew.
//!
//! | state | to | by |
//! |---|---|---|
//! | off | on | [`Feed::begin`], under all latches |
//! | on | off | [`Feed::end`]; the data get another id |
//!
//! Invariants:
//! 1. While it is on, its reader of the log is at the LSN that the backlog's end has.
//! 2. Cursors are not below the kept part of the backlog, unless they are lost.
//! 3. An offset of an LSN is never below the true one: waiting for it waits long enough.

use std::collections::VecDeque;
use std::sync::Arc;

use base::Lsn;
use sync::CombiningLock;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::simulation::planted;
use sync::write_log::LogReader;

use crate::backlog::Backlog;
use crate::faults;
use crate::history::History;
use crate::id::ReplicationId;

/// The number of places in the log at which the distance between LSN and offset changes that are remembered.
const ANCHOR_COUNT_MAX: usize = 1024;

/// A cursor that is lost.
const LOST: u64 = u64::MAX;

/// See the module documentation.
pub struct Feed {
    state: CombiningLock<FeedState>,
    shown: Arc<Shown>,
}

/// What other threads read without the lock.
struct Shown {
    is_on: AtomicBool,
    end: AtomicU64,
    memory_bytes: AtomicU64,
    /// Called when the end has moved.
    moved: Box<dyn Fn(u64) + Send + Sync>,
}

/// A place in the stream up to which a replica has received it. Bytes from there on are kept.
#[derive(Debug)]
pub struct Cursor(AtomicU64);

struct FeedState {
    reader: Option<LogReader>,
    backlog: Backlog,
    history: History,
    anchors: VecDeque<Anchor>,
    cursors: Vec<Arc<Cursor>>,
    /// The most bytes that are kept for a cursor; `u64::MAX`: all.
    kept_size_max: u64,
    shown: Arc<Shown>,
}

/// From this LSN on, up to the next anchor, offset and LSN grow alike.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    lsn: u64,
    offset: u64,
}

/// The state of the stream, for `INFO`.
#[derive(Clone, Copy, Debug)]
pub struct FeedFigures {
    /// Whether there is a backlog.
    pub is_on: bool,
    /// The histories.
    pub history: History,
    /// The offset of the end.
    pub end: u64,
    /// The lowest offset from which a replica may continue: of the window, or below it while another replica needs that.
    pub kept_start: u64,
    /// The size of the window in force.
    pub size: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// What a replica gets that asks to continue.
#[derive(Clone, Debug)]
pub enum Resumption {
    /// The stream from where it is, with the id of the data.
    Partial(ReplicationId, Arc<Cursor>),
    /// A snapshot.
    Full,
}

/// A replica lacks bytes that are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl Cursor {
    /// The offset, unless it is lost.
    ///
    /// # Errors
    /// It is lost.
    pub fn offset(&self) -> Result<u64, Lost> {
        match self.0.load(Ordering::Acquire) {
            LOST => Err(Lost),
            offset => Ok(offset),
        }
    }

    /// Moves it on, unless it is lost.
    pub fn advance(&self, to: u64) {
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |at| (at != LOST).then_some(to));
    }
}

impl Feed {
    /// A feed that is off. `moved` receives the end whenever it has moved, and must not call the feed.
    #[must_use]
    pub fn new(id: ReplicationId, size: u64, moved: impl Fn(u64) + Send + Sync + 'static) -> Self {
        let shown = Shown {
            is_on: AtomicBool::new(false),
            end: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            moved: Box::new(moved),
        };
        let shown = Arc::new(shown);
        let state = FeedState {
            reader: None,
            backlog: Backlog::new(0, size),
            history: History::new(id),
            anchors: VecDeque::new(),
            cursors: Vec::new(),
            kept_size_max: u64::MAX,
            shown: Arc::clone(&shown),
        };
        Self { state: CombiningLock::new(state, FeedState::take_from_log), shown }
    }

    /// Whether it is on.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shown.is_on.load(Ordering::Relaxed)
    }

    /// The offset of the end: `master_repl_offset`.
    #[must_use]
    #[inline]
    pub fn end_offset(&self) -> u64 {
        self.shown.end.load(Ordering::Acquire)
    }

    /// Bytes of memory of the backlog.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shown.memory_bytes.load(Ordering::Relaxed)
    }

    /// Moves what the log has. Never blocks: another thread may do it. Called without latches, or with all of them.
    #[inline]
    pub fn request_move(&self) {
        if self.is_on() {
            self.state.request();
        }
    }

    /// Moves what the log has, before it returns. With all latches and no append without latches under way, its end is then
    /// exact.
    pub fn move_now(&self) -> u64 {
        self.state.with(|state| {
            state.take_at_cut();
            state.backlog.end()
        })
    }

    /// Switches it on, with a reader that was attached at the end of the log under all latches, which are still held. Its
    /// backlog begins there.
    pub fn begin(&self, reader: LogReader) {
        self.state.with(|state| {
            let (lsn, offset) = (reader.lsn().0, state.backlog.end());
            state.backlog = Backlog::new(offset, state.backlog.size());
            state.anchors = VecDeque::from([Anchor { lsn, offset }]);
            state.reader = Some(reader);
            state.shown.is_on.store(true, Ordering::Release);
        });
    }

    /// Switches it off, and gives the data another id, as changes are not counted any more.
    pub fn end(&self, id: ReplicationId) {
        self.state.with(|state| {
            state.shown.is_on.store(false, Ordering::Release);
            state.reader = None;
            state.lose_all();
            state.backlog = Backlog::new(state.backlog.end(), state.backlog.size());
            state.history = History::new(id);
            state.trim();
        });
    }

    /// Sets the size of the window, and the most bytes that are kept for a replica; 0: all.
    pub fn configure(&self, size: u64, kept_size_max: u64) {
        self.state.with(|state| {
            state.backlog.resize(size);
            state.kept_size_max = if kept_size_max == 0 { u64::MAX } else { kept_size_max.max(size) };
            state.trim();
        });
    }

    /// Begins another history at an offset: after a full synchronisation, or with the data of a file. Replicas of this server
    /// are lost.
    pub fn reset(&self, history: History, offset: u64) {
        self.state.with(|state| {
            state.take_from_log();
            state.lose_all();
            state.backlog = Backlog::new(offset, state.backlog.size());
            state.history = history;
            if let Some(reader) = &state.reader {
                state.anchors = VecDeque::from([Anchor { lsn: reader.lsn().0, offset }]);
            }
            state.show_end();
        });
    }

    /// Gives the data another id; the present one stays valid up to the end.
    pub fn shift_id(&self, id: ReplicationId) {
        self.state.with(|state| {
            state.take_from_log();
            let offset = state.backlog.end();
            state.history.shift(id, offset);
        });
    }

    /// Gives the data another id; the present one is not valid any more.
    pub fn change_id(&self, id: ReplicationId) {
        self.state.with(|state| state.history = History::new(id));
    }

    /// The histories.
    #[must_use]
    pub fn history(&self) -> History {
        self.state.with(|state| state.history)
    }

    /// The state, for `INFO`.
    #[must_use]
    pub fn figures(&self) -> FeedFigures {
        self.state.with(|state| FeedFigures {
            is_on: state.reader.is_some(),
            history: state.history,
            end: state.backlog.end(),
            kept_start: state.backlog.kept_start(),
            size: state.backlog.size(),
            memory_bytes: if state.reader.is_some() { state.backlog.memory_bytes() } else { 0 },
        })
    }

    /// A cursor at the end, for a replica that gets a snapshot of this instant. All latches are held.
    #[must_use]
    pub fn attach_at_end(&self) -> Arc<Cursor> {
        self.state.with(|state| {
            state.take_at_cut();
            state.add_cursor(state.backlog.end())
        })
    }

    /// How a replica with data of this history and offset continues.
    #[must_use]
    pub fn resume(&self, id: ReplicationId, offset: u64) -> Resumption {
        self.state.with(|state| {
            state.take_from_log();
            let late = u64::from(planted(faults::LATE_RESUME) && offset < state.backlog.end());
            match state.reader.is_some() && state.history.contains(id, offset) && state.backlog.has(offset) {
                true => Resumption::Partial(state.history.id(), state.add_cursor(offset + late)),
                false => Resumption::Full,
            }
        })
    }

    /// Removes a cursor: its replica is gone.
    pub fn detach(&self, cursor: &Arc<Cursor>) {
        self.state.with(|state| {
            state.cursors.retain(|other| !Arc::ptr_eq(other, cursor));
            state.trim();
        });
    }

    /// Appends to `out` what follows the cursor, below `limit` and at most `size_max` bytes, and moves the cursor on.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The bytes are not kept any more.
    pub fn read(
        &self,
        cursor: &Cursor,
        limit: u64,
        size_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Lost> {
        self.state.with(|state| {
            let offset = cursor.offset()?;
            let size_max = size_max.min(usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX));
            let size = state.backlog.read(offset, size_max, out).ok_or(Lost)?;
            cursor.advance(offset + size as u64);
            Ok(size)
        })
    }

    /// The id of the data, and the offset of an LSN, below which all records are complete; `None`: the stream has begun behind it, or
    /// it is too far back.
    #[must_use]
    pub fn position_of(&self, lsn: Lsn) -> Option<(ReplicationId, u64)> {
        if !self.is_on() {
            return None;
        }
        self.state.with(|state| {
            state.take_from_log();
            let offset = state.known_offset(lsn)?;
            let is_taken = state.reader.as_ref().is_some_and(|reader| lsn <= reader.lsn());
            is_taken.then(|| (state.history.id(), offset))
        })
    }

    /// The offset up to which replicas have all that the log has for them up to an LSN, or a higher one, while a record before
    /// it is still being appended.
    #[must_use]
    pub fn offset_of(&self, lsn: Lsn) -> u64 {
        self.state.with(|state| {
            state.take_from_log();
            state.offset_of(lsn.0)
        })
    }

    /// The offset up to which all bytes of the stream are below an LSN, at which a record ends. `None`: the LSN is from before
    /// the beginning of this stream, or of bytes so long ago that their offsets are forgotten.
    #[must_use]
    pub fn offset_below(&self, lsn: Lsn) -> Option<u64> {
        self.state.with(|state| {
            state.take_from_log();
            Some(state.known_offset(lsn)?.min(state.backlog.end()))
        })
    }
}

impl FeedState {
    /// Moves what the log has into the backlog.
    fn take_from_log(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let before = self.backlog.end();
        loop {
            let expected = reader.lsn().0;
            let chunk = reader.bytes(Lsn(u64::MAX));
            let (start, size) = (chunk.start.0, chunk.len());
            if start != expected {
                // What was passed over has no offset.
                if self.anchors.len() == ANCHOR_COUNT_MAX {
                    self.anchors.pop_front();
                }
                self.anchors.push_back(Anchor { lsn: start, offset: self.backlog.end() });
            }
            if size == 0 {
                break;
            }
            chunk.pieces.iter().for_each(|piece| self.backlog.append(piece));
            reader.advance(size);
        }
        if self.backlog.end() != before {
            self.trim();
            self.show_end();
        }
    }

    fn take_at_cut(&mut self) {
        if !planted(faults::STALE_CUT) {
            self.take_from_log();
        }
    }

    fn show_end(&self) {
        let end = self.backlog.end();
        self.shown.end.store(end, Ordering::Release);
        (self.shown.moved)(end);
    }

    fn add_cursor(&mut self, offset: u64) -> Arc<Cursor> {
        let cursor = Arc::new(Cursor(AtomicU64::new(offset)));
        self.cursors.push(Arc::clone(&cursor));
        cursor
    }

    fn lose_all(&mut self) {
        self.cursors.drain(..).for_each(|cursor| cursor.0.store(LOST, Ordering::Release));
    }

    /// Removes what no replica needs, or may need any more.
    fn trim(&mut self) {
        let lowest = self.backlog.end().saturating_sub(self.kept_size_max);
        self.cursors.retain(|cursor| {
            let is_kept = cursor.offset().is_ok_and(|offset| offset >= lowest);
            if !is_kept {
                cursor.0.store(LOST, Ordering::Release);
            }
            is_kept
        });
        let needed = self.cursors.iter().filter_map(|cursor| cursor.offset().ok()).min();
        self.backlog.trim(needed.unwrap_or(u64::MAX));
        self.shown.memory_bytes.store(self.backlog.memory_bytes(), Ordering::Relaxed);
    }

    /// As [`Self::offset_of`]; `None`: the LSN is below those whose offsets are remembered, or there is no stream.
    fn known_offset(&self, lsn: Lsn) -> Option<u64> {
        let is_known = self.reader.is_some() && self.anchors.front()?.lsn <= lsn.0;
        is_known.then(|| self.offset_of(lsn.0))
    }

    fn offset_of(&self, lsn: u64) -> u64 {
        let end = self.backlog.end();
        let Some(reader) = &self.reader else { return end };
        if let Some(ahead) = lsn.checked_sub(reader.lsn().0).filter(|ahead| *ahead > 0) {
            // A record before it is not complete. All that is between may be for replicas.
            return end + ahead;
        }
        let after = self.anchors.partition_point(|anchor| anchor.lsn <= lsn);
        let limit = self.anchors.get(after).map_or(end, |next| next.offset);
        match after.checked_sub(1).map(|index| self.anchors[index]) {
            Some(anchor) => (anchor.offset + (lsn - anchor.lsn)).min(limit),
            None => limit,
        }
    }
}

#[cfg(test)]
mod tests;
