//! The state that readers and waiting writers share under a lock: positions, waiting writers, records outside the ring.
//!
//! No wake-up of a waiting writer is lost. Room is a function of the word, which only grows, and the tail, which
//! moves under the lock. A writer that waits has found more than half of the capacity in use, under the lock;
//! the step of a reader that reaches half of it comes later and finds the writer in the queue.

use super::audience::PartialRange;
use super::{Fault, LogWake, WriteLog, widen};
use crate::shim::{Ordering, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The answer to a writer that has not latched yet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The writer may latch.
    Now,
    /// The writer's token is queued. `wake` will be called for it once; then the writer calls again.
    Waiting,
}

#[derive(Default)]
pub(super) struct RoomState {
    readers: Vec<Option<Position>>,
    /// The tokens of waiting writers, in order of arrival.
    waiters: VecDeque<u64>,
    /// Records outside the ring, by LSN.
    pub(super) spilled: BTreeMap<u64, Arc<[u8]>>,
    /// Ranges that are not for all readers, by LSN.
    pub(super) partial: BTreeMap<u64, PartialRange>,
}

struct Position {
    lsn: u64,
    token: u64,
}

impl RoomState {
    /// Adds a reader and returns its index.
    pub(super) fn add_reader(&mut self, lsn: u64, token: u64) -> Option<usize> {
        let vacant = self.readers.iter().position(Option::is_none);
        let index = vacant.unwrap_or(self.readers.len());
        if index == super::READER_COUNT_MAX {
            return None;
        }
        if index == self.readers.len() {
            self.readers.push(None);
        }
        self.readers[index] = Some(Position { lsn, token });
        Some(index)
    }

    /// The tokens of the readers in the bit set.
    pub(super) fn reader_tokens(&self, bits: u64) -> Vec<u64> {
        let is_in = |(index, _): &(usize, &Option<Position>)| bits >> index & 1 == 1;
        self.readers
            .iter()
            .enumerate()
            .filter(is_in)
            .filter_map(|(_, it)| it.as_ref())
            .map(|it| it.token)
            .collect()
    }
}

impl WriteLog {
    /// Whether a request that appends about `size` bytes may latch. True if the log is off. A record of more than
    /// half of the capacity needs an emptier ring, but not an empty one.
    #[inline]
    #[must_use]
    pub fn has_room(&self, size: usize) -> bool {
        !self.is_on() || self.used() + (size as u64).min(self.capacity / 2) <= self.capacity
    }

    /// As [`Self::has_room`], but queues the writer's `token` if there is no room. The writer must not hold a
    /// latch. Its owner continues with other sessions, and calls [`LogWriter::notify`](super::LogWriter::notify) before
    /// it waits for events: a sleeping reader makes no room.
    pub fn wait_for_room(&self, size: usize, token: u64) -> Room {
        let mut state = lock(&self.state);
        if self.has_room(size) {
            return Room::Now;
        }
        state.waiters.push_back(token);
        Room::Waiting
    }

    /// Wakes all waiting writers, although there may be no room: they check again whether they may write at all.
    pub fn wake_writers(&self) {
        let tokens = std::mem::take(&mut lock(&self.state).waiters);
        tokens.into_iter().for_each(|token| (self.wake)(LogWake::Writer(token)));
    }

    /// Removes a waiting writer. Returns whether it was queued; if not, `wake` was or will be called for it.
    pub fn cancel_wait(&self, token: u64) -> bool {
        let mut state = lock(&self.state);
        let position = state.waiters.iter().position(|waiter| *waiter == token);
        position.is_some_and(|position| state.waiters.remove(position).is_some())
    }

    /// Moves a reader to `lsn`, or removes it. Switches the log off with the last one.
    pub(super) fn move_reader(&self, index: usize, lsn: Option<u64>) {
        let mut state = lock(&self.state);
        match (lsn, &mut state.readers[index]) {
            (Some(lsn), Some(reader)) => reader.lsn = lsn,
            (_, reader) => *reader = None,
        }
        match state.readers.iter().flatten().map(|reader| reader.lsn).min() {
            Some(tail) => {
                // Release: pairs with the Acquire of a writer that reuses the bytes below. The other readers'
                // accesses come before their own calls of this function, which the lock orders.
                self.tail.store(tail, Ordering::Release);
                while let Some(first) = state.spilled.first_entry()
                    && first.key() + first.get().len() as u64 <= tail
                {
                    first.remove();
                }
                state.trim_partial(tail);
            }
            None => {
                self.on.store(0, Ordering::Release);
                state.spilled.clear();
                state.partial.clear();
            }
        }
        self.partial_count.store(state.partial.len() as u32, Ordering::Relaxed);
        self.spilled_count.store(state.spilled.len() as u32, Ordering::Relaxed);
        let may_continue = !self.is_on() || self.used() <= self.capacity / 2;
        if state.waiters.is_empty() || !may_continue || self.is_planted(Fault::WritersForgotten) {
            return;
        }
        let tokens = std::mem::take(&mut state.waiters);
        drop(state);
        tokens.into_iter().for_each(|token| (self.wake)(LogWake::Writer(token)));
    }

    /// The bytes that are reserved and not yet read by every reader.
    fn used(&self) -> u64 {
        // The tail is loaded first: with Acquire, the word is then not below it.
        let tail = self.tail.load(Ordering::Acquire);
        widen(self.word.load(Ordering::Relaxed), tail) - tail
    }
}
