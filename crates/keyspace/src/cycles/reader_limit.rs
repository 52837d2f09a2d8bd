//! Keeps the number of keys that are recorded for client-side caching below a limit.

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};

use crate::latching::Latching;
use crate::store::key::Key;

impl Latching<'_> {
    /// Notifies and removes readers of random keys until at most `key_count_max` keys are recorded. Visits
    /// `slot_count` slots that are free now, from a random one on. Removes at most `removed_count_max` keys, so that the
    /// time is bounded after the limit was lowered by much.
    pub fn limit_reader_keys(&mut self, key_count_max: usize, slot_count: usize, removed_count_max: usize) {
        let mut left = removed_count_max;
        let keyspace = self.keyspace();
        let start = self.random().below(SLOT_COUNT as u64) as usize;
        for slot in (0..slot_count.min(SLOT_COUNT)).map(|offset| (start + offset) % SLOT_COUNT) {
            if left == 0 || keyspace.reader_totals.key_count() <= key_count_max {
                return;
            }
            if self.held_data(Slot::new(slot as u16)).is_some() {
                continue;
            }
            let Some(mut guard) = keyspace.slots().try_write_now(slot) else { continue };
            if !guard.has_readers() {
                continue;
            }
            let readers = guard.readers_or_new();
            let excess = keyspace.reader_totals.key_count().saturating_sub(key_count_max);
            for key in readers.some_keys(excess.min(left)) {
                left -= 1;
                let hashed = Key::new(keyspace.hasher(), &key, DbIndex(0));
                let clients = readers.take(hashed, &keyspace.reader_totals);
                self.notify_readers(&key, clients);
            }
        }
    }
}
