//! Received bytes on loan to the caller, and the buffers of the epoll backend.
//!
//! A [`RecvBuffer`] goes back to where it came from when it is dropped, so none can get lost. It holds its pool
//! alive, so it may outlive the reactor. The pool of io_uring is in `uring::buffer_ring`.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::uring::buffer_ring::BufferRing;

/// Where buffers go when they are dropped.
pub(crate) enum Pool {
    /// Heap buffers, kept for the next receive.
    Shared(SharedPool),
    /// Buffers lent to the kernel.
    Ring(BufferRing),
    /// One buffer, used once; the bytes belong to the pool, and to nobody while a `RecvBuffer` points to them.
    Single { _bytes: Vec<u8> },
}

/// Received bytes. Drop it, or [`recycle`](crate::Reactor::recycle) it, to give the buffer back.
pub struct RecvBuffer {
    pool: Rc<Pool>,
    start: NonNull<u8>,
    size: u32,
    /// The pool's name for the buffer.
    id: u32,
}

impl RecvBuffer {
    /// # Safety
    ///
    /// 1. `size` bytes at `start` are initialised and lie in memory that lives as long as `pool`.
    /// 2. Nobody else reads or writes them until the buffer is given back to the pool, which only this does.
    /// 3. The buffer was taken from the pool: it starts at `start`, and is the one that the pool calls `id`.
    pub(crate) unsafe fn new(pool: Rc<Pool>, start: NonNull<u8>, size: u32, id: u32) -> Self {
        Self { pool, start, size, id }
    }

    /// Bytes from elsewhere.
    pub(crate) fn of_bytes(mut bytes: Vec<u8>) -> Self {
        let size = u32::try_from(bytes.len()).expect("receives are held up long before 4 GiB");
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is not null");
        // SAFETY: (1) moving the vector does not move its bytes; the pool owns it; (2) the pool never touches it; (3) and
        // has no other buffer.
        unsafe { Self::new(Rc::new(Pool::Single { _bytes: bytes }), start, size, 0) }
    }
}

impl Deref for RecvBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new` (1) initialised and alive, as the pool is held; (2) no writer but through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size as usize) }
    }
}

impl DerefMut for RecvBuffer {
    /// For decryption in place.
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` (1) initialised and alive, as the pool is held; (2) this is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size as usize) }
    }
}

impl Drop for RecvBuffer {
    #[inline]
    fn drop(&mut self) {
        match &*self.pool {
            // SAFETY: (1) `new` (3), and nobody uses it after this.
            Pool::Shared(pool) => unsafe { pool.give_back(self.start) },
            // SAFETY: (1) `new` (3), and nobody uses it after this.
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

/// Heap buffers of one size, last in, first out: a caller that gives each back soon has few, mostly in the cache.
pub(crate) struct SharedPool {
    buffer_size: u32,
    /// Free buffers, each a leaked `Box<[u8]>` of `buffer_size` bytes.
    free: RefCell<Vec<NonNull<u8>>>,
}

/// Free buffers kept; more are given to the allocator.
const FREE_COUNT_MAX: usize = 16;

impl SharedPool {
    pub(crate) fn new(buffer_size: u32) -> Self {
        Self { buffer_size, free: RefCell::new(Vec::new()) }
    }

    pub(crate) fn buffer_size(&self) -> usize {
        self.buffer_size as usize
    }

    /// A buffer of `buffer_size` initialised bytes, the caller's own until it is given back.
    pub(crate) fn take(&self) -> NonNull<u8> {
        if let Some(start) = self.free.borrow_mut().pop() {
            return start;
        }
        let buffer = vec![0_u8; self.buffer_size as usize].into_boxed_slice();
        NonNull::from(Box::leak(buffer)).cast()
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    ///
    /// 1. It came from [`Self::take`] of this pool, was not given back since, and nobody uses it any more.
    pub(crate) unsafe fn give_back(&self, start: NonNull<u8>) {
        let mut free = self.free.borrow_mut();
        if free.len() < FREE_COUNT_MAX {
            free.push(start);
        } else {
            // SAFETY: (1) is the callee's condition, too.
            unsafe { self.release(start) };
        }
    }

    /// # Safety
    ///
    /// 1. It came from [`Self::take`] of this pool, and nobody has it any more.
    unsafe fn release(&self, start: NonNull<u8>) {
        let buffer = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.buffer_size as usize);
        // SAFETY: (1) `take` leaked a box of exactly this size here.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        for start in std::mem::take(self.free.get_mut()) {
            // SAFETY: (1) it was given back.
            unsafe { self.release(start) };
        }
    }
}
