//! The queue of the log. The threads that serve clients add lines; one thread writes them, so that no client
//! waits for a file.
//!
//! The queue is bounded: lines for which there is no room are dropped and counted, and the count is logged in
//! their place.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use log::Level;

/// Maximum of queued entries, and of their bytes.
const ENTRY_COUNT_MAX: usize = 8192;
const SIZE_MAX: usize = 8 << 20;

/// An entry of the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// A line, with the time at which it was logged.
    Line(Level, SystemTime, String),
    /// Text to be written unchanged.
    Raw(String),
}

impl Entry {
    fn size(&self) -> usize {
        let (Self::Line(_, _, text) | Self::Raw(text)) = self;
        text.len()
    }
}

/// The content taken out of the queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The entries, in order of arrival.
    pub entries: VecDeque<Entry>,
    /// Number of later entries for which there was no room.
    pub dropped_count: u64,
    /// The number of the last entry that was added before.
    pub last: u64,
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    size: usize,
    /// Number of entries that were ever added.
    added_count: u64,
    /// Whether the batch taken last is still being written.
    is_writing: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, or counts it if there is no room. Returns the number of the last entry.
    pub fn push(&self, entry: Entry) -> u64 {
        let mut waiting = self.lock();
        // After one dropped entry all are dropped until the writer takes the count, which is logged in their place.
        let is_full = waiting.batch.dropped_count > 0
            || waiting.batch.entries.len() >= ENTRY_COUNT_MAX
            || waiting.size + entry.size() > SIZE_MAX;
        if is_full {
            waiting.batch.dropped_count += 1;
            return waiting.added_count;
        }
        waiting.size += entry.size();
        waiting.batch.entries.push_back(entry);
        waiting.added_count += 1;
        let last = waiting.added_count;
        drop(waiting);
        self.filled.notify_one();
        last
    }

    /// The number of the last entry that was added.
    pub fn last(&self) -> u64 {
        self.lock().added_count
    }

    /// Waits for entries, and takes all of them. To be called by the writing thread, which calls [`Self::done`]
    /// after it has written them.
    pub fn take(&self) -> Batch {
        let mut waiting = self.lock();
        while waiting.batch.entries.is_empty() && waiting.batch.dropped_count == 0 {
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_writing = true;
        waiting.take()
    }

    /// Marks the taken entries as written.
    pub fn done(&self) {
        self.lock().is_writing = false;
        self.written.notify_all();
    }

    /// Waits until all entries are written, with a time limit: a write may hang.
    pub fn wait_until_written(&self, time: Duration) {
        let is_pending = |waiting: &mut Waiting| {
            waiting.is_writing || !waiting.batch.entries.is_empty() || waiting.batch.dropped_count > 0
        };
        // A timeout makes no difference: the process ends anyway.
        drop(self.written.wait_timeout_while(self.lock(), time, is_pending));
    }

    /// Takes the entries in a process where a fault may have stopped the thread that holds the lock.
    pub fn take_within(&self, time: Duration) -> Batch {
        let started = Instant::now();
        loop {
            let mut waiting = match self.waiting.try_lock() {
                Ok(waiting) => waiting,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if started.elapsed() >= time => return Batch::default(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            return waiting.take();
        }
    }
}

impl Waiting {
    fn take(&mut self) -> Batch {
        self.size = 0;
        Batch { last: self.added_count, ..std::mem::take(&mut self.batch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Entry {
        Entry::Line(Level::Info, SystemTime::UNIX_EPOCH, text.to_owned())
    }

    #[test]
    fn dropped_lines_are_counted_at_their_place() {
        let queue = Queue::default();
        for _ in 0..ENTRY_COUNT_MAX + 5 {
            queue.push(line("x"));
        }
        let batch = queue.take();
        assert_eq!((batch.entries.len(), batch.dropped_count), (ENTRY_COUNT_MAX, 5));
        queue.push(Entry::Raw("y".repeat(SIZE_MAX)));
        queue.push(line("x"));
        queue.push(Entry::Raw(String::new()));
        let batch = queue.take();
        assert_eq!((batch.entries.len(), batch.dropped_count), (1, 2));
        assert_eq!((batch.last, queue.last()), (ENTRY_COUNT_MAX as u64 + 1, ENTRY_COUNT_MAX as u64 + 1));
        queue.push(line("z"));
        let expected =
            Batch { entries: [line("z")].into(), dropped_count: 0, last: ENTRY_COUNT_MAX as u64 + 2 };
        assert_eq!(queue.take_within(Duration::MAX), expected);
    }

    #[test]
    fn the_end_waits_for_lines_being_written() {
        let queue = Queue::default();
        queue.push(line("x"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(queue.take().entries.len(), 1);
                queue.done();
            });
            queue.wait_until_written(Duration::MAX);
        });
        assert!(queue.lock().batch.entries.is_empty() && !queue.lock().is_writing);
        // A stuck lock delays no thread for ever.
        let _stuck = queue.lock();
        assert_eq!(queue.take_within(Duration::ZERO), Batch::default());
    }
}
