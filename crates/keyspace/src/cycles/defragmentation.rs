//! Active defragmentation: each thread walks its share of the slots and moves entries out of sparse spans,
//! in steps that a budget can end at any time, so that whole spans become vacant and can be returned to the
//! system.

use base::Slot;
use base::limits::SLOT_COUNT;

use crate::latching::Latching;
use crate::store::keyspace::Keyspace;

/// Buckets walked under one latch. Bounds the time for which it is held: some tens of microseconds.
const STEP_BUCKET_COUNT: usize = 16;

/// The position of a thread's walk.
pub struct DefragmentationCycle {
    thread: usize,
    slot: usize,
    db: usize,
    position: u32,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmentation {
    /// Entries moved.
    pub moved_count: usize,
    /// Entries visited.
    pub examined_count: usize,
    /// Whether the walk reached the end of the share.
    pub is_complete: bool,
}

impl Keyspace {
    /// Bytes of blocks that are carved but not in use: the upper bound of the gain of defragmentation.
    #[must_use]
    pub fn wasted_bytes(&self) -> u64 {
        self.heaps().iter().map(|heap| heap.resident_bytes().saturating_sub(heap.used_bytes())).sum()
    }
}

impl DefragmentationCycle {
    /// A walk over the share of the thread with this number.
    #[must_use]
    pub fn new(thread: usize) -> Self {
        Self { thread, slot: thread, db: 0, position: 0 }
    }

    /// Walks until the end of the share, where the next call starts again, or until `go_on`, called after
    /// each step, returns false. `threads` is the number of threads that share the slots. A latched slot is
    /// skipped.
    pub fn run(
        &mut self,
        latching: &mut Latching<'_>,
        threads: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Defragmentation {
        let threads = threads.max(1);
        let mut done = Defragmentation::default();
        if self.slot % threads != self.thread % threads {
            // The number of threads has changed: the walk goes on where it is.
            let round = self.slot / threads * threads;
            (self.slot, self.db, self.position) = (round + self.thread % threads, 0, 0);
        }
        while self.slot < SLOT_COUNT {
            if !self.step(latching, &mut done) {
                (self.slot, self.db, self.position) = (self.slot + threads, 0, 0);
            }
            if !go_on() {
                return done;
            }
        }
        self.slot = self.thread % threads;
        done.is_complete = true;
        done
    }

    /// One step in one table. Returns whether the slot has more entries.
    fn step(&mut self, latching: &mut Latching<'_>, done: &mut Defragmentation) -> bool {
        let keyspace = latching.keyspace();
        let holds_any = |db: &usize| keyspace.counters.population(*db).keys > 0;
        let Some(mut guard) = keyspace.slots().try_write_now(self.slot) else { return false };
        let has_any = |db| guard.table(keyspace.place(db)).is_some_and(|table| !table.is_empty());
        let Some(db) = (self.db..keyspace.db_count()).find(|db| holds_any(db) && has_any(*db)) else {
            return false;
        };
        if db != self.db {
            (self.db, self.position) = (db, 0);
        }
        let slot = Slot::new(self.slot as u16);
        let heap = keyspace.heap(slot);
        let place = keyspace.place(db);
        let table = guard.table_mut(place);
        let step = table.defragment(heap, self.position, STEP_BUCKET_COUNT);
        done.moved_count += step.moved_count;
        done.examined_count += step.examined_count;
        keyspace.publish(slot, place, guard.table_mut(place));
        match step.next {
            Some(next) => self.position = next,
            None => (self.db, self.position) = (db + 1, 0),
        }
        true
    }
}
