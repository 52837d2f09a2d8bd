//! A stream: entries that are appended under ascending ids, and the groups of consumers that read them.
//!
//! Owns its nodes (`node.rs`) in a tree ordered by their first ids, and its groups (`group.rs`). Reads no
//! clock: ids and times are parameters.
//!
//! Invariants ([`Stream::check`])
//! 1. Nodes do not overlap: the last id of one is below the first of the next. None is without a live entry.
//! 2. `len` is the number of live entries.
//! 3. `last_id` is not below any entry's id.
//!
//! Cost: appending and finding take O(log nodes) and one node. Trimming a whole node does not read its
//! entries.
//!
//! Start reading at [`Stream::append`], then [`Stream::range`].

mod group;
mod id;
mod listpack_size;
mod node;
pub(crate) mod order;
mod range;
mod tracked;

use std::collections::BTreeMap;

use crate::values::estimate::estimated_sum;
use crate::values::tracking::Tracker;

pub use group::{Consumer, ConsumerIndex, Delivery, Group};
pub use id::StreamId;
pub use node::StreamEntry;
use node::StreamNode;
pub use order::StreamPart;
pub use range::{StreamRange, StreamRangeDown};

/// A stream of entries.
#[derive(Debug, Default)]
pub struct Stream {
    nodes: BTreeMap<StreamId, StreamNode>,
    len: u64,
    /// The id last assigned, whether or not its entry still exists.
    pub last_id: StreamId,
    first_id: StreamId,
    /// The largest id that was deleted explicitly.
    pub max_deleted_id: StreamId,
    /// Number of entries ever added.
    pub entries_added: u64,
    groups: BTreeMap<Box<[u8]>, Group>,
    tracker: Tracker,
}

/// How large a node may become.
#[derive(Clone, Copy, Debug)]
pub struct NodeLimits {
    /// Most entries, deleted ones included; 0: any number.
    pub entry_count_max: u32,
    /// Most bytes, as in a listpack; 0: any number.
    pub size_max: usize,
}

/// Why an entry can't be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The id is not above the last one.
    NotAboveLast,
    /// Names and values are more than [`ENTRY_SIZE_MAX`] bytes.
    TooLarge,
}

/// The result of [`Stream::trim_some`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SomeTrimmed {
    /// The ids of the deleted entries.
    pub deleted: Vec<StreamId>,
    /// Whether an entry before a deleted one has stayed. Then the deleted ones count as deleted explicitly.
    pub leaves_gap: bool,
}

/// The entries that a trim keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// At most this many.
    Len(u64),
    /// Those with this id or a larger one.
    Id(StreamId),
}

/// Most bytes of names and values in an entry, and of a node.
pub const ENTRY_SIZE_MAX: usize = 1 << 30;

/// Number of nodes and pending entries from which a stream is dropped by another thread.
const COSTLY_COUNT_MIN: usize = 64;

