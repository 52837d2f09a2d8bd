//! A wait: one atomic word that decides which event ends it. A satisfying write, a timeout, `CLIENT UNBLOCK`, a
//! kill and a disconnect may coincide; exactly one of them ends the wait.
//!
//! | from | to | by |
//! |---|---|---|
//! | waiting | being served | [`Wait::try_serve`] |
//! | being served, end requested | over | [`Wait::served`] |
//! | being served | waiting | [`Wait::put_back`]: the write did not satisfy it |
//! | end requested | over | [`Wait::put_back`], which returns `Ended`: the server notifies the owner |
//! | waiting | over | [`Wait::try_end`] |
//! | being served | end requested | [`Wait::end_or_request`] |
//!
//! Invariants: "over" is final. Between `try_serve` and `served` or `put_back` only one thread, the server,
//! serves the wait.

use crate::shim::{AtomicU32, Ordering};

const WAITING: u32 = 0;
const BEING_SERVED: u32 = 1;
const END_REQUESTED: u32 = 2;
const OVER: u32 = 3;

/// The state of one blocked client's wait.
#[derive(Debug)]
pub struct Wait(AtomicU32);

/// Outcome of [`Wait::try_serve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TryServe {
    /// The caller serves the wait.
    Claimed,
    /// Another thread serves it, and may put it back.
    BeingServed,
    /// The wait is over.
    Over,
}

/// Outcome of [`Wait::end_or_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum EndOrRequest {
    /// The caller ended the wait.
    Ended,
    /// The wait is being served. Either that ends it, or `put_back` returns `Ended` and the server notifies the
    /// owner.
    Requested,
    /// The wait was already over.
    WasOver,
}

/// Outcome of [`Wait::put_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PutBack {
    /// The wait continues.
    Waiting,
    /// The end of the wait was requested meanwhile, and the wait is over: the caller must notify its owner.
    Ended,
}

impl Wait {
    /// Creates a wait in the state "waiting".
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(WAITING))
    }

    /// Claims the wait for serving.
    pub fn try_serve(&self) -> TryServe {
        // Acquire pairs with the Release in `put_back`: servers are ordered one after another.
        match self.0.compare_exchange(WAITING, BEING_SERVED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => TryServe::Claimed,
            Err(OVER) => TryServe::Over,
            Err(_) => TryServe::BeingServed,
        }
    }

    /// Ends the wait as served. Only after [`Self::try_serve`].
    pub fn served(&self) {
        let before = self.0.swap(OVER, Ordering::AcqRel);
        debug_assert!(before == BEING_SERVED || before == END_REQUESTED, "served without a claim");
    }

    /// Returns the wait to "waiting". Only after [`Self::try_serve`].
    pub fn put_back(&self) -> PutBack {
        // Release pairs with the Acquire in `try_serve` and `try_end`.
        match self.0.compare_exchange(BEING_SERVED, WAITING, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => PutBack::Waiting,
            Err(now) => {
                debug_assert_eq!(now, END_REQUESTED, "put back without a claim");
                // Only this server leaves that state. Acquire pairs with the Release in `end_or_request`.
                self.0.swap(OVER, Ordering::AcqRel);
                PutBack::Ended
            }
        }
    }

    /// Ends the wait if it is neither over nor being served. Returns whether it did.
    #[must_use]
    pub fn try_end(&self) -> bool {
        self.0.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the wait. While it is being served, requests that the serving thread ends it if it is not satisfied.
    pub fn end_or_request(&self) -> EndOrRequest {
        loop {
            if self.try_end() {
                return EndOrRequest::Ended;
            }
            match self.0.compare_exchange(BEING_SERVED, END_REQUESTED, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return EndOrRequest::Requested,
                Err(WAITING) => {}
                Err(END_REQUESTED) => return EndOrRequest::Requested,
                Err(_) => return EndOrRequest::WasOver,
            }
        }
    }

    /// Whether the wait is neither being served nor over.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// Whether the wait is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == OVER
    }
}

impl Default for Wait {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{EndOrRequest, PutBack, TryServe, Wait};

    #[test]
    fn is_served_once() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.try_serve(), TryServe::BeingServed);
        assert!(!wait.try_end());
        wait.served();
        assert!(wait.is_over());
        assert_eq!(wait.end_or_request(), EndOrRequest::WasOver);
        assert_eq!(wait.try_serve(), TryServe::Over);
    }

    #[test]
    fn ends_once() {
        let wait = Wait::new();
        assert_eq!(wait.end_or_request(), EndOrRequest::Ended);
        assert!(wait.is_over());
        assert_eq!(wait.try_serve(), TryServe::Over);
        assert!(!wait.try_end());
    }

    #[test]
    fn a_request_to_end_is_reported_when_put_back() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.put_back(), PutBack::Waiting);
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.end_or_request(), EndOrRequest::Requested);
        assert!(!wait.is_over());
        assert_eq!(wait.put_back(), PutBack::Ended);
        assert!(wait.is_over());
    }

    #[test]
    fn a_wait_requested_to_end_may_still_be_served() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.end_or_request(), EndOrRequest::Requested);
        wait.served();
        assert!(wait.is_over());
    }
}
