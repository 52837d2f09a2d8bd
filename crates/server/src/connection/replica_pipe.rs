//! The bytes of a snapshot between the thread that takes it and the worker that sends them to a replica.
//!
//! Invariant: it holds at most [`PIPE_SIZE_MAX`] bytes and what a pass writes at once.

use std::collections::VecDeque;
use std::sync::PoisonError;

use sync::{Mutex, MutexGuard};

/// Bytes from which on the pass waits for the worker.
pub const PIPE_SIZE_MAX: usize = 4 << 20;

/// See the module documentation.
#[derive(Default)]
pub struct Pipe(Mutex<PipeState>);

#[derive(Default)]
struct PipeState {
    parts: VecDeque<Vec<u8>>,
    size: usize,
    /// Whether nothing follows.
    is_complete: bool,
    /// Whether the worker has found it empty, and waits.
    is_awaited: bool,
}

/// What a worker takes from it.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bytes.
    Some,
    /// Nothing for now: the next bytes wake the worker.
    Nothing,
    /// Nothing follows.
    End,
}

impl Pipe {
    /// Adds bytes. Returns whether the worker is to be woken.
    #[must_use]
    pub fn push(&self, bytes: Vec<u8>) -> bool {
        self.add(bytes, false)
    }

    /// As [`Self::push`]; nothing follows these bytes.
    #[must_use]
    pub fn push_last(&self, bytes: Vec<u8>) -> bool {
        self.add(bytes, true)
    }

    /// Whether nothing follows what the worker has taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let state = self.lock();
        state.is_complete && state.size == 0
    }

    /// Whether it holds so much that the pass must wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().size >= PIPE_SIZE_MAX
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn size(&self) -> usize {
        self.lock().size
    }

    /// Drops what it holds.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.parts.clear();
        state.size = 0;
    }

    /// Moves up to about `size_max` bytes to `out`.
    pub fn take(&self, size_max: usize, out: &mut Vec<u8>) -> Taken {
        let mut state = self.lock();
        let before = out.len();
        while out.len() - before < size_max
            && let Some(part) = state.parts.pop_front()
        {
            state.size -= part.len();
            out.extend_from_slice(&part);
        }
        if out.len() > before {
            return Taken::Some;
        }
        if state.is_complete {
            return Taken::End;
        }
        state.is_awaited = true;
        Taken::Nothing
    }

    fn add(&self, bytes: Vec<u8>, is_last: bool) -> bool {
        let mut state = self.lock();
        state.size += bytes.len();
        state.parts.push_back(bytes);
        state.is_complete |= is_last;
        std::mem::take(&mut state.is_awaited)
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_waits_is_woken_once() {
        let pipe = Pipe::default();
        let mut out = Vec::new();
        assert!(!pipe.push(b"ab".to_vec()) && !pipe.push(b"cd".to_vec()));
        assert_eq!((pipe.take(1, &mut out), pipe.take(9, &mut out)), (Taken::Some, Taken::Some));
        assert_eq!((out.as_slice(), pipe.size()), (b"abcd".as_slice(), 0));
        assert_eq!(pipe.take(1, &mut out), Taken::Nothing);
        assert!(pipe.push(vec![0; PIPE_SIZE_MAX]) && pipe.is_full());
        assert!(!pipe.push_last(b"ef".to_vec()), "it was woken");
        assert_eq!((pipe.take(1, &mut out), pipe.is_taken()), (Taken::Some, false));
        assert_eq!((pipe.take(1, &mut out), pipe.is_taken()), (Taken::Some, true));
        assert_eq!(pipe.take(1, &mut out), Taken::End);
    }
}
