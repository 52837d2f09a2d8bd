//! Detection of reads of freed memory: memory that is read without a latch may be freed too early. No test
//! would see such a read, as the allocator keeps the memory mapped.
//!
//! A simulation with this object as an extension records freed and reused blocks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::scheduler::extension;

/// Freed ranges: sizes by address.
#[derive(Debug, Default)]
pub struct FreedMemory(Mutex<BTreeMap<usize, usize>>);

impl FreedMemory {
    fn with<R>(f: impl FnOnce(&mut BTreeMap<usize, usize>) -> R) -> Option<R> {
        let freed = extension::<Self>()?;
        Some(f(&mut freed.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Records that a block is freed.
pub fn note_freed(address: usize, size: usize) {
    FreedMemory::with(|freed| freed.insert(address, size));
}

/// Records that a block is in use again.
pub fn note_used(address: usize, size: usize) {
    FreedMemory::with(|freed| {
        let before = freed.range(..address).next_back().filter(|(start, length)| *start + **length > address);
        let within = freed.range(address..address + size);
        let old: Vec<usize> = before.into_iter().chain(within).map(|(start, _)| *start).collect();
        for start in old {
            freed.remove(&start);
        }
    });
}

/// Asserts that an address is not in a freed block.
///
/// # Panics
/// The address is in a freed block.
pub fn assert_not_freed(address: usize) {
    let is_freed = FreedMemory::with(|freed| {
        freed.range(..=address).next_back().is_some_and(|(start, size)| address < start + size)
    });
    assert!(is_freed != Some(true), "freed memory is read");
}
