//! State shared by the load threads and their coordinator: the clock, the measured window, and counters.
//!
//! Every atomic here is a statistic or a polled flag; results are returned by joining the threads. So
//! orderings are relaxed, with one exception: a reader that sees a thread's quotas finished also sees the
//! counts of all its replies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
}

impl Clock {
    /// Creates a clock that reads 0 until `base`.
    #[must_use]
    pub const fn starting_at(base: Instant) -> Self {
        Self { base }
    }

    /// Returns the time since the start.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.base).as_nanos() as u64
    }

    /// Returns the time until the start.
    #[must_use]
    pub fn until_start(&self) -> Duration {
        self.base.saturating_duration_since(Instant::now())
    }
}

/// The measured part of a run. Requests (intended to be) sent inside it count.
#[derive(Debug)]
pub struct Window {
    start_ns: u64,
    end_ns: AtomicU64,
    aborted: AtomicBool,
}

impl Window {
    /// Creates a window after `warmup`; without `length` it stays open until [`Window::close`].
    #[must_use]
    pub fn new(warmup: Duration, length: Option<Duration>) -> Self {
        let start_ns = warmup.as_nanos() as u64;
        let end_ns = length.map_or(u64::MAX, |length| start_ns + length.as_nanos() as u64);
        Self { start_ns, end_ns: AtomicU64::new(end_ns), aborted: AtomicBool::new(false) }
    }

    /// Returns the first moment inside.
    #[must_use]
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns the first moment after it.
    #[inline]
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Whether this moment is inside.
    #[inline]
    #[must_use]
    pub fn contains(&self, moment_ns: u64) -> bool {
        (self.start_ns..self.end_ns()).contains(&moment_ns)
    }

    /// Ends the window.
    pub fn close(&self, end_ns: u64) {
        self.end_ns.store(end_ns, Ordering::Relaxed);
    }

    /// Makes all threads stop at once.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }

    /// Whether [`Window::abort`] was called.
    #[inline]
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }
}

/// One thread's counters, on separate cache lines. Written by that thread, read by the coordinator.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    replies: AtomicU64,
    errors: AtomicU64,
    /// When the last quota was used up; 0 while any remains.
    finished_ns: AtomicU64,
}

impl Progress {
    /// Publishes the counts since the start of the run.
    #[inline]
    pub fn publish(&self, replies: u64, errors: u64) {
        self.replies.store(replies, Ordering::Relaxed);
        self.errors.store(errors, Ordering::Relaxed);
    }

    /// Returns the replies so far.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// Returns the error replies so far.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Records that all of the thread's quotas are used up.
    pub fn finish(&self, now_ns: u64) {
        // Pairs with `finished_ns`.
        self.finished_ns.store(now_ns.max(1), Ordering::Release);
    }

    /// Returns when all quotas were used up; `None` while any remains.
    #[must_use]
    pub fn finished_ns(&self) -> Option<u64> {
        // Pairs with `finish`.
        Some(self.finished_ns.load(Ordering::Acquire)).filter(|&finished_ns| finished_ns > 0)
    }
}
