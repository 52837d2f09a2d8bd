//! Consumer groups: a group's read position, its consumers, and their unacknowledged entries.
//!
//! Invariants ([`Group::check`])
//! 1. An id is in the group's pending list exactly if it is in that of one consumer, which its delivery names.
//! 2. Each name maps to the consumer that has it, and each consumer has such a name.
//! 3. `vacant` has each place without a consumer once.

use std::collections::{BTreeMap, BTreeSet};

use super::id::StreamId;

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The last entry delivered as new to any of its consumers.
    pub last_id: StreamId,
    /// Number of entries that it has read since the stream was created; `None` if unknown.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Delivery>,
    names: BTreeMap<Box<[u8]>, ConsumerIndex>,
    consumers: Vec<Option<Consumer>>,
    vacant: Vec<ConsumerIndex>,
}

/// The index of a group's consumer; unchanged as long as the consumer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerIndex(u32);

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// The consumer's name.
    pub name: Box<[u8]>,
    /// When it last sent a request, Unix time in milliseconds.
    pub seen_at: i64,
    /// When it last received an entry; `None` if never.
    pub active_at: Option<i64>,
    pending: BTreeSet<StreamId>,
}

/// The delivery of an entry that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The consumer to which it was delivered.
    pub consumer: ConsumerIndex,
    /// The time of the delivery, Unix time in milliseconds.
    pub at: i64,
    /// Number of deliveries so far.
    pub count: u64,
}

impl Consumer {
    /// Number of entries that it has not acknowledged.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

impl Group {
    /// A group that starts after `last_id`.
    #[must_use]
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self {
            last_id,
            entries_read,
            pending: BTreeMap::new(),
            names: BTreeMap::new(),
            consumers: Vec::new(),
            vacant: Vec::new(),
        }
    }

    /// Number of consumers.
    #[must_use]
    pub fn consumer_count(&self) -> usize {
        self.names.len()
    }

    /// Number of entries that are not acknowledged.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The consumer with this name.
    #[must_use]
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerIndex> {
        self.names.get(name).copied()
    }

    /// Adds a consumer with this name, which must not exist yet.
    pub fn add_consumer(&mut self, name: &[u8], now: i64) -> ConsumerIndex {
        let consumer =
            Consumer { name: name.into(), seen_at: now, active_at: None, pending: BTreeSet::new() };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.consumers[index.0 as usize] = Some(consumer);
                index
            }
            None => {
                self.consumers.push(Some(consumer));
                ConsumerIndex(self.consumers.len() as u32 - 1)
            }
        };
        self.names.insert(name.into(), index);
        index
    }

    /// Removes a consumer, with its pending entries. Returns the number of those entries; `None` if there
    /// is no such consumer.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let index = self.names.remove(name)?;
        let consumer = self.consumers[index.0 as usize].take().expect("a name leads to a consumer");
        self.vacant.push(index);
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerIndex, &Consumer)> {
        self.names.values().map(|index| (*index, self.consumer(*index)))
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, index: ConsumerIndex) -> &Consumer {
        self.consumers[index.0 as usize].as_ref().expect("an index names an existing consumer")
    }

    /// A consumer, mutable.
    #[must_use]
    pub fn consumer_mut(&mut self, index: ConsumerIndex) -> &mut Consumer {
        self.consumers[index.0 as usize].as_mut().expect("an index names an existing consumer")
    }

    /// The delivery of an entry that is not acknowledged.
    #[must_use]
    pub fn delivery(&self, id: StreamId) -> Option<Delivery> {
        self.pending.get(&id).copied()
    }

    /// The unacknowledged entries, from an id on.
    pub fn pending_from(&self, from: StreamId) -> impl DoubleEndedIterator<Item = (StreamId, Delivery)> {
        self.pending.range(from..).map(|(id, delivery)| (*id, *delivery))
    }

    /// The unacknowledged entries of a consumer, from an id on.
    pub fn pending_of(
        &self,
        consumer: ConsumerIndex,
        from: StreamId,
    ) -> impl Iterator<Item = (StreamId, Delivery)> {
        let of_consumer = self.consumer(consumer).pending.range(from..);
        of_consumer.map(|id| (*id, self.pending[id]))
    }

    /// Records the delivery of an entry, which may replace a delivery to another consumer.
    pub fn deliver(&mut self, id: StreamId, delivery: Delivery) {
        let before = self.pending.insert(id, delivery);
        if before.is_some_and(|before| before.consumer == delivery.consumer) {
            return;
        }
        if let Some(before) = before {
            self.consumer_mut(before.consumer).pending.remove(&id);
        }
        self.consumer_mut(delivery.consumer).pending.insert(id);
    }

    /// Removes a pending entry. Returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(delivery) = self.pending.remove(&id) else { return false };
        self.consumer_mut(delivery.consumer).pending.remove(&id);
        true
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_consumers: usize =
            self.consumers.iter().flatten().map(|consumer| 2 * consumer.name.len()).sum();
        // Trees of the standard library are about two thirds full.
        let of_pending = self.pending.len() * (2 * size_of::<StreamId>() + size_of::<Delivery>()) * 3 / 2;
        size_of::<Self>()
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
            + self.vacant.capacity() * size_of::<ConsumerIndex>()
            + of_consumers
            + of_pending
    }

    /// Panics if an invariant does not hold.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self) {
        let mut pending_count = 0;
        for (index, consumer) in self.consumers() {
            assert_eq!(self.find_consumer(&consumer.name), Some(index), "2");
            for id in &consumer.pending {
                assert_eq!(self.pending.get(id).map(|delivery| delivery.consumer), Some(index), "1");
            }
            pending_count += consumer.pending.len();
        }
        assert_eq!(pending_count, self.pending.len(), "1");
        assert_eq!(self.names.len(), self.consumers.iter().flatten().count(), "2");
        let vacant: BTreeSet<u32> = self.vacant.iter().map(|index| index.0).collect();
        assert_eq!(vacant.len(), self.vacant.len(), "3");
        assert_eq!(vacant.len() + self.names.len(), self.consumers.len(), "3");
        assert!(vacant.iter().all(|place| self.consumers[*place as usize].is_none()), "3");
    }
}
