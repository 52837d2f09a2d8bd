//! The guards: the only way to the data of a slot.
//!
//! A guard is made by the table when the latch has just been acquired (`table.rs`), or by the lot for a waiter, and
//! releases it on drop. It goes to the slow path only if somebody waits to be called.

use crate::latch::Released;
use crate::shim::{ReadAccess, WriteAccess};
use crate::table::{LatchCell, LatchTable};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A slot, held to read or to write.
#[must_use]
#[derive(Debug)]
pub enum Guard<'t, H, T> {
    /// Held to read.
    Read(ReadGuard<'t, H, T>),
    /// Held to write.
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

    /// The data to write, if it is held to write.
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

/// A slot held to read, released on drop.
#[must_use]
pub struct ReadGuard<'t, H, T> {
    cell: &'t LatchCell<H, T>,
    table: &'t LatchTable<H, T>,
    access: ReadAccess<T>,
}

/// A slot held to write, released on drop.
#[must_use]
pub struct WriteGuard<'t, H, T> {
    cell: &'t LatchCell<H, T>,
    table: &'t LatchTable<H, T>,
    access: WriteAccess<T>,
}

impl<'t, H, T> ReadGuard<'t, H, T> {
    /// The guard for a latch that has just been acquired to read.
    ///
    /// # Safety
    /// 1. `cell` is one of the table's.
    /// 2. Its latch was acquired to read, and nobody but this guard releases that.
    #[inline(always)]
    pub(crate) unsafe fn new(table: &'t LatchTable<H, T>, cell: &'t LatchCell<H, T>) -> Self {
        ReadGuard { access: cell.data.begin_read(), cell, table }
    }

    /// The number of the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.table.slot_of(self.cell)
    }

    /// What anyone may read of the slot at any time.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self) -> &'t H {
        &self.cell.shared
    }

    /// Whether somebody waits for the slot: a hint to let go soon.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.cell.latch.is_wanted()
    }
}

impl<'t, H, T> WriteGuard<'t, H, T> {
    /// The guard for a latch that has just been acquired to write.
    ///
    /// # Safety
    /// 1. `cell` is one of the table's.
    /// 2. Its latch was acquired to write, and nobody but this guard releases that.
    #[inline(always)]
    pub(crate) unsafe fn new(table: &'t LatchTable<H, T>, cell: &'t LatchCell<H, T>) -> Self {
        WriteGuard { access: cell.data.begin_write(), cell, table }
    }

    /// The number of the slot.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.table.slot_of(self.cell)
    }

    /// What anyone may read of the slot at any time.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self) -> &'t H {
        &self.cell.shared
    }

    /// Whether somebody waits for the slot: a hint to let go soon.
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
        // SAFETY: (1) begun with the guard, ends with it. (2) the latch is held to read (`new` 2), which keeps writers out.
        unsafe { self.access.data(&self.cell.data) }
    }
}

impl<H, T> Deref for WriteGuard<'_, H, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: (1) begun with the guard, ends with it. (2) the latch is held to write (`new` 2), which keeps all out.
        unsafe { self.access.data(&self.cell.data) }
    }
}

impl<H, T> DerefMut for WriteGuard<'_, H, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: (1) begun with the guard, ends with it. (2) the latch is held to write (`new` 2), which keeps all out.
        unsafe { self.access.data_mut(&self.cell.data) }
    }
}

impl<H, T> Drop for ReadGuard<'_, H, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.access.end();
        if self.cell.latch.release_read() == Released::CallWaiters {
            self.table.call_waiters(self.cell);
        }
    }
}

impl<H, T> Drop for WriteGuard<'_, H, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.access.end();
        if self.cell.latch.release_write() == Released::CallWaiters {
            self.table.call_waiters(self.cell);
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
