//! The keyspace: keys to values, in 16,384 latched slots, for several logical databases.
//!
//! Owns all data and the latches over it. Touches `sync` and `collections`. Has no access to sockets,
//! protocols or clocks: time and random seeds are parameters, and a waiting session is represented by a
//! token.
//! Invariants: see [`Keyspace`] and [`View`].
//! Start reading at `keyspace.rs`, then `view.rs`, `latching.rs`, `reading.rs`, `writing.rs`.

mod aging;
mod asked;
mod counters;
mod databases;
mod defragmentation;
mod events;
mod eviction;
mod expiry;
mod field_expiry;
mod hints;
mod key;
mod keyspace;
mod latching;
mod preloading;
mod readers;
mod reading;
mod view;
mod waiting;
mod watching;
mod writing;

pub use aging::{Aging, LFU_INITIAL};
pub use asked::{AskedKey, AskedKeys, BUCKETS_AHEAD, ENTRIES_AHEAD, GROUP_SIZE};
pub use collections::KeyHasher;
pub use counters::{AllCounters, Counters, Population};
pub use databases::{Cleared, Liveness, ScanPosition};
pub use defragmentation::{Defragmentation, DefragmentationCycle};
pub use events::{EventClass, Observer, WantedEvents};
pub use eviction::{EVICTION_GROUP_SIZE_MAX, Evicted, EvictionOrder, EvictionPolicy, Evictor};
pub use expiry::{Expired, ExpiryCycle};
pub use field_expiry::{FieldExpiryCycle, FieldsExpired};
pub use hints::{Hints, Prefetcher, RequestedBucket, RequestedProbes};
pub use key::{Key, slot_of_hash};
pub use keyspace::{Keyspace, SlotData, Slots};
pub use latching::{Busy, HeldLatches, TRY_COUNT_MAX, Tries};
pub use preloading::{PRELOADED_KEY_COUNT_MAX, Preloaded};
pub use readers::{ChangedKey, Remembered};
pub use view::{Held, Random, View};
pub use waiting::{Needs, OwnedKey, Waiter};
pub use watching::Watching;
pub use writing::{Edited, NotOfThisType, WasThere};
