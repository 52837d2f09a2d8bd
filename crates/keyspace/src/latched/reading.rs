//! Reading the latched data. An expired key is absent, though its entry may still exist.

use collections::Entry;

use crate::latched::Latched;
use crate::store::key::Key;

impl Latched<'_> {
    /// The entry of a key, for a command that reads its value: counts a hit or a miss and records the access.
    #[inline(always)]
    pub fn find(&self, key: Key<'_>) -> Option<Entry<'_>> {
        let Some(entry) = self.lookup(key) else {
            self.counters.misses.add(1);
            self.note_miss(key);
            return None;
        };
        if self.is_expired(entry) {
            self.note_expired(key.bytes, key.db);
            self.counters.misses.add(1);
            self.note_expired_miss(key);
            return None;
        }
        self.counters.hits.add(1);
        self.record_access(entry);
        Some(entry)
    }

    #[inline(always)]
    pub(crate) fn record_access(&self, entry: Entry<'_>) {
        if self.mode.touch {
            entry.set_access(self.mode.aging.accessed(entry.access(), || self.random.next_u32()));
        }
    }

    /// The entry of a key, for a command that only inspects it (`TTL`, `EXISTS`): counts a hit or a miss,
    /// but records no access.
    #[inline]
    #[must_use]
    pub fn inspect(&self, key: Key<'_>) -> Option<Entry<'_>> {
        let live = self.examine(key);
        if live.is_none() {
            // An entry exists here only if it is expired.
            match self.lookup(key) {
                None => self.note_miss(key),
                Some(_) => self.note_expired_miss(key),
            }
        }
        live
    }

    /// As [`Self::inspect`], for a command whose misses are not events (`OBJECT`).
    #[inline]
    #[must_use]
    pub fn examine(&self, key: Key<'_>) -> Option<Entry<'_>> {
        let entry = self.lookup(key);
        let live = entry.filter(|entry| !self.is_expired(*entry));
        if live.is_some() {
            self.counters.hits.add(1);
        } else {
            if entry.is_some() {
                self.note_expired(key.bytes, key.db);
            }
            self.counters.misses.add(1);
        }
        live
    }

    /// The entry of a key, with nothing counted or recorded.
    #[inline]
    #[must_use]
    pub fn peek(&self, key: Key<'_>) -> Option<Entry<'_>> {
        self.lookup(key).filter(|entry| !self.is_expired(*entry))
    }

    /// Whether a key exists; counts a hit or a miss and records the access.
    pub fn touch_key(&self, key: Key<'_>) -> bool {
        self.find(key).is_some()
    }

    #[inline(always)]
    pub(crate) fn lookup(&self, key: Key<'_>) -> Option<Entry<'_>> {
        self.table(key)?.find_near(key.guess, key.hash, key.bytes)
    }
}
