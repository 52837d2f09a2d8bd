//! The atomics, locks and cells of this crate: the exported ones (the standard library's, or those of
//! [`crate::simulation`] with the feature `simulation`), or loom's under `--cfg loom`.
//!
//! [`DataCell`] is an `UnsafeCell` whose accesses have a beginning and an end, so that loom detects overlapping
//! accesses. Without loom, accesses are zero-sized and compile to nothing.

#[cfg(not(loom))]
pub(crate) use crate::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
// Loom has no `OnceLock`. Here it is set before the threads of a model share it.
#[cfg(loom)]
pub(crate) use std::sync::OnceLock;

pub(crate) use data::{DataCell, ReadAccess, WriteAccess};
use std::sync::PoisonError;

/// Locks `mutex`, ignoring poisoning: no data under these locks can be left half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals to the processor, or to loom, that this thread waits for another.
#[inline]
pub(crate) fn spin_loop() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(any(loom, feature = "simulation")))]
    std::hint::spin_loop();
    #[cfg(all(feature = "simulation", not(loom)))]
    if crate::simulation::is_simulated() {
        crate::simulation::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(not(loom))]
mod data {
    use std::cell::UnsafeCell;
    use std::marker::PhantomData;

    pub(crate) struct DataCell<T>(UnsafeCell<T>);

    pub(crate) struct ReadAccess<T>(PhantomData<fn() -> T>);

    pub(crate) struct WriteAccess<T>(PhantomData<fn() -> T>);

    impl<T> DataCell<T> {
        pub(crate) fn new(data: T) -> Self {
            DataCell(UnsafeCell::new(data))
        }

        #[inline(always)]
        pub(crate) fn begin_read(&self) -> ReadAccess<T> {
            ReadAccess(PhantomData)
        }

        #[inline(always)]
        pub(crate) fn begin_write(&self) -> WriteAccess<T> {
            WriteAccess(PhantomData)
        }
    }

    impl<T> ReadAccess<T> {
        /// # Safety
        /// 1. This access was begun on `cell` and has not ended.
        /// 2. For all of `'c`, there is no write access to it.
        #[inline(always)]
        pub(crate) unsafe fn data<'c>(&'c self, cell: &'c DataCell<T>) -> &'c T {
            // SAFETY: the pointer is valid while the cell lives, and there is no writer (2).
            unsafe { &*cell.0.get() }
        }

        #[inline(always)]
        pub(crate) fn end(&mut self) {}
    }

    impl<T> WriteAccess<T> {
        /// # Safety
        /// 1. This access was begun on `cell` and has not ended.
        /// 2. There is no other access to the cell while this one lasts.
        #[inline(always)]
        pub(crate) unsafe fn data<'c>(&'c self, cell: &'c DataCell<T>) -> &'c T {
            // SAFETY: the pointer is valid while the cell lives, and there is no other writer (2).
            unsafe { &*cell.0.get() }
        }

        /// # Safety
        /// As for [`WriteAccess::data`].
        #[inline(always)]
        pub(crate) unsafe fn data_mut<'c>(&'c mut self, cell: &'c DataCell<T>) -> &'c mut T {
            // SAFETY: the pointer is valid while the cell lives, there is no other access (2), and the mutable
            // borrow of `self` excludes a second use of this access.
            unsafe { &mut *cell.0.get() }
        }

        #[inline(always)]
        pub(crate) fn end(&mut self) {}
    }
}

#[cfg(loom)]
mod data {
    use loom::cell::{ConstPtr, MutPtr, UnsafeCell};

    pub(crate) struct DataCell<T>(UnsafeCell<T>);

    pub(crate) struct ReadAccess<T>(Option<ConstPtr<T>>);

    pub(crate) struct WriteAccess<T>(Option<MutPtr<T>>);

    impl<T> DataCell<T> {
        pub(crate) fn new(data: T) -> Self {
            DataCell(UnsafeCell::new(data))
        }

        pub(crate) fn begin_read(&self) -> ReadAccess<T> {
            ReadAccess(Some(self.0.get()))
        }

        pub(crate) fn begin_write(&self) -> WriteAccess<T> {
            WriteAccess(Some(self.0.get_mut()))
        }
    }

    impl<T> ReadAccess<T> {
        pub(crate) unsafe fn data<'c>(&'c self, _: &'c DataCell<T>) -> &'c T {
            let pointer = self.0.as_ref().expect("the access has not ended");
            // SAFETY: the caller's obligation, which loom checks.
            unsafe { pointer.deref() }
        }

        pub(crate) fn end(&mut self) {
            self.0 = None;
        }
    }

    impl<T> WriteAccess<T> {
        pub(crate) unsafe fn data<'c>(&'c self, _: &'c DataCell<T>) -> &'c T {
            let pointer = self.0.as_ref().expect("the access has not ended");
            // SAFETY: the caller's obligation, which loom checks.
            unsafe { pointer.deref() }
        }

        pub(crate) unsafe fn data_mut<'c>(&'c mut self, _: &'c DataCell<T>) -> &'c mut T {
            let pointer = self.0.as_ref().expect("the access has not ended");
            // SAFETY: the caller's obligation, which loom checks.
            unsafe { pointer.deref() }
        }

        pub(crate) fn end(&mut self) {
            self.0 = None;
        }
    }
}
