//! Waking a reactor from another thread, at the price of a system call only if it sleeps.
//!
//! One atomic word says what the reactor does:
//!
//! | from | to | by |
//! |---|---|---|
//! | RUNNING | SLEEPING | the reactor, before it blocks [`WakeState::try_sleep`] |
//! | any | WOKEN | any thread [`Waker::wake`]; from SLEEPING it also signals the eventfd |
//! | any | RUNNING | the reactor, after a wait [`WakeState::finish_wait`] |
//!
//! All transitions are read-modify-writes of one word, so either the reactor's attempt to sleep sees the wake-up,
//! or the waker sees that the reactor sleeps. What a thread wrote before `wake` is visible to the reactor when it
//! gets [`Event::Woken`](crate::Event::Woken): the swap in `wake` pairs with the swap in `finish_wait`.
//!
//! The eventfd is never read: both backends watch it for edges, and each write is one.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::{fmt, io};

use sync::atomic::{AtomicU32, Ordering};

use crate::descriptor::Descriptor;

const RUNNING: u32 = 0;
const SLEEPING: u32 = 1;
const WOKEN: u32 = 2;

/// Wakes one reactor; cheap to clone and usable from any thread. Outlives the reactor harmlessly.
#[derive(Clone)]
pub struct Waker(Arc<WakeState>);

impl Waker {
    /// Makes the reactor's current or next wait return, with one [`Event::Woken`](crate::Event::Woken) however
    /// often this was called meanwhile.
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

    /// Announces that the reactor is about to block. `false` if it was woken and must not.
    #[must_use]
    pub(crate) fn try_sleep(&self) -> bool {
        // Relaxed: nothing is read on the strength of it before `finish_wait`.
        self.state.compare_exchange(RUNNING, SLEEPING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Back from a wait; whether there was a wake-up since the last one.
    #[must_use]
    pub(crate) fn finish_wait(&self) -> bool {
        // Acquire pairs with the swap in `wake`: the waker's messages are visible.
        self.state.swap(RUNNING, Ordering::AcqRel) == WOKEN
    }
}
