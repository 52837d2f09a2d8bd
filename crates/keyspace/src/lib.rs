//! The keyspace: keys to values, in 16,384 latched slots, for several logical databases.
//!
//! Owns all data and the latches over it. Touches `sync` and `collections`. Has no access to sockets,
//! protocols or clocks: time and random seeds are parameters, and a waiting session is represented by a
//! token.
//! Layers, low ones first: `store` (slots and their data), `latched` (the data as a handler sees it),
//! `latching` (the latches), `prefetching` and `cycles` (walks over all slots).
//! Invariants: see [`Keyspace`], [`Latched`] and [`Latching`].
//! Start reading at `store/keyspace.rs`, then `latched.rs`, `latching.rs`.

mod cycles;
pub mod faults;
mod latched;
mod latching;
mod prefetching;
mod store;

pub use collections::KeyHasher;
pub use cycles::defragmentation::{Defragmentation, DefragmentationCycle};
pub use cycles::eviction::{EVICTION_GROUP_SIZE_MAX, Evicted, EvictionOrder, EvictionPolicy, Evictor};
pub use cycles::expiry::{Expired, ExpiryCycle};
pub use cycles::field_expiry::{FieldExpiryCycle, FieldsExpired};
pub use cycles::snapshot_walk::{AllSlots, CollectionStep, CutEntry, Waiting};
pub use cycles::walks::{DatabaseWalk, Liveness, ScanPosition};
pub use latched::{AccessMode, Cleared, Deferred, Edited, Events, Latched, NotOfThisType, WasThere};
pub use latching::{Busy, HeldLatches, Latches, Latching, SCRIPT_TOKEN, TRY_COUNT_MAX, Tries};
pub use prefetching::prefetched_keys::{
    BUCKETS_AHEAD, ENTRIES_AHEAD, GROUP_SIZE, PrefetchedKey, PrefetchedKeys,
};
pub use prefetching::prefetcher::{PrefetchedBucket, PrefetchedProbes, Prefetcher};
pub use prefetching::preloading::{PRELOADED_KEY_COUNT_MAX, Preloaded};
pub use store::aging::{Aging, LFU_INITIAL};
pub use store::counters::{AllCounters, Counters, Population};
pub use store::effects::{EffectArg, EffectOrigin, EffectSink};
pub use store::events::{EventClass, Observer, WantedEvents};
pub use store::hints::Hints;
pub use store::key::{Key, slot_of_hash};
pub use store::keyspace::Keyspace;
pub use store::local_expiries::LocalExpiries;
pub use store::random::Random;
pub use store::readers::{ChangedKey, Clients, ReaderTotals};
pub use store::sizes::Sizes;
pub use store::snapshot_state::{CutDatabase, SnapshotSink, SnapshotState};
pub use store::tracked::TrackedCollection;
pub use store::waiting::{Needs, OwnedKey, Waiter};
pub use store::watching::Watching;
