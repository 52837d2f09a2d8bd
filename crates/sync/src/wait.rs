//! A wait: one atomic word that decides who ends it. A write that satisfies it, the end of its time, `CLIENT UNBLOCK`, a
//! kill and a disconnect may come at the same instant; exactly one of them ends it.
//!
//! | from | to | by |
//! |---|---|---|
//! | waiting | being served | [`Wait::try_serve`] |
//! | being served, asked to end | over | [`Wait::served`] |
//! | being served | waiting | [`Wait::put_back`]: what came did not satisfy it |
//! | asked to end | over | [`Wait::put_back`], which says so: whoever asked is to be told |
//! | waiting | over | [`Wait::try_end`] |
//! | being served | asked to end | [`Wait::end_or_ask`] |
//!
//! Invariants: over is for ever. Between `try_serve` and `served` or `put_back` nobody else may serve.

use crate::shim::{AtomicU32, Ordering};

const WAITING: u32 = 0;
const BEING_SERVED: u32 = 1;
const ASKED_TO_END: u32 = 2;
const OVER: u32 = 3;

/// Who waits, and whether still.
#[derive(Debug)]
pub struct Wait(AtomicU32);

/// What [`Wait::try_serve`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TryServe {
    /// The caller serves it.
    Claimed,
    /// Somebody else does, and may put it back.
    BeingServed,
    /// It is over.
    Over,
}

/// What [`Wait::end_or_ask`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum End {
    /// The wait is over, by the caller.
    Ended,
    /// It is being served: either that ends it, or the server puts it back, finds it ended then, and tells its owner.
    Asked,
    /// It was over already.
    WasOver,
}

/// What [`Wait::put_back`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PutBack {
    /// It goes on waiting.
    Waiting,
    /// It was asked to end meanwhile, and is over: tell its owner.
    Ended,
}

impl Wait {
    /// A wait that has begun.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(WAITING))
    }

    /// Claims it for serving.
    pub fn try_serve(&self) -> TryServe {
        // Acquire pairs with the release in `put_back`: one server after the other.
        match self.0.compare_exchange(WAITING, BEING_SERVED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => TryServe::Claimed,
            Err(OVER) => TryServe::Over,
            Err(_) => TryServe::BeingServed,
        }
    }

    /// Ends it as served. Only after [`Self::try_serve`].
    pub fn served(&self) {
        let before = self.0.swap(OVER, Ordering::AcqRel);
        debug_assert!(before == BEING_SERVED || before == ASKED_TO_END, "served without a claim");
    }

    /// Lets it go on waiting. Only after [`Self::try_serve`].
    pub fn put_back(&self) -> PutBack {
        // Release pairs with the acquire in `try_serve` and `try_end`.
        match self.0.compare_exchange(BEING_SERVED, WAITING, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => PutBack::Waiting,
            Err(now) => {
                debug_assert_eq!(now, ASKED_TO_END, "put back without a claim");
                // Nobody but this server leaves that state. Acquire pairs with the release in `end_or_ask`.
                self.0.swap(OVER, Ordering::AcqRel);
                PutBack::Ended
            }
        }
    }

    /// Ends it if it only waits. `false`: it is over, or being served.
    #[must_use]
    pub fn try_end(&self) -> bool {
        self.0.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends it, or asks who serves it to end it if it is not served after all.
    pub fn end_or_ask(&self) -> End {
        loop {
            if self.try_end() {
                return End::Ended;
            }
            match self.0.compare_exchange(BEING_SERVED, ASKED_TO_END, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return End::Asked,
                Err(WAITING) => {}
                Err(ASKED_TO_END) => return End::Asked,
                Err(_) => return End::WasOver,
            }
        }
    }

    /// Whether nobody serves it, and nobody has.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// Whether it is over.
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
    use super::{End, PutBack, TryServe, Wait};

    #[test]
    fn is_served_once() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.try_serve(), TryServe::BeingServed);
        assert!(!wait.try_end());
        wait.served();
        assert!(wait.is_over());
        assert_eq!(wait.end_or_ask(), End::WasOver);
        assert_eq!(wait.try_serve(), TryServe::Over);
    }

    #[test]
    fn ends_once() {
        let wait = Wait::new();
        assert_eq!(wait.end_or_ask(), End::Ended);
        assert!(wait.is_over());
        assert_eq!(wait.try_serve(), TryServe::Over);
        assert!(!wait.try_end());
    }

    #[test]
    fn whoever_asks_while_it_is_put_back_is_told() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.put_back(), PutBack::Waiting);
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.end_or_ask(), End::Asked);
        assert!(!wait.is_over());
        assert_eq!(wait.put_back(), PutBack::Ended);
        assert!(wait.is_over());
    }

    #[test]
    fn what_was_asked_to_end_may_still_be_served() {
        let wait = Wait::new();
        assert_eq!(wait.try_serve(), TryServe::Claimed);
        assert_eq!(wait.end_or_ask(), End::Asked);
        wait.served();
        assert!(wait.is_over());
    }
}
