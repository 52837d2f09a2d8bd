//! A passage: threads go through without waiting for each other, and somebody who has changed what they read there can
//! wait until nobody is inside who may have read it before. It may also be closed for a while.
//!
//! Each thread has a lane, a counter of its own: odd while the thread is inside.
//!
//! | from | to | step |
//! |---|---|---|
//! | even | odd | [`Passage::enter`] |
//! | odd | even | drop of [`Inside`], or `enter` finds the passage closed |
//!
//! Invariant: whoever enters after [`Passage::await_inside`] has begun sees what was written before that.

use crate::counter::Padded;
use crate::shim::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, spin_loop};

/// Looks before a waiting thread lets others run.
const SPIN_COUNT: u32 = 100;

/// See the module.
#[derive(Debug)]
pub struct Passage {
    lanes: Box<[Padded<AtomicU64>]>,
    /// One more than the highest lane that was ever used.
    used_count: AtomicUsize,
    closed: AtomicU32,
}

/// A thread is inside until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Inside<'a>(&'a AtomicU64);

/// Nobody is inside, and nobody enters until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Closed<'a>(&'a AtomicU32);

impl Passage {
    /// One for threads with numbers below `lane_count`.
    #[must_use]
    pub fn new(lane_count: usize) -> Self {
        Self {
            lanes: (0..lane_count).map(|_| Padded(AtomicU64::new(0))).collect(),
            used_count: AtomicUsize::new(0),
            closed: AtomicU32::new(0),
        }
    }

    /// The thread with this number enters. It must not be inside already.
    #[inline]
    pub fn enter(&self, lane: usize) -> Inside<'_> {
        if lane >= self.used_count.load(Ordering::Relaxed) {
            self.used_count.fetch_max(lane + 1, Ordering::SeqCst);
        }
        let own = &self.lanes[lane].0;
        loop {
            let outside = own.load(Ordering::Relaxed);
            debug_assert_eq!(outside % 2, 0, "the thread is inside already");
            own.store(outside + 1, Ordering::Relaxed);
            // Pairs with the one in `await_inside`: either that sees this thread inside, or this thread sees what was
            // written before it.
            fence(Ordering::SeqCst);
            if self.closed.load(Ordering::Acquire) == 0 {
                return Inside(own);
            }
            own.store(outside + 2, Ordering::Release);
            wait_while(|| self.closed.load(Ordering::Acquire) != 0);
        }
    }

    /// How often a thread has entered or left, or found the passage closed: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn step_count(&self, lane: usize) -> u64 {
        self.lanes[lane].0.load(Ordering::Acquire)
    }

    /// Waits until those have left who are inside now. They are not expected to wait for anything there.
    pub fn await_inside(&self) {
        fence(Ordering::SeqCst);
        for lane in &self.lanes[..self.used_count.load(Ordering::SeqCst)] {
            let now = lane.0.load(Ordering::Acquire);
            if now % 2 == 1 {
                // Pairs with the store of `Inside::drop`: what was done inside is seen.
                wait_while(|| lane.0.load(Ordering::Acquire) == now);
            }
        }
    }

    /// Keeps everybody out. Whoever wants that must see to it that nobody else does.
    pub fn close(&self) -> Closed<'_> {
        self.closed.store(1, Ordering::Release);
        self.await_inside();
        Closed(&self.closed)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

fn wait_while(is_so: impl Fn() -> bool) {
    let mut looks = 0;
    while is_so() {
        spin_loop();
        looks += 1;
        // Whoever is waited for may need this processor.
        #[cfg(not(loom))]
        if looks % SPIN_COUNT == 0 {
            std::thread::yield_now();
        }
    }
    let _ = (looks, SPIN_COUNT);
}
