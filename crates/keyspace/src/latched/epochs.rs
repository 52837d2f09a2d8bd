//! A thread's participation in the keyspace's epochs: memory that it prefetches is not freed before the
//! thread is next quiescent.
//!
//! A *pass* is the time between two quiescent states. Memory prefetched in a pass may be read in this pass
//! only, as its number shows.

use collections::Retired;
use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Participant;

use crate::store::keyspace::Keyspace;

/// The number that stands for no pass.
pub(crate) const NO_PASS: u64 = 0;

/// Number of blocks of passes that were assigned so far in the process. No two participants share a block: a participant must
/// not read memory that another participant has prefetched.
static BLOCK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Bits of a pass's number that count the passes of one block: enough for minutes, a turn each microsecond. Above them is
/// the number of the block: enough for years, a thread or a full block each millisecond.
const PASS_BITS: u32 = 28;

/// The number of the last pass of a block, within it.
const LAST_OF_BLOCK: u64 = (1 << PASS_BITS) - 1;

/// Bytes of segments that one thread replaces before it frees some.
const RETIRED_SIZE_MAX: usize = 1 << 20;

/// A thread's participation in the epochs.
pub(crate) struct Epochs<'k> {
    /// `None`: the thread does not prefetch.
    participant: Option<Participant<'k, Retired>>,
    /// The number of the current pass.
    pass: u64,
    /// The number of the last pass, also while there is none.
    last_pass: u64,
    /// Bytes retired in this pass.
    retired_size: usize,
    /// Segments that may be freed.
    retired: Vec<Retired>,
}

impl<'k> Epochs<'k> {
    pub(crate) const fn new() -> Self {
        Self { participant: None, pass: NO_PASS, last_pass: NO_PASS, retired_size: 0, retired: Vec::new() }
    }

    /// Registers the thread. `false`: the number of participants is at its maximum.
    pub(crate) fn join(&mut self, keyspace: &'k Keyspace) -> bool {
        self.participant = keyspace.segments.register();
        self.begin_block();
        self.begin_pass();
        self.participant.is_some()
    }

    /// The number of the current pass.
    #[inline(always)]
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// Continues with the passes of a new block.
    #[cold]
    fn begin_block(&mut self) {
        self.last_pass = BLOCK_COUNT.fetch_add(1, Ordering::Relaxed) << PASS_BITS;
    }

    #[inline]
    fn begin_pass(&mut self) {
        if self.participant.is_some() {
            if self.last_pass & LAST_OF_BLOCK == LAST_OF_BLOCK {
                self.begin_block();
            }
            self.last_pass += 1;
            self.pass = self.last_pass;
        }
    }

    /// Marks the thread quiescent.
    #[inline]
    pub(crate) fn quiescent(&mut self) {
        if self.pass != NO_PASS {
            self.begin_pass();
        }
        if let Some(participant) = &self.participant {
            participant.quiescent();
        }
    }

    /// Marks the thread asleep.
    pub(crate) fn offline(&mut self) {
        self.pass = NO_PASS;
        if let Some(participant) = &self.participant {
            participant.offline();
        }
    }

    /// Marks the thread awake.
    pub(crate) fn online(&mut self) {
        if let Some(participant) = &self.participant {
            participant.online();
        }
        self.begin_pass();
    }

    /// Announces a quiescent state within a command or turn that replaces many segments: otherwise none could
    /// be freed before its end. Memory prefetched earlier must not be read afterwards.
    #[cold]
    pub(crate) fn note_retired(&mut self, keyspace: &Keyspace, size: usize) {
        self.retired_size += size;
        if self.retired_size < RETIRED_SIZE_MAX {
            return;
        }
        self.retired_size = 0;
        if self.participant.is_some() {
            self.quiescent();
            // Frees all of them: about as many as this thread has just retired.
            loop {
                keyspace.reclaim(&mut self.retired);
                if self.retired.is_empty() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_passes_have_one_number() {
        let keyspace = Keyspace::new(1, [1, 2, 3, 4], |_| {});
        let mut seen = HashSet::new();
        // More threads start than a smaller number could count, and some work for long.
        let starts = BLOCK_COUNT.fetch_max(1 << 21, Ordering::Relaxed);
        for start in 0..starts.max(100) {
            let mut epochs = Epochs::new();
            assert!(epochs.join(&keyspace));
            if start % 2 == 0 {
                epochs.last_pass |= LAST_OF_BLOCK - 2;
            }
            for _ in 0..5 {
                epochs.quiescent();
                assert!(epochs.pass() != NO_PASS && seen.insert(epochs.pass()));
            }
        }
    }
}
