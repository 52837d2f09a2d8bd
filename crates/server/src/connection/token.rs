//! The addresses of connections for wake-ups and mail from other threads.

/// The token of a connection, for wake-ups from other threads: 8 bits of worker, 32 of generation, 24 of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

const PLACE_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;

/// Set in the indexes of deferred serves, which no connection has.
const DEFERRED_PLACE: usize = 1 << (PLACE_BITS - 1);

impl Token {
    /// The token of an index in a worker's table.
    #[must_use]
    pub fn new(thread: usize, generation: u32, place: usize) -> Self {
        debug_assert!(place < 1 << PLACE_BITS && thread < 1 << (64 - PLACE_BITS - GENERATION_BITS));
        Self(
            (thread as u64) << (PLACE_BITS + GENERATION_BITS)
                | u64::from(generation) << PLACE_BITS
                | place as u64,
        )
    }

    /// The largest index of a connection.
    pub const PLACE_MAX: usize = DEFERRED_PLACE - 1;

    /// Not that of a connection: the failover that requests the ends of turns ([`shared::failover`](crate::shared::failover)).
    pub const FAILOVER: Self = Self(u64::MAX);

    /// Not that of a connection: a change of the role that requests the ends of turns ([`shared::role`](crate::shared::role)).
    pub const ROLE: Self = Self(u64::MAX - 1);

    /// Not that of a connection: a shutdown that requests the ends of turns
    /// ([`shared::pending_shutdown`](crate::shared::pending_shutdown)).
    pub const SHUTDOWN: Self = Self(u64::MAX - 2);

    /// The token of a deferred serve of a worker, which waits for latches as a connection does.
    #[must_use]
    pub fn deferred(thread: usize, number: usize) -> Self {
        Self::new(thread, 0, DEFERRED_PLACE | number)
    }

    /// The number of a deferred serve; `None`: the token is a connection's.
    #[must_use]
    pub fn deferred_number(self) -> Option<usize> {
        (self.place() & DEFERRED_PLACE != 0).then_some(self.place() & !DEFERRED_PLACE)
    }

    /// The token of a connection that is being moved to a worker, and has no index there yet.
    #[must_use]
    pub fn underway(thread: usize) -> Self {
        Self::new(thread, 0, 0)
    }

    /// The worker that serves it.
    #[must_use]
    pub fn thread(self) -> usize {
        (self.0 >> (PLACE_BITS + GENERATION_BITS)) as usize
    }

    /// Its index in the worker's table.
    #[must_use]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}
