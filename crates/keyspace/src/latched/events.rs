//! Reports events of keys to the observer.
//!
//! A command that changes a value announces it ([`Latched::announce`]). Events below commands are announced
//! in this crate: keys that are new, expired, evicted or missed. While no events are wanted, each costs one
//! test.

use std::cell::RefCell;

use base::DbIndex;

use crate::latched::Latched;
use crate::store::events::{EventClass, WantedEvents};
use crate::store::key::Key;
use crate::store::readers::ChangedKey;

/// The events to report, and those that are reported later.
#[derive(Default)]
pub struct Events {
    /// The events that the observer receives.
    pub wanted: WantedEvents,
    /// Number of the client whose command runs; 0 if none.
    pub client: u64,
    /// Keys that changed, if a client tracks every change.
    pub changed_keys: Vec<ChangedKey>,
    /// Misses of expired keys, if the observer receives such events.
    pub(crate) late_misses: RefCell<Vec<(DbIndex, Box<[u8]>)>>,
}

impl Latched<'_> {
    /// Reports an event of a key whose slot is held to the observer, if the event is wanted.
    #[inline(always)]
    pub fn announce(&self, class: EventClass, event: &str, key: Key<'_>) {
        if self.events.wanted.has(class) {
            self.notify_observer(event, key.db, key.bytes);
        }
    }

    #[cold]
    fn notify_observer(&self, event: &str, db: DbIndex, key: &[u8]) {
        if let Some(observer) = self.keyspace.observer() {
            observer.event(self.thread, self.events.wanted, event, db, key);
        }
    }

    /// Reports a lookup of a missing key.
    #[inline]
    pub(crate) fn note_miss(&self, key: Key<'_>) {
        // After the earlier misses of the same command.
        if self.deferred.saw_expired.get() && !self.events.late_misses.borrow().is_empty() {
            return self.note_expired_miss(key);
        }
        self.announce(EventClass::KeyMiss, "keymiss", key);
    }

    /// Records a lookup of an expired key. The miss is reported when the key has been deleted, in the order
    /// of the lookups.
    #[inline]
    pub(crate) fn note_expired_miss(&self, key: Key<'_>) {
        if self.events.wanted.has(EventClass::KeyMiss) {
            self.events.late_misses.borrow_mut().push((key.db, key.bytes.into()));
        }
    }

    /// Reports the misses of expired keys. Called after their deletion.
    pub fn report_late_misses(&mut self) {
        for (db, key) in std::mem::take(&mut *self.events.late_misses.borrow_mut()) {
            self.notify_observer("keymiss", db, &key);
        }
    }
}
