//! Receive buffers provided to the kernel, which picks one for each arrival.
//!
//! The kernel takes buffers in the order in which they were returned. Their starts are spread over the cache
//! sets: at a power-of-two distance, the first lines of all buffers would map to a few sets.
//!
//! Invariants:
//! 1. A buffer is with the kernel, with one [`RecvBuffer`](crate::RecvBuffer), or on its way in a completion;
//!    never in two places.
//! 2. `free_count` is the number with the kernel, according to the completions handled so far.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The only buffer group.
pub(crate) const GROUP: u16 = 0;

/// Added to each buffer's size: an odd number of cache lines.
const COLOUR_SIZE: usize = 5 * 64;

pub(crate) struct BufferRing {
    entries: os::Mapping,
    memory: os::Mapping,
    buffer_size: u32,
    /// The number of buffers, a power of two, minus 1.
    mask: u16,
    tail: Cell<u16>,
    free_count: Cell<u32>,
}

impl BufferRing {
    /// Allocates `buffer_count` buffers, rounded up to a power of two.
    /// `register` registers them: it receives a page-aligned array of so many zeroed entries,
    /// which lives as long as the returned value.
    pub(crate) fn new(
        buffer_size: u32,
        buffer_count: u16,
        register: impl FnOnce(*mut BufRingEntry, u16) -> io::Result<()>,
    ) -> io::Result<Self> {
        let buffer_count = buffer_count.min(1 << 15).next_power_of_two();
        let entries = os::Mapping::new(usize::from(buffer_count) * size_of::<BufRingEntry>())?;
        let memory = os::Mapping::new(usize::from(buffer_count) * stride(buffer_size))?;
        let start = entries.start().cast::<BufRingEntry>().as_ptr();
        register(start, buffer_count)?;
        let buffers = Self {
            entries,
            memory,
            buffer_size,
            mask: buffer_count - 1,
            tail: Cell::new(0),
            free_count: Cell::new(0),
        };
        for id in 0..buffer_count {
            // SAFETY: (1) the id is in range, and no buffer is in use yet.
            unsafe { buffers.give_back(id) };
        }
        Ok(buffers)
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free_count.get()
    }

    /// Records that the kernel has filled buffer `id`, and returns its address.
    ///
    /// # Safety
    ///
    /// 1. A completion of the ring has just named the buffer.
    pub(crate) unsafe fn take(&self, id: u16) -> NonNull<u8> {
        self.free_count.set(self.free_count.get() - 1);
        // SAFETY: (1) so `id` is in range.
        unsafe { self.start_of(id) }
    }

    /// Provides buffer `id` to the kernel.
    ///
    /// # Safety
    ///
    /// 1. It is one of the buffers, is not with the kernel, and has no readers or writers any more.
    #[inline]
    pub(crate) unsafe fn give_back(&self, id: u16) {
        let tail = self.tail.get();
        let ring = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the masked index is below the number of entries in the mapping.
        let entry = unsafe { ring.add(usize::from(tail & self.mask)) };
        // SAFETY: the mapping is valid and aligned, and the kernel does not read entries from `tail` on until
        // the tail passes them. Only this thread creates references to entries.
        let entry = unsafe { &mut *entry.as_ptr() };
        // SAFETY: (1) is also the callee's condition.
        entry.set_addr(unsafe { self.start_of(id) }.as_ptr() as u64);
        entry.set_len(self.buffer_size);
        entry.set_bid(id);
        self.tail.set(tail.wrapping_add(1));
        self.free_count.set(self.free_count.get() + 1);
        self.publish();
    }

    #[inline]
    fn publish(&self) {
        let ring = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: it is the first entry of the buffer ring, initialised.
        let tail = unsafe { BufRingEntry::tail(ring.as_ptr()) };
        // SAFETY: it is an aligned u16 in this mapping, written only here.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // Release pairs with the kernel's acquiring load: the entries before it are written.
        tail.store(self.tail.get(), Ordering::Release);
    }

    /// The address of buffer `id`.
    ///
    /// # Safety
    ///
    /// 1. It is one of the buffers.
    #[inline]
    unsafe fn start_of(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id <= self.mask);
        // SAFETY: (1) its start lies within the mapping.
        unsafe { self.memory.start().add(usize::from(id) * stride(self.buffer_size)) }
    }
}

const fn stride(buffer_size: u32) -> usize {
    (buffer_size as usize).next_multiple_of(64) + COLOUR_SIZE
}
