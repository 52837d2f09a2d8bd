//! Consumer groups: how far a group has read, who reads for it, and what they have not acknowledged yet.
//!
//! Invariants ([`Group::check`])
//! 1. An id is in the group's pending list exactly if it is in that of one consumer, which its delivery names.
//! 2. Each name leads to the consumer that has it, and each consumer has a name that leads to it.
//! 3. `vacant` names each place without a consumer once.

use std::collections::{BTreeMap, BTreeSet};

use super::id::StreamId;

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The last entry delivered to any of its consumers as a new one.
    pub last_id: StreamId,
    /// How many entries of the stream's life it has read; `None`: not known.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Delivery>,
    names: BTreeMap<Box<[u8]>, ConsumerIndex>,
    consumers: Vec<Option<Consumer>>,
    vacant: Vec<ConsumerIndex>,
}

/// A consumer of a group; stays the same as long as the consumer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerIndex(u32);

/// Who reads for a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: Box<[u8]>,
    /// When it last asked for anything, Unix time in milliseconds.
    pub seen_at: i64,
    /// When it was last given something; `None`: never.
    pub active_at: Option<i64>,
    pending: BTreeSet<StreamId>,
}

/// The delivery of an entry that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// To whom.
    pub consumer: ConsumerIndex,
    /// When, Unix time in milliseconds.
    pub at: i64,
    /// How many times so far.
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
    /// A group that begins behind `last_id`.
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

    /// The consumer with this name, which must not be there yet.
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

    /// Takes a consumer out, with what is pending for it. Returns the number of those entries; `None`: no such consumer.
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
        self.consumers[index.0 as usize].as_ref().expect("an index is of a consumer that is there")
    }

    /// A consumer, to be changed.
    #[must_use]
    pub fn consumer_mut(&mut self, index: ConsumerIndex) -> &mut Consumer {
        self.consumers[index.0 as usize].as_mut().expect("an index is of a consumer that is there")
    }

    /// The delivery of an entry that is not acknowledged.
    #[must_use]
    pub fn delivery(&self, id: StreamId) -> Option<Delivery> {
        self.pending.get(&id).copied()
    }

    /// What is not acknowledged, from an id on.
    pub fn pending_from(&self, from: StreamId) -> impl DoubleEndedIterator<Item = (StreamId, Delivery)> {
        self.pending.range(from..).map(|(id, delivery)| (*id, *delivery))
    }

    /// What a consumer has not acknowledged, from an id on.
    pub fn pending_of(
        &self,
        consumer: ConsumerIndex,
        from: StreamId,
    ) -> impl Iterator<Item = (StreamId, Delivery)> {
        let of_consumer = self.consumer(consumer).pending.range(from..);
        of_consumer.map(|id| (*id, self.pending[id]))
    }

    /// Records that an entry is delivered, whoever had it before.
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

    /// Forgets that an entry is pending. Whether it was.
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
