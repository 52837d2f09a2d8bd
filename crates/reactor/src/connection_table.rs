//! The connections of one reactor, by generation-checked id.
//!
//! Invariants, asserted by `check`:
//! 1. An index is in `free` once if and only if its entry is empty.
//! 2. The generation of an entry increases each time it is emptied, so a stale id finds no connection.

/// A connection of one reactor. An id may outlive its connection; it then refers to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    index: u32,
    generation: u32,
}

/// The bits of [`ConnectionId::to_bits`] that hold the index; the 32 bits above hold the generation.
const INDEX_BITS: u32 = 24;

impl ConnectionId {
    /// An id that no connection has.
    pub const NONE: Self = Self { index: u32::MAX, generation: u32::MAX };

    /// The number of low bits used by [`Self::to_bits`].
    pub(crate) const BITS: u32 = INDEX_BITS + 32;

    /// Packs the id into an integer for the kernel.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << INDEX_BITS
    }

    /// The inverse of [`Self::to_bits`]; bits above [`Self::BITS`] are ignored.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let index = (bits & ((1 << INDEX_BITS) - 1)) as u32;
        Self { index, generation: (bits >> INDEX_BITS) as u32 }
    }
}

struct Entry<T> {
    generation: u32,
    connection: Option<T>,
}

/// A dense table from [`ConnectionId`] to connection state; all operations are O(1).
pub(crate) struct ConnectionTable<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> ConnectionTable<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Inserts a connection. Panics beyond 16 million connections, far above any limit on open files.
    pub(crate) fn insert(&mut self, connection: T) -> ConnectionId {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            debug_assert!(entry.connection.is_none());
            entry.connection = Some(connection);
            return ConnectionId { index, generation: entry.generation };
        }
        assert!(self.entries.len() < 1 << INDEX_BITS, "too many connections for one reactor");
        let index = self.entries.len() as u32;
        self.entries.push(Entry { generation: 0, connection: Some(connection) });
        ConnectionId { index, generation: 0 }
    }

    #[inline]
    pub(crate) fn lookup(&self, id: ConnectionId) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.connection.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn lookup_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.connection.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let connection = entry.connection.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(connection)
    }

    #[cfg(test)]
    fn check(&self) {
        let empty = self.entries.iter().filter(|entry| entry.connection.is_none()).count();
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), self.free.len(), "invariant 1: no duplicate index");
        assert_eq!(free.len(), empty, "invariant 1: exactly the empty entries are free");
        assert!(free.iter().all(|&index| self.entries[index as usize].connection.is_none()));
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionId, ConnectionTable};

    #[test]
    fn an_old_id_finds_no_connection() {
        let mut table = ConnectionTable::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        table.check();
        assert_eq!(table.lookup(first), None);
        assert_eq!(table.lookup_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.lookup(second), Some(&"second"));
        assert_eq!(table.len(), 1);
        table.check();
    }

    #[test]
    fn bits_round_trip() {
        let id = ConnectionId { index: 0x00ab_cdef, generation: 0xfedc_ba98 };
        assert_eq!(ConnectionId::from_bits(id.to_bits()), id);
        assert_eq!(ConnectionId::from_bits(id.to_bits() | 0x5a << ConnectionId::BITS), id);
    }
}
