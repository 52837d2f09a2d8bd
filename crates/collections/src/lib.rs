//! Data structures that own their memory: the slot table with its entries, and the allocator beneath them.
//!
//! Owns: every key and value. Touches nothing else: no clock, no I/O, no threads, no randomness of its own;
//! hashes, times and random bits are parameters. Never acquires the slot's latch: callers hold it, for
//! reading with `&Table` and for writing with `&mut Table`.
//!
//! Start reading at [`Table`] (`table.rs`), then `table/segment.rs` and `table/bucket.rs` for lookups, `entry.rs` for the
//! memory layout of a key, and `memory/heap.rs` for its allocation. The collection types are in `values/`.
#![allow(unsafe_code)]
#![allow(clippy::len_without_is_empty, reason = "collections have it from their trait")]

mod bits;
mod entry;
pub mod faults;
mod hasher;
mod memory;
mod number;
mod packed;
mod short_bytes;
mod table;
mod values;

pub use values::stream;

pub use bits::count_ones;
pub use entry::kind::Kind;
pub use entry::owned_entry::{ExpiryChange, NewValue, OwnedEntry};
pub use entry::value_size::ValueSize;
pub use entry::{ACCESS_BITS, EMBSTR_SIZE_MAX, Encoding, Entry, INLINE_SIZE_MAX, ValueRef};
pub use hasher::KeyHasher;
pub use memory::heap::Heap;
pub use memory::replaced::Retired;
pub use memory::span_pool::{ChunkKeeper, KeeperHook, PageHook, PageHooks};
pub use number::{DECIMAL_SIZE_MAX, DecimalBuffer, decimal_len, parse_canonical};
pub use packed::{Item, Packed, PackedIter};
pub use short_bytes::copy_short;
pub use table::bucket::TABLE_BYTES_A_KEY;
pub use table::check::TableStats;
pub use table::defragment::Defragmented;
pub use table::entry_mut::EntryMut;
pub use table::guess::{Guess, LastGuess};
pub use table::hint::{Hint, HomeBucket, ProbePrefetch, ProbeResult, TableAddress};
pub use table::sampling::SampleRun;
pub use table::walk::ExpiryWalk;
pub use table::{NotAString, Table, Upserted};
pub use values::collection::Collection;
pub use values::hash::{Field, FieldExpiry, FieldWas, Hash};
pub use values::list::{End, List, ListBuilder, ListLimits, ListPart};
pub use values::members::position::PrefetchStep;
pub use values::object::Object;
pub use values::parameters::{AllocContext, CollectionLimits};
pub use values::set::{Sampled, Set, SetLimits, SetPlace, SoughtMember};
pub use values::sorted_set::{Bound, SortedSet, SortedSetIter, SortedSetLimits, SortedSetUpdated};
pub use values::tracking::{Element, ElementSink, PortionLimits, Tracking};

/// Whether leaves, nodes and segments are small, so that short sequences of changes reach deep structures:
/// for tests, under Miri and with the feature `tiny`.
pub(crate) const IS_TINY: bool = cfg!(any(miri, feature = "tiny"));
