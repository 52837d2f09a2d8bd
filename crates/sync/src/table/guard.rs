//! The guards: the only access to the data of a slot.
//!
//! The table creates a guard right after it acquires the latch, or after the lot has acquired it for a waiter.
//! The guard releases the latch on drop. The release takes the slow path only if there are waiters to wake.

use crate::latch::Released;
use crate::shim::{ReadAccess, WriteAccess};
use crate::table::{LatchCell, LatchTable};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A slot held for reading or for writing.
#[must_use]
#[derive(Debug)]
pub enum Guard<'t, H, T> {
    /// Held for reading.
    Read(ReadGuard<'t, H, T>),
    /// Held for writing.
    Write(WriteGuard<'t, H, T>),
}

impl<H, T> Guard<'_, H, T> {
    /// The number of the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        match self {
            Guard::Read(guard) => guard.slot(),
            Guard::Write(guard) => guard.slot(),
        }
    }

    /// Mutable data, if the slot is held for writing.
    #[inline(always)]
    #[must_use]
    pub fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            Guard::Read(_) => None,
            Guard::Write(guard) => Some(guard),
        }
    }
}

impl<H, T> Deref for Guard<'_, H, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            Guard::Read(guard) => guard,
            Guard::Write(guard) => guard,
        }
    }
}

/// A slot held for reading, released on drop.
#[must_use]
pub struct ReadGuard<'t, H, T> {
    cell: &'t LatchCell<H, T>,
    table: &'t LatchTable<H, T>,
    access: ReadAccess<T>,
}

/// A slot held for writing, released on drop.
#[must_use]
pub struct WriteGuard<'t, H, T> {
    cell: &'t LatchCell<H, T>,
    table: &'t LatchTable<H, T>,
    access: WriteAccess<T>,
}

impl<'t, H, T> ReadGuard<'t, H, T> {
    /// Creates the guard of a latch that has just been acquired for reading.
    ///
    /// # Safety
    /// 1. `cell` belongs to `table`.
    /// 2. Its latch was acquired for reading, and only this guard releases it.
    #[inline(always)]
    pub(crate) unsafe fn new(table: &'t LatchTable<H, T>, cell: &'t LatchCell<H, T>) -> Self {
        ReadGuard { access: cell.data.begin_read(), cell, table }
    }

    /// The number of the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.table.slot_of(self.cell)
    }

    /// The shared part of the slot, which any thread may read at any time.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self) -> &'t H {
        &self.cell.shared
    }

    /// Whether a session waits for the slot: a hint to release it soon.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.cell.latch.is_wanted()
    }
}

impl<'t, H, T> WriteGuard<'t, H, T> {
    /// Creates the guard of a latch that has just been acquired for writing.
    ///
    /// # Safety
    /// 1. `cell` belongs to `table`.
    /// 2. Its latch was acquired for writing, and only this guard releases it.
    #[inline(always)]
    pub(crate) unsafe fn new(table: &'t LatchTable<H, T>, cell: &'t LatchCell<H, T>) -> Self {
        WriteGuard { access: cell.data.begin_write(), cell, table }
    }

    /// The number of the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.table.slot_of(self.cell)
    }

    /// The shared part of the slot, which any thread may read at any time.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self) -> &'t H {
        &self.cell.shared
    }

    /// Whether a session waits for the slot: a hint to release it soon.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.cell.latch.is_wanted()
    }
}

impl<H, T> Deref for ReadGuard<'_, H, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: (1) the access begins and ends with the guard. (2) the latch is held for reading (`new` 2),
        // which excludes writers.
        unsafe { self.access.data(&self.cell.data) }
    }
}

impl<H, T> Deref for WriteGuard<'_, H, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: (1) the access begins and ends with the guard. (2) the latch is held for writing (`new` 2),
        // which excludes all others.
        unsafe { self.access.data(&self.cell.data) }
    }
}

impl<H, T> DerefMut for WriteGuard<'_, H, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: (1) the access begins and ends with the guard. (2) the latch is held for writing (`new` 2),
        // which excludes all others.
        unsafe { self.access.data_mut(&self.cell.data) }
    }
}

impl<H, T> Drop for ReadGuard<'_, H, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.access.end();
        if self.cell.latch.release_read() == Released::WakeWaiters {
            self.table.wake_waiters(self.cell);
        }
    }
}

impl<H, T> Drop for WriteGuard<'_, H, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.access.end();
        if self.cell.latch.release_write() == Released::WakeWaiters {
            self.table.wake_waiters(self.cell);
        }
    }
}

impl<H, T> fmt::Debug for ReadGuard<'_, H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadGuard({})", self.slot())
    }
}

impl<H, T> fmt::Debug for WriteGuard<'_, H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteGuard({})", self.slot())
    }
}
