//! Wakes a reactor from another thread; a system call only if it sleeps.
//!
//! One atomic word holds the reactor's state:
//!
//! | from | to | by |
//! |---|---|---|
//! | RUNNING | SLEEPING | the reactor, before it blocks [`WakeState::try_sleep`] |
//! | any | WOKEN | any thread [`Waker::wake`]; from SLEEPING it also signals the eventfd |
//! | any | RUNNING | the reactor, after a wait [`WakeState::finish_wait`] |
//!
//! All transitions are read-modify-writes of one word. So either the reactor's attempt to sleep sees the
//! wake-up, or the waker sees that the reactor sleeps. Writes made before `wake` are visible to the reactor
//! when it receives [`Event::Woken`](crate::Event::Woken): the swap in `wake` pairs with the swap in
//! `finish_wait`.
//!
//! The eventfd is never read: both backends use edge triggering, and each write is an edge.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::{fmt, io};

use sync::atomic::{AtomicU32, Ordering};

use crate::descriptor::Descriptor;

const RUNNING: u32 = 0;
const SLEEPING: u32 = 1;
const WOKEN: u32 = 2;

/// Wakes one reactor; cheap to clone, and usable from any thread. It may outlive the reactor.
#[derive(Clone)]
pub struct Waker(Arc<WakeState>);

impl Waker {
    /// Makes the reactor's current or next wait return, with one [`Event::Woken`](crate::Event::Woken) for any
    /// number of calls since the last wait.
    #[inline]
    pub fn wake(&self) {
        // AcqRel: pairs with `finish_wait`.
        if self.0.state.swap(WOKEN, Ordering::AcqRel) == SLEEPING {
            self.0.eventfd.signal();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waker").field(&self.0.eventfd).finish()
    }
}

/// The reactor's side of a [`Waker`].
pub(crate) struct WakeState {
    state: AtomicU32,
    eventfd: Descriptor,
}

impl WakeState {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { state: AtomicU32::new(RUNNING), eventfd: Descriptor::event()? }))
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker(Arc::clone(self))
    }

    pub(crate) fn eventfd(&self) -> RawFd {
        self.eventfd.number()
    }

    /// Announces that the reactor is about to block. Returns `false` if it was woken and must not block.
    #[must_use]
    pub(crate) fn try_sleep(&self) -> bool {
        // Relaxed: the reactor reads no data based on this before `finish_wait`.
        self.state.compare_exchange(RUNNING, SLEEPING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends a wait. Returns whether there was a wake-up since the previous one.
    #[must_use]
    pub(crate) fn finish_wait(&self) -> bool {
        // Acquire pairs with the swap in `wake`: the waking thread's messages are visible.
        self.state.swap(RUNNING, Ordering::AcqRel) == WOKEN
    }
}
