//! Watching keys, and noting their changes.

use base::DbIndex;

use crate::latched::Latched;
use crate::store::aging::Aging;
use crate::store::key::Key;
use crate::store::slot_data::SlotData;
use crate::store::watching::{WatchedKey, Watching};

impl Latched<'_> {
    /// Watches a key that is held for writing.
    pub fn watch(&mut self, key: Key<'_>, watching: &mut Watching) {
        let was_expired = self.lookup(key).is_some_and(|entry| self.is_expired(entry));
        self.slot_data_mut(key.slot).add_watch(key, watching, was_expired);
    }

    /// Whether a watched key has changed, or has expired since. The slots of all keys must be held.
    #[must_use]
    pub fn has_changed(&self, watching: &Watching) -> bool {
        let has_expired = |key: &WatchedKey| {
            let data = self.slot_data(key.slot());
            data.has_expired(key, watching, &self.keyspace.places, self.due())
        };
        watching.has_changed() || watching.keys().any(has_expired)
    }

    /// Ends a session's watches, at once in the slots that are held for writing. The others are left to
    /// [`Latching::remove_ended_watches`](crate::Latching::remove_ended_watches).
    pub fn unwatch(&mut self, watching: Watching) {
        let mut has_all = true;
        for slot in watching.slots() {
            if self.holds_for_writing(slot) {
                self.slot_data_mut(slot).remove_watches(&watching);
            } else {
                has_all = false;
            }
        }
        if !has_all {
            self.deferred.unwatched.push(watching);
        }
    }

    /// Notifies the sessions that watch a key of a change, and records it as ready for its waiters. Its
    /// slot must be held for writing.
    #[inline(always)]
    pub fn note_change(&mut self, key: Key<'_>) {
        if self.events.wanted.any_change() {
            self.record_change(key);
        }
        if self.slot_data_mut(key.slot).is_observed() {
            self.note_observed_change(key.bytes, key.hash, key.db);
        }
    }

    #[cold]
    fn record_change(&mut self, key: Key<'_>) {
        if self.events.wanted.every_change() {
            self.note_changed_key(key.bytes);
        }
        if let (Aging::Lrm { clock }, Some(entry)) = (self.mode.aging, self.lookup(key)) {
            entry.set_access(clock);
        }
    }

    /// [`Self::note_change`] for a slot that is held in addition to the thread's other latches.
    pub(crate) fn note_change_in(&mut self, data: &mut SlotData, key: Key<'_>, now: i64) {
        if self.events.wanted.every_change() {
            self.note_changed_key(key.bytes);
        }
        if data.is_observed() {
            data.note_change(key, &self.keyspace.places, now, &mut self.deferred.ready);
        }
        if data.has_readers() {
            let readers = data.readers_or_new().take(key, &self.keyspace.reader_totals);
            self.notify_readers(key.bytes, readers);
        }
    }

    /// Takes the key in parts: passing it by reference would force it into memory, and its copies would
    /// wait for the store.
    #[cold]
    fn note_observed_change(&mut self, bytes: &[u8], hash: u64, db: DbIndex) {
        let key = Key::with_hash(bytes, hash, db);
        let now = self.due();
        let mut ready = std::mem::take(&mut self.deferred.ready);
        let keyspace = self.keyspace;
        let data = self.slot_data_mut(key.slot);
        data.note_change(key, &keyspace.places, now, &mut ready);
        if data.has_readers() {
            let readers = data.readers_or_new().take(key, &keyspace.reader_totals);
            self.notify_readers(key.bytes, readers);
        }
        self.deferred.ready = ready;
    }
}
