//! Huge pages for the data: made of each chunk of the heaps when it is full and the store is not growing just now.
//!
//! Look-ups are faster with them. But whoever makes one holds up those who need what is in it: for a fraction of a millisecond,
//! or for several where a virtual machine's host has to find the memory first. So none is made at the first touch, in the
//! middle of a write, and none while chunk after chunk is filled: a chunk a tick, on the background thread.
//!
//! Owns the addresses of chunks that wait for it. Where a chunk is given back meanwhile, its address may be something else's;
//! what is asked for here changes no contents.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reactor::process;

use crate::background::Background;

/// The heaps know a function only (`PageHooks`), so this is the process's.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting { chunks: VecDeque::new(), count_before: 0 });

struct Waiting {
    /// Address and size of each, the oldest first.
    chunks: VecDeque<(usize, usize)>,
    /// How many there were at the last call of [`make_one`].
    count_before: usize,
}

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of memory that is all in use.
pub fn note_full(start: NonNull<u8>, size: usize) {
    waiting().chunks.push_back((start.addr().get(), size));
}

/// Has huge pages made of one chunk, unless more have become full since the last call.
pub fn make_one(background: &Background) {
    let mut waiting = waiting();
    let is_growing = waiting.chunks.len() > waiting.count_before;
    let chunk = if is_growing { None } else { waiting.chunks.pop_front() };
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
        let start = NonNull::from(&memory[..]).cast();
        let count = || waiting().chunks.len();
        note_full(start, memory.len());
        note_full(start, memory.len());
        make_one(&background);
        assert_eq!(count(), 2, "it was growing");
        make_one(&background);
        assert_eq!(count(), 1);
        note_full(start, memory.len());
        make_one(&background);
        assert_eq!(count(), 2, "it was growing again");
        make_one(&background);
        make_one(&background);
        make_one(&background);
        assert_eq!(count(), 0);
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}
