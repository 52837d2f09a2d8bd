//! Huge pages for the data: made of each chunk of the heaps when it is full and the store is not growing just now.
//!
//! Look-ups are faster with them. But whoever makes one holds up those who need what is in it: for a fraction of a millisecond,
//! or for several where a virtual machine's host has to find the memory first. So none is made at the first touch, in the
//! middle of a write, and none while chunk after chunk is filled: a chunk a tick, on the background thread.
//!
//! And a huge page is resident as a whole. So none is made while much of the heaps is mapped only: each heap has a partly used
//! span of every size that it was ever asked for.
//!
//! Owns the addresses of chunks that wait for it; one that is given back waits no longer. Where that comes too late its address
//! may be something else's; what is asked for here changes no contents.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reactor::process;

use crate::background::Background;

/// The heaps know a function only (`PageHooks`), so this is the process's.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting { chunks: BTreeMap::new(), count_before: 0 });

struct Waiting {
    /// Size of each, by its address.
    chunks: BTreeMap<usize, usize>,
    /// How many there were at the last call of [`make_one`].
    count_before: usize,
}

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of memory that is all in use.
pub fn note_full(start: NonNull<u8>, size: usize) {
    waiting().chunks.insert(start.addr().get(), size);
}

/// Gives the pages of vacant memory back; if it is most of a chunk, that one waits no longer.
pub fn discard(memory: &mut [MaybeUninit<u8>]) {
    let start = memory.as_ptr().addr();
    let mut waiting = waiting();
    if let Some((&address, &size)) = waiting.chunks.range(..=start).next_back()
        && start < address + size
        && memory.len() > size / 2
    {
        waiting.chunks.remove(&address);
    }
    drop(waiting);
    process::discard_pages(memory);
}

/// Has huge pages made of one chunk, unless more have become full since the last call.
pub fn make_one(background: &Background) {
    let mut waiting = waiting();
    let is_growing = waiting.chunks.len() > waiting.count_before;
    let chunk = if is_growing { None } else { waiting.chunks.pop_first() };
    waiting.count_before = waiting.chunks.len();
    drop(waiting);
    if let Some((address, size)) = chunk {
        background.free(0, Box::new(move || process::make_huge_pages(address, size)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_a_call_once_nothing_becomes_full_any_more() {
        let background = Background::default();
        let memory = vec![7_u8; 64 << 10];
        let (first, second) = memory.split_at(32 << 10);
        let note_full = |half: &[u8]| note_full(NonNull::from(half).cast(), half.len());
        let count = || waiting().chunks.len();
        note_full(first);
        note_full(second);
        make_one(&background);
        assert_eq!(count(), 2, "it was growing");
        make_one(&background);
        assert_eq!(count(), 1);
        note_full(first);
        make_one(&background);
        assert_eq!(count(), 2, "it was growing again");
        make_one(&background);
        make_one(&background);
        make_one(&background);
        assert_eq!(count(), 0);
        assert!(memory.iter().all(|byte| *byte == 7));

        let mut chunk = Box::<[u8]>::new_uninit_slice(32 << 10);
        super::note_full(NonNull::from(&chunk[..]).cast(), chunk.len());
        discard(&mut chunk[4 << 10..8 << 10]);
        discard(&mut Box::<[u8]>::new_uninit_slice(32 << 10));
        assert_eq!(count(), 1, "most of it is in use");
        discard(&mut chunk[4 << 10..]);
        assert_eq!(count(), 0, "it was given back");
    }
}
