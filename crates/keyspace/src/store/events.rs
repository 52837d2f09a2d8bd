//! Events: changes of keys, reported to an observer under the slot's latch. So the events of a key
//! arrive in the order of the changes, whichever threads make them.
//!
//! A command that changes a value announces it ([`Latched::announce`](crate::Latched::announce)). Events below commands are announced
//! here in `keyspace`: keys that are new, expired, evicted or missed. While no events are wanted, each
//! costs one test.

use base::DbIndex;

use crate::store::readers::Clients;

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

/// A set of event classes, with bits that select how they are published, and what else is recorded of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedEvents(u32);

impl WantedEvents {
    const BY_KEY: u32 = 1 << 0;
    const BY_EVENT: u32 = 1 << 1;
    const CHANGE_TIMES: u32 = 1 << 30;
    const EVERY_CHANGE: u32 = 1 << 31;

    /// The set with these bits, those of `notify-keyspace-events`. Empty if neither publishing bit is set.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        if bits & (Self::BY_KEY | Self::BY_EVENT) == 0 { Self(0) } else { Self(bits) }
    }

    /// The same set; with `on`, every key that changes is also recorded, for clients that track all
    /// changes.
    #[must_use]
    pub fn with_every_change(self, on: bool) -> Self {
        if on { Self(self.0 | Self::EVERY_CHANGE) } else { Self(self.0 & !Self::EVERY_CHANGE) }
    }

    /// The same set; with `on`, the time of each change is also recorded in its entry (see [`Aging::Lrm`]).
    ///
    /// [`Aging::Lrm`]: crate::Aging::Lrm
    #[must_use]
    pub fn with_change_times(self, on: bool) -> Self {
        if on { Self(self.0 | Self::CHANGE_TIMES) } else { Self(self.0 & !Self::CHANGE_TIMES) }
    }

    /// Whether anything is recorded of changes that nobody watches.
    #[must_use]
    #[inline]
    pub fn any_change(self) -> bool {
        self.0 & (Self::EVERY_CHANGE | Self::CHANGE_TIMES) != 0
    }

    /// Whether every key that changes is recorded.
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

/// Receives events under the latch of the key's slot; it must not wait or access the keyspace. `thread` is
/// the number of the thread on which the event happens.
pub trait Observer: Send + Sync {
    /// Reports an event of a key.
    fn event(&self, thread: usize, wanted: WantedEvents, event: &str, db: DbIndex, key: &[u8]);
    /// Reports that the value these clients have read of a key is invalid; `by` is the client that changed the
    /// key, or 0.
    fn stale(&self, thread: usize, key: &[u8], readers: &Clients, by: u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_require_a_kind_of_channel() {
        assert_eq!(WantedEvents::from_bits(EventClass::String as u32), WantedEvents::default());
        let wanted = WantedEvents::from_bits(EventClass::String as u32 | 1);
        assert!(wanted.has(EventClass::String) && !wanted.has(EventClass::New));
        assert!(wanted.by_key() && !wanted.by_event());
    }
}