impl Stream {
    /// A stream without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no entries. It may have groups, and keeps its last id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The number of entries and the size in a listpack of each node that has entries.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.nodes.values().filter(|node| node.live_count > 0);
        nodes.map(|node| (node.live_count as usize, node.listpack_size()))
    }

    /// The first entry's id; `0-0` without entries.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The id of the last live entry.
    #[must_use]
    pub fn last_entry_id(&self) -> Option<StreamId> {
        let (first, node) = self.nodes.last_key_value()?;
        // Without deleted entries, the node stores the last id.
        if node.deleted_count == 0 {
            return Some(node.last);
        }
        node.last_entry(*first).map(|entry| entry.id)
    }

    /// Appends an entry.
    pub fn append<'f>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        limits: NodeLimits,
    ) -> Result<(), AppendError> {
        if id <= self.last_id {
            return Err(AppendError::NotAboveLast);
        }
        let size: usize = pairs.clone().map(|(name, value)| name.len() + value.len()).sum();
        if size > ENTRY_SIZE_MAX {
            return Err(AppendError::TooLarge);
        }
        match self.nodes.last_entry() {
            Some(mut last) if limits.have_room(last.get(), size) => {
                let first = *last.key();
                before_change(&mut self.tracker, first, last.get());
                last.get_mut().push(first, id, pairs);
            }
            last => {
                if let Some(mut full) = last {
                    full.get_mut().shrink();
                }
                self.nodes.insert(id, StreamNode::new(id, pairs));
                if self.tracker.is_set() {
                    self.tracker.preserve(|state| state.stream.note_added(id));
                }
            }
        }
        self.len += 1;
        self.entries_added += 1;
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// The entry with this id.
    #[must_use]
    pub fn find(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        let (first, node) = self.nodes.range(..=id).next_back()?;
        let mut entries = node.iter(*first).map(|placed| placed.entry);
        entries.find(|entry| entry.id >= id).filter(|entry| entry.id == id)
    }

    /// The entries from `start` to `end`, both included.
    #[must_use]
    pub fn range(&self, start: StreamId, end: StreamId) -> StreamRange<'_> {
        StreamRange::new(&self.nodes, start, end)
    }

    /// The entries from `end` down to `start`, both included.
    #[must_use]
    pub fn range_down(&self, start: StreamId, end: StreamId) -> StreamRangeDown<'_> {
        StreamRangeDown::new(&self.nodes, start, end)
    }

    /// Deletes the entry with this id. Returns whether it existed.
    pub fn delete(&mut self, id: StreamId) -> bool {
        if self.tracker.is_set() && self.find(id).is_none() {
            return false;
        }
        let Some((first, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        before_change(&mut self.tracker, *first, node);
        if !node.delete(*first, id) {
            return false;
        }
        let first = *first;
        if node.live_count == 0 {
            self.nodes.remove(&first);
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id || self.len == 0 {
            self.find_first();
        }
        true
    }

    /// Deletes entries from the front. `whole_nodes_only` keeps entries that share a node with kept ones.
    /// At most `limit` entries are deleted, whole nodes at a time; 0: no limit. Returns the number of
    /// deleted entries.
    pub fn trim(&mut self, to: TrimTo, whole_nodes_only: bool, limit: u64) -> u64 {
        let mut deleted: u64 = 0;
        while let Some(mut front) = self.nodes.first_entry() {
            if matches!(to, TrimTo::Len(len) if self.len <= len) {
                break;
            }
            let first = *front.key();
            let node = front.get_mut();
            let live_count = u64::from(node.live_count);
            if limit > 0 && deleted + live_count > limit {
                break;
            }
            let whole = match to {
                TrimTo::Len(len) => self.len - live_count >= len,
                TrimTo::Id(id) => node.last < id,
            };
            if whole {
                let node = front.remove();
                if self.tracker.is_set() {
                    self.tracker.preserve(|state| state.stream.note_removed(first, node));
                }
                self.len -= live_count;
                deleted += live_count;
                continue;
            }
            if whole_nodes_only {
                break;
            }
            let mut excess = match to {
                TrimTo::Len(len) => self.len - len,
                TrimTo::Id(_) => u64::MAX,
            };
            before_change(&mut self.tracker, first, node);
            let count = u64::from(node.delete_front(first, |id| {
                let is_deleted = excess > 0 && !matches!(to, TrimTo::Id(min) if id >= min);
                excess -= u64::from(is_deleted);
                is_deleted
            }));
            if node.live_count == 0 {
                front.remove();
            }
            self.len -= count;
            deleted += count;
            break;
        }
        if deleted > 0 {
            self.find_first();
        }
        deleted
    }

    /// As [`trim`](Self::trim), but keeps entries for which `may_delete` returns false, and continues behind
    /// them. Visits every entry in the range, and also deletes a part of a node.
    pub fn trim_some(
        &mut self,
        to: TrimTo,
        limit: u64,
        may_delete: impl Fn(&Self, StreamId) -> bool,
    ) -> SomeTrimmed {
        let mut deleted = Vec::new();
        let mut has_stayed = false;
        let mut leaves_gap = false;
        'nodes: for (first, node) in &self.nodes {
            if limit > 0 && deleted.len() as u64 + u64::from(node.live_count) > limit {
                break;
            }
            for placed in node.iter(*first) {
                let id = placed.entry.id;
                if match to {
                    TrimTo::Len(len_max) => self.len - deleted.len() as u64 <= len_max,
                    TrimTo::Id(min) => id >= min,
                } {
                    break 'nodes;
                }
                if may_delete(self, id) {
                    leaves_gap |= has_stayed;
                    deleted.push(id);
                } else {
                    has_stayed = true;
                }
            }
        }
        let max_deleted_id = self.max_deleted_id;
        for id in &deleted {
            self.delete(*id);
        }
        if !leaves_gap {
            self.max_deleted_id = max_deleted_id;
        }
        SomeTrimmed { deleted, leaves_gap }
    }

    /// Whether an entry at or behind `from` was deleted explicitly.
    #[must_use]
    pub fn has_gap_from(&self, from: StreamId) -> bool {
        self.len > 0 && !self.max_deleted_id.is_zero() && from <= self.max_deleted_id
    }

    /// Number of entries added up to `id` since the stream was created; `None` if unknown.
    #[must_use]
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if !id.is_zero() && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.entries_added);
        }
        if self.max_deleted_id.is_zero() || self.max_deleted_id < self.first_id {
            let before_first = self.entries_added.wrapping_sub(self.len);
            if id < self.first_id {
                return Some(before_first);
            }
            if id == self.first_id {
                return Some(before_first + 1);
            }
        }
        None
    }

    /// The largest number of entries that a group can have read whose last id is this one: those ever added, but the ones
    /// behind it that are known to be there. O(1)
    #[must_use]
    pub fn entries_read_max(&self, last_id: StreamId) -> u64 {
        let unread = match self.last_entry_id() {
            Some(_) if last_id < self.first_id => self.len,
            Some(last) if last_id < last => 1,
            _ => 0,
        };
        self.entries_added.saturating_sub(unread)
    }

    /// Number of entries that a group has not read yet; `None` if unknown. Trimmed entries that it has not read count, as in
    /// Valkey: so entries that are trimmed before they are read show in the lag.
    #[must_use]
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gap_from(group.last_id) => read,
            _ => self.entries_up_to(group.last_id)?,
        };
        Some(self.entries_added.wrapping_sub(read) as i64)
    }

    /// Advances a group to an entry that it receives as new, and its count of read entries.
    pub fn advance(&mut self, group: &[u8], id: StreamId) {
        let Some(found) = self.groups.get(group) else { return };
        if id <= found.last_id {
            return;
        }
        let counts_on = found.last_id >= self.first_id && !self.has_gap_from(found.last_id);
        let entries_read = match found.entries_read {
            Some(read) if counts_on => Some(read + 1),
            before if self.entries_added == 0 => before,
            _ => self.entries_up_to(id),
        };
        let group = self.groups.get_mut(group).expect("found just now");
        group.entries_read = entries_read;
        group.last_id = id;
    }

    /// Number of groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The groups by name.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// The group with this name.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// The group with this name, mutable.
    #[must_use]
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Removes a pending entry from all groups. Passes the name of each group in which it was pending.
    pub fn acknowledge_in_all_groups(&mut self, id: StreamId, mut acknowledged: impl FnMut(&[u8])) {
        for (name, group) in &mut self.groups {
            if group.acknowledge(id) {
                acknowledged(name);
            }
        }
    }

    /// Adds a group. Returns whether there was none with this name.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.groups.insert(name.into(), group);
        true
    }

    /// Removes a group. Returns whether it existed.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        self.groups.remove(name).is_some()
    }

    /// Whether an entry is pending in any group, or some group has not read it yet.
    #[must_use]
    pub fn is_wanted(&self, id: StreamId) -> bool {
        self.groups.values().any(|group| id > group.last_id || group.delivery(id).is_some())
    }

    /// Bytes of memory in addition to `Self`.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.estimated_bytes(usize::MAX)
    }

    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        let of_nodes = self.nodes.values().map(StreamNode::allocated_bytes);
        let of_nodes = estimated_sum(of_nodes, self.nodes.len(), sample_len);
        let of_tree = self.nodes.len() * (size_of::<StreamId>() + size_of::<StreamNode>()) * 3 / 2;
        let of_groups: usize =
            self.groups.iter().map(|(name, group)| name.len() + group.memory_bytes()).sum();
        of_nodes + of_tree + of_groups
    }

    pub(crate) fn is_costly_to_drop(&self) -> bool {
        let pending_count: usize = self.groups.values().map(Group::pending_count).sum();
        self.nodes.len() + pending_count > COSTLY_COUNT_MIN
    }

    /// Panics if an invariant does not hold.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self) {
        let mut last = StreamId::MIN;
        let mut len = 0;
        for (first, node) in &self.nodes {
            assert!(*first > last && node.live_count > 0, "1");
            node.check(*first);
            last = node.last;
            len += u64::from(node.live_count);
        }
        assert_eq!(self.len, len, "2");
        assert!(last <= self.last_id, "3");
        self.groups.values().for_each(Group::check);
    }

    fn find_first(&mut self) {
        self.first_id =
            self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id);
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), groups: self.groups.clone(), tracker: Tracker::default(), ..*self }
    }
}

/// Called before a node changes.
#[inline(always)]
fn before_change(tracker: &mut Tracker, first: StreamId, node: &StreamNode) {
    if tracker.is_set() {
        tracker.preserve(|state| state.stream.before_change(first, node));
    }
}

impl NodeLimits {
    fn have_room(self, node: &StreamNode, size: usize) -> bool {
        let size_max = if self.size_max == 0 { ENTRY_SIZE_MAX } else { self.size_max.min(ENTRY_SIZE_MAX) };
        node.listpack_size() + size < size_max
            && (self.entry_count_max == 0 || node.entry_count() < self.entry_count_max)
    }
}
