//! Events: what happens to keys, told to an observer at once, under the slot's latch, so that the events of a key come in
//! the order in which they happened, whatever thread they happen on.
//!
//! Whoever changes a value announces it ([`View::announce`]). What happens below commands is announced here in
//! `keyspace`: keys that are new, expired, evicted or missed. As long as nobody wants events, that costs one test each.

use std::collections::BTreeSet;

use base::DbIndex;

use crate::key::Key;
use crate::view::View;

/// Classes of keyspace events; the values are the bits of `notify-keyspace-events`, as Redis modules see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum EventClass {
    Generic = 1 << 2,
    String = 1 << 3,
    List = 1 << 4,
    Set = 1 << 5,
    Hash = 1 << 6,
    SortedSet = 1 << 7,
    Expired = 1 << 8,
    Evicted = 1 << 9,
    Stream = 1 << 10,
    KeyMiss = 1 << 11,
    New = 1 << 14,
}

/// A set of event classes, with the two bits that say how they are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedEvents(u32);

impl WantedEvents {
    const BY_KEY: u32 = 1 << 0;
    const BY_EVENT: u32 = 1 << 1;
    const EVERY_CHANGE: u32 = 1 << 31;

    /// The set with these bits, those of `notify-keyspace-events`. Empty if they say nothing about how to publish.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        if bits & (Self::BY_KEY | Self::BY_EVENT) == 0 { Self(0) } else { Self(bits) }
    }

    /// The same set; with `on`, every key that changes is noted as well, for those who cache and ask for all changes.
    #[must_use]
    pub fn with_every_change(self, on: bool) -> Self {
        if on { Self(self.0 | Self::EVERY_CHANGE) } else { Self(self.0 & !Self::EVERY_CHANGE) }
    }

    /// Whether every key that changes is noted.
    #[must_use]
    #[inline]
    pub fn every_change(self) -> bool {
        self.0 & Self::EVERY_CHANGE != 0
    }

    /// Whether events of this class are wanted.
    #[must_use]
    #[inline]
    pub fn has(self, class: EventClass) -> bool {
        self.0 & class as u32 != 0
    }

    /// Whether they are published on a channel named after the key (`__keyspace@0__:key`).
    #[must_use]
    pub fn by_key(self) -> bool {
        self.0 & Self::BY_KEY != 0
    }

    /// Whether they are published on a channel named after the event (`__keyevent@0__:set`).
    #[must_use]
    pub fn by_event(self) -> bool {
        self.0 & Self::BY_EVENT != 0
    }
}

/// Hears of events under the latch of the key's slot; it must not wait for anything, nor touch the keyspace. `thread` is
/// the number of the thread on which it happens.
pub trait Observer: Send + Sync {
    /// Something happened to a key.
    fn event(&self, thread: usize, wanted: WantedEvents, event: &str, db: DbIndex, key: &[u8]);
    /// What these clients have read of a key is not valid any more; `by` is the client who changed it, or 0.
    fn stale(&self, thread: usize, key: &[u8], readers: &BTreeSet<u64>, by: u64);
}

impl View<'_> {
    /// Tells the observer what happened to a key whose slot is held, if it wants to know.
    #[inline(always)]
    pub fn announce(&self, class: EventClass, event: &str, key: Key<'_>) {
        if self.wanted.has(class) {
            self.tell(event, key.db, key.bytes);
        }
    }

    #[cold]
    fn tell(&self, event: &str, db: DbIndex, key: &[u8]) {
        if let Some(observer) = self.keyspace.observer() {
            observer.event(self.thread, self.wanted, event, db, key);
        }
    }

    /// A key was asked for that is not there.
    #[inline]
    pub(crate) fn note_miss(&self, key: Key<'_>) {
        // Behind those that the same command has missed before it.
        if self.saw_expired.get() && !self.late_misses.borrow().is_empty() {
            return self.note_expired_miss(key);
        }
        self.announce(EventClass::KeyMiss, "keymiss", key);
    }

    /// A key was asked for whose time is over: that it is missed is told when it has been deleted, in the order of asking.
    #[inline]
    pub(crate) fn note_expired_miss(&self, key: Key<'_>) {
        if self.wanted.has(EventClass::KeyMiss) {
            self.late_misses.borrow_mut().push((key.db, key.bytes.into()));
        }
    }

    /// Tells of the keys that were missed because their time was over. Goes after their deletion.
    pub fn tell_late_misses(&mut self) {
        for (db, key) in std::mem::take(&mut *self.late_misses.borrow_mut()) {
            self.tell("keymiss", db, &key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wanted_unless_it_is_said_how() {
        assert_eq!(WantedEvents::from_bits(EventClass::String as u32), WantedEvents::default());
        let wanted = WantedEvents::from_bits(EventClass::String as u32 | 1);
        assert!(wanted.has(EventClass::String) && !wanted.has(EventClass::New));
        assert!(wanted.by_key() && !wanted.by_event());
    }
}
