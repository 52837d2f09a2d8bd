//! Locks that block the simulated thread, never the operating system thread: the holder may be descheduled.
//!
//! Outside a simulation each lock behaves like the standard library's lock inside it. The scheduler identifies
//! a lock by its address while threads are blocked on it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync as real;
use std::time::Duration;

pub use real::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::{block_on, is_simulated, monotonic_ns, point, wake_all, wake_one, without_points};

/// Wakes the threads blocked on a lock. Declared after the real guard, so that it is dropped later.
struct WakeOnDrop(usize);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        wake_all(self.0);
    }
}

fn key_of<T: ?Sized>(lock: &T) -> usize {
    std::ptr::from_ref(lock).addr()
}

/// Retries until the lock is acquired.
fn acquire<G>(key: usize, mut attempt: impl FnMut() -> TryLockResult<G>) -> LockResult<G> {
    point();
    loop {
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => block_on(key, None),
        };
    }
}

fn map<A, B>(result: LockResult<A>, f: impl FnOnce(A) -> B) -> LockResult<B> {
    match result {
        Ok(value) => Ok(f(value)),
        Err(poisoned) => Err(PoisonError::new(f(poisoned.into_inner()))),
    }
}

fn map_try<A, B>(result: TryLockResult<A>, f: impl FnOnce(A) -> B) -> TryLockResult<B> {
    match result {
        Ok(value) => Ok(f(value)),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        Err(TryLockError::Poisoned(poisoned)) => {
            Err(TryLockError::Poisoned(PoisonError::new(f(poisoned.into_inner()))))
        }
    }
}

/// The standard library's lock, with scheduling points.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(real::Mutex<T>);

/// The guard of a [`Mutex`].
#[must_use]
pub struct MutexGuard<'a, T: ?Sized> {
    guard: real::MutexGuard<'a, T>,
    mutex: &'a Mutex<T>,
    _wake: WakeOnDrop,
}

impl<T> Mutex<T> {
    /// As in the standard library.
    pub const fn new(value: T) -> Self {
        Self(real::Mutex::new(value))
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let result =
            if is_simulated() { acquire(key_of(&self.0), || self.0.try_lock()) } else { self.0.lock() };
        map(result, |guard| self.guard(guard))
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// The lock is held, or a thread panicked while it held it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        map_try(self.0.try_lock(), |guard| self.guard(guard))
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    fn guard<'a>(&'a self, guard: real::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { guard, mutex: self, _wake: WakeOnDrop(key_of(&self.0)) }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

/// The standard library's lock, with scheduling points.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(real::RwLock<T>);

/// A shared guard of an [`RwLock`].
#[must_use]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    guard: real::RwLockReadGuard<'a, T>,
    _wake: WakeOnDrop,
}

/// The exclusive guard of an [`RwLock`].
#[must_use]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    guard: real::RwLockWriteGuard<'a, T>,
    _wake: WakeOnDrop,
}

impl<T> RwLock<T> {
    /// As in the standard library.
    pub const fn new(value: T) -> Self {
        Self(real::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let key = key_of(&self.0);
        let result = if is_simulated() { acquire(key, || self.0.try_read()) } else { self.0.read() };
        map(result, |guard| RwLockReadGuard { guard, _wake: WakeOnDrop(key) })
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let key = key_of(&self.0);
        let result = if is_simulated() { acquire(key, || self.0.try_write()) } else { self.0.write() };
        map(result, |guard| RwLockWriteGuard { guard, _wake: WakeOnDrop(key) })
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// The standard library's condition variable, with scheduling points.
#[derive(Debug, Default)]
pub struct Condvar(real::Condvar);

/// Whether a wait ended by timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// As in the standard library.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// As in the standard library.
    #[must_use]
    pub const fn new() -> Self {
        Self(real::Condvar::new())
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex;
        if is_simulated() {
            // No thread runs between the two calls.
            drop(guard);
            block_on(key_of(self), None);
            return mutex.lock();
        }
        map(self.0.wait(guard.guard), |guard| mutex.guard(guard))
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        if is_simulated() {
            drop(guard);
            let woken = block_on(key_of(self), Some(deadline_us(timeout)));
            return map(mutex.lock(), |guard| (guard, WaitTimeoutResult(!woken)));
        }
        map(self.0.wait_timeout(guard.guard, timeout), |(guard, result)| {
            (mutex.guard(guard), WaitTimeoutResult(result.timed_out()))
        })
    }

    /// As in the standard library.
    pub fn notify_one(&self) {
        point();
        wake_one(key_of(self));
        self.0.notify_one();
    }

    /// As in the standard library.
    pub fn notify_all(&self) {
        point();
        wake_all(key_of(self));
        self.0.notify_all();
    }
}

fn deadline_us(timeout: Duration) -> u64 {
    let now_us = monotonic_ns().unwrap_or(0).div_ceil(1000);
    now_us.saturating_add(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}

/// The standard library's cell. Initialisation has no scheduling points, since a second thread that needs the
/// value would block its operating system thread.
#[derive(Debug)]
pub struct OnceLock<T>(real::OnceLock<T>);

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// As in the standard library.
    #[must_use]
    pub const fn new() -> Self {
        Self(real::OnceLock::new())
    }

    /// As in the standard library.
    pub fn get(&self) -> Option<&T> {
        point();
        self.0.get()
    }

    /// As in the standard library.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// The cell already has a value.
    pub fn set(&self, value: T) -> Result<(), T> {
        point();
        self.0.set(value)
    }

    /// As in the standard library.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        point();
        without_points(|| self.0.get_or_init(make))
    }
}
