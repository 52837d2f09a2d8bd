//! Data structures that own their memory: the slot table with its entries, and the allocator beneath them.
//!
//! Owns: every key and value. Touches nothing else: no clock, no I/O, no threads, no randomness of its own;
//! hashes, times and random bits are parameters. Never acquires the slot's latch: callers hold it, for
//! reading with `&Table` and for writing with `&mut Table`.
//!
//! Start reading at [`Table`], then `segment.rs` and `bucket.rs` for lookups, `entry.rs` for the memory
//! layout of a key, and `heap.rs` for its allocation.
#![allow(unsafe_code)]
#![allow(clippy::len_without_is_empty, reason = "collections have it from their trait")]

mod bits;
mod bucket;
mod check;
mod defragment;
mod directory;
mod estimate;
pub mod faults;
mod guess;
mod hasher;
mod hint;
mod intset;
mod lookup;
mod memory;
mod number;
mod packed;
mod sampling;
mod segment;
mod snapshot;
mod values;
mod walk;

pub use values::stream;

pub use bits::count_ones;
pub use bucket::TABLE_BYTES_A_KEY;
pub use check::TableStats;
pub use defragment::Defragmented;
pub use guess::{Guess, LastGuess};
pub use hasher::KeyHasher;
pub use hint::{Hint, HomeBucket, ProbePrefetch, ProbeResult, TableAddress};
pub use memory::heap::Heap;
pub use memory::replaced::Retired;
pub use memory::span_pool::{ChunkKeeper, KeeperHook, PageHook, PageHooks};
pub use number::{DECIMAL_SIZE_MAX, DecimalBuffer, decimal_len, parse_canonical};
pub use packed::{Item, Iter as PackedIter, Packed};
pub use sampling::Run;
pub use values::collection::{AllocContext, Collection, CollectionLimits};
pub use values::entry::{ACCESS_BITS, EMBSTR_SIZE_MAX, Encoding, Entry, INLINE_SIZE_MAX, ValueRef};
pub use values::entry_mut::EntryMut;
pub use values::hash::{Field, FieldExpiry, FieldWas, Hash};
pub use values::list::{End, List, ListBuilder, ListLimits, ListPart};
pub use values::members::PrefetchStep;
pub use values::object::{Kind, Object};
pub use values::owned_entry::{ExpiryChange, NewValue, OwnedEntry};
pub use values::set::{Sampled, Set, SetLimits, SetPlace, SoughtMember};
pub use values::sorted_set::{
    Bound, Iter as SortedSetIter, SortedSet, SortedSetLimits, Updated as SortedSetUpdated,
};
pub use values::table::{NotAString, Table, Upserted};
pub use values::tracking::{Element, ElementSink, PortionLimits, Tracking};
pub use values::value_size::ValueSize;
pub use walk::ExpiryWalk;

/// Whether leaves, nodes and segments are small, so that short sequences of changes reach deep structures:
/// for tests, under Miri and with the feature `tiny`.
pub(crate) const IS_TINY: bool = cfg!(any(miri, feature = "tiny"));
