//! A lock for critical sections of about ten nanoseconds.
//!
//! Owns the value it guards. Held only inside this crate's allocator, never across a system call, another
//! lock or a caller's code. A waiter pauses, and after a bounded number of pauses sleeps briefly, so that a
//! preempted holder can continue.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sync::atomic::{AtomicBool, Ordering};

/// Pauses before a waiter sleeps.
const PAUSE_COUNT_MAX: u32 = 128;

/// Duration of the sleep. Not a yield, which would end the waiter's time slice: Linux would run other threads
/// for milliseconds, though the holder needs only nanoseconds.
const SLEEP: Duration = Duration::from_micros(20);

pub(crate) struct SpinLock<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock provides one reference at a time, so sharing it only moves `T` between threads.
unsafe impl<T: Send> Sync for SpinLock<T> {}

pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        // Acquire pairs with the release of the previous holder's guard.
        while self.is_locked.swap(true, Ordering::Acquire) {
            self.wait();
        }
        SpinGuard { lock: self }
    }

    #[cold]
    fn wait(&self) {
        let mut pause_count = 0;
        while self.is_locked.load(Ordering::Relaxed) {
            if pause_count < PAUSE_COUNT_MAX {
                pause_count += 1;
                std::hint::spin_loop();
            } else if sync::simulation::is_simulated() {
                sync::thread::yield_now();
            } else {
                sync::thread::sleep(SLEEP);
            }
        }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the acquire of the next holder.
        self.lock.is_locked.store(false, Ordering::Release);
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so no other reference to the value exists.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_are_not_lost() {
        let lock = SpinLock::new(0u64);
        let round_count = if cfg!(miri) { 300 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..round_count {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 3 * round_count);
    }
}
