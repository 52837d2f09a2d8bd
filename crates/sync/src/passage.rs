//! A passage: a read section that threads enter without waiting for each other. A thread that has changed the
//! data read there can wait until all readers of the previous data have left. A passage may also be closed
//! temporarily.
//!
//! Each thread has a lane, a counter of its own, which is odd while the thread is inside.
//!
//! | from | to | step |
//! |---|---|---|
//! | even | odd | [`Passage::enter`] |
//! | odd | even | drop of [`Inside`], or `enter` finds the passage closed |
//!
//! Invariant: a thread that enters after the start of [`Passage::await_inside`] sees all writes made before it.

use crate::counter::Padded;
use crate::shim::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, spin_loop};

/// Iterations of a waiting thread before it yields the processor.
const SPIN_COUNT: u32 = 100;

/// See the module documentation.
#[derive(Debug)]
pub struct Passage {
    lanes: Box<[Padded<AtomicU64>]>,
    /// One more than the highest lane ever used.
    used_count: AtomicUsize,
    closed: AtomicU32,
}

/// Marks a thread as inside until dropped.
#[derive(Debug)]
#[must_use]
pub struct Inside<'a>(&'a AtomicU64);

/// Keeps the passage empty and closed until dropped.
#[derive(Debug)]
#[must_use]
pub struct Closed<'a>(&'a AtomicU32);

impl Passage {
    /// Creates a passage for threads with numbers below `lane_count`.
    #[must_use]
    pub fn new(lane_count: usize) -> Self {
        Self {
            lanes: (0..lane_count).map(|_| Padded(AtomicU64::new(0))).collect(),
            used_count: AtomicUsize::new(0),
            closed: AtomicU32::new(0),
        }
    }

    /// Enters as the thread with number `lane`, which must not already be inside.
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
            // Pairs with the fence in `await_inside`: either it sees this thread inside, or this thread sees
            // all writes before it.
            fence(Ordering::SeqCst);
            if self.closed.load(Ordering::Acquire) == 0 {
                return Inside(own);
            }
            own.store(outside + 2, Ordering::Release);
            wait_while(|| self.closed.load(Ordering::Acquire) != 0);
        }
    }

    /// How many times a thread has entered, left, or found the passage closed. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn step_count(&self, lane: usize) -> u64 {
        self.lanes[lane].0.load(Ordering::Acquire)
    }

    /// Whether it is closed. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) != 0
    }

    /// Waits until all threads that are inside now have left. They are expected not to wait while inside.
    pub fn await_inside(&self) {
        fence(Ordering::SeqCst);
        for lane in &self.lanes[..self.used_count.load(Ordering::SeqCst)] {
            let now = lane.0.load(Ordering::Acquire);
            if now % 2 == 1 {
                // Pairs with the store in `Inside::drop`: the effects of the read section are visible.
                wait_while(|| lane.0.load(Ordering::Acquire) == now);
            }
        }
    }

    /// Closes the passage and waits until it is empty. Callers must exclude each other.
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
    let mut check_count = 0;
    while is_so() {
        spin_loop();
        check_count += 1;
        // The awaited thread may need this processor.
        #[cfg(not(loom))]
        if check_count % SPIN_COUNT == 0 {
            std::thread::yield_now();
        }
    }
    let _ = (check_count, SPIN_COUNT);
}
