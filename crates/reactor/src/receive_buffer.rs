//! Received bytes that the caller holds for a time, and the buffers of the epoll backend.
//!
//! A [`RecvBuffer`] returns to its pool when dropped, so none can be lost. It keeps its pool alive, so it may
//! outlive the reactor. The io_uring pool is in `buffer_ring.rs`.

pub(crate) mod buffer_ring;

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

use buffer_ring::BufferRing;

/// The pool to which dropped buffers return.
pub(crate) enum Pool {
    /// Heap buffers, kept for the next receive.
    Shared(SharedPool),
    /// Buffers provided to the kernel.
    Ring(BufferRing),
    /// A single-use buffer. The pool owns the bytes but does not access them while a `RecvBuffer` points to
    /// them.
    Single { _bytes: Vec<u8> },
}

/// Received bytes. Drop or [`recycle`](crate::Reactor::recycle) it to return the buffer.
pub struct RecvBuffer {
    pool: Rc<Pool>,
    start: NonNull<u8>,
    size: u32,
    /// The pool's id of the buffer.
    id: u32,
}

impl RecvBuffer {
    /// # Safety
    ///
    /// 1. `size` bytes at `start` are initialised and lie in memory that lives as long as `pool`.
    /// 2. There are no other readers or writers until the buffer is returned to the pool, which only this does.
    /// 3. The buffer was taken from the pool: it starts at `start` and has the pool's id `id`.
    pub(crate) unsafe fn new(pool: Rc<Pool>, start: NonNull<u8>, size: u32, id: u32) -> Self {
        Self { pool, start, size, id }
    }

    /// Wraps bytes from another source.
    pub(crate) fn of_bytes(mut bytes: Vec<u8>) -> Self {
        let size = u32::try_from(bytes.len()).expect("receives are held up long before 4 GiB");
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is not null");
        // SAFETY: (1) moving the vector does not move its bytes; the pool owns it; (2) the pool never accesses
        // it; (3) the pool has no other buffer.
        unsafe { Self::new(Rc::new(Pool::Single { _bytes: bytes }), start, size, 0) }
    }
}

impl Deref for RecvBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new` (1) initialised and alive, as the pool is alive; (2) no writer except through `&mut
        // self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size as usize) }
    }
}

impl DerefMut for RecvBuffer {
    /// For decryption in place.
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` (1) initialised and alive, as the pool is alive; (2) this is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size as usize) }
    }
}

impl Drop for RecvBuffer {
    #[inline]
    fn drop(&mut self) {
        match &*self.pool {
            // SAFETY: (1) `new` (3), and it is not used afterwards.
            Pool::Shared(pool) => unsafe { pool.give_back(self.start) },
            // SAFETY: (1) `new` (3), and it is not used afterwards.
            Pool::Ring(buffers) => unsafe { buffers.give_back(self.id as u16) },
            Pool::Single { .. } => {}
        }
    }
}

impl fmt::Debug for RecvBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuffer").field("size", &self.size).field("id", &self.id).finish()
    }
}

/// Heap buffers of one size in LIFO order: a caller that returns each soon uses few, mostly cached ones.
pub(crate) struct SharedPool {
    buffer_size: u32,
    /// Free buffers, each a leaked `Box<[u8]>` of `buffer_size` bytes.
    free: RefCell<Vec<NonNull<u8>>>,
}

/// Maximum number of free buffers kept; more are deallocated.
const FREE_COUNT_MAX: usize = 16;

impl SharedPool {
    pub(crate) fn new(buffer_size: u32) -> Self {
        Self { buffer_size, free: RefCell::new(Vec::new()) }
    }

    pub(crate) fn buffer_size(&self) -> usize {
        self.buffer_size as usize
    }

    /// Returns a buffer of `buffer_size` initialised bytes, exclusive to the caller until it is returned.
    pub(crate) fn take(&self) -> NonNull<u8> {
        if let Some(start) = self.free.borrow_mut().pop() {
            return start;
        }
        let buffer = vec![0_u8; self.buffer_size as usize].into_boxed_slice();
        NonNull::from(Box::leak(buffer)).cast()
    }

    /// Returns a buffer to the pool.
    ///
    /// # Safety
    ///
    /// 1. It came from [`Self::take`] of this pool, was not returned since, and is not used any more.
    pub(crate) unsafe fn give_back(&self, start: NonNull<u8>) {
        let mut free = self.free.borrow_mut();
        if free.len() < FREE_COUNT_MAX {
            free.push(start);
        } else {
            // SAFETY: (1) is also the callee's condition.
            unsafe { self.release(start) };
        }
    }

    /// # Safety
    ///
    /// 1. It came from [`Self::take`] of this pool, and has no users any more.
    unsafe fn release(&self, start: NonNull<u8>) {
        let buffer = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.buffer_size as usize);
        // SAFETY: (1) `take` leaked a box of exactly this size here.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        for start in std::mem::take(self.free.get_mut()) {
            // SAFETY: (1) it was returned.
            unsafe { self.release(start) };
        }
    }
}
