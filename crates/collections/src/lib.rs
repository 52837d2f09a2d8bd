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
mod block;
mod bucket;
mod check;
mod collection;
mod defragment;
mod directory;
mod entry;
mod entry_mut;
mod estimate;
mod guess;
mod hash;
mod hasher;
mod heap;
mod hint;
mod intset;
mod list;
mod lookup;
mod members;
mod number;
mod object;
mod owned_entry;
mod packed;
mod prefetch;
mod replaced;
mod sampling;
mod segment;
mod set;
mod size_class;
mod sorted_set;
mod span;
mod span_pool;
mod spin;
pub mod stream;
mod table;
mod walk;

pub use bits::count_ones;
pub use bucket::TABLE_BYTES_A_KEY;
pub use check::TableStats;
pub use collection::{AllocContext, Collection, CollectionLimits};
pub use defragment::Defragmented;
pub use entry::{ACCESS_BITS, EMBSTR_SIZE_MAX, Encoding, Entry, INLINE_SIZE_MAX, ValueRef};
pub use entry_mut::EntryMut;
pub use guess::{Guess, LastGuess};
pub use hash::{Field, FieldExpiry, FieldWas, Hash};
pub use hasher::KeyHasher;
pub use heap::Heap;
pub use hint::{Hint, HomeBucket, ProbeResult, ProbeSequence, TableAddress};
pub use list::{End, List, ListLimits};
pub use members::PrefetchStep;
pub use number::{DECIMAL_SIZE_MAX, DecimalBuffer, decimal_len, parse_canonical};
pub use object::{Kind, Object};
pub use owned_entry::{ExpiryChange, NewValue, OwnedEntry};
pub use packed::{Item, Iter as PackedIter, Packed};
pub use replaced::Retired;
pub use sampling::Run;
pub use set::{MemberProbe, Sampled, Set, SetLimits, SetPlace};
pub use sorted_set::{Bound, Iter as SortedSetIter, SortedSet, SortedSetLimits, Updated as SortedSetUpdated};
pub use span_pool::{ChunkKeeper, KeeperHook, PageHook, PageHooks};
pub use table::{NotAString, Table, Upserted};
pub use walk::ExpiryWalk;

/// Whether leaves, nodes and segments are small, so that short sequences of changes reach deep structures:
/// for tests, under Miri and with the feature `tiny`.
pub(crate) const IS_TINY: bool = cfg!(any(miri, feature = "tiny"));
