//! Wake-ups of snapshot threads that wait for latches, by tokens that no connection has.

use std::sync::PoisonError;

use sync::{Condvar, Mutex};

/// Largest number of threads that take a snapshot.
pub const WALKER_COUNT_MAX: usize = 64;

/// The token of the first thread; the tokens of the other threads precede it.
const FIRST_TOKEN: u64 = u64::MAX;

/// The wake-ups of the threads of a snapshot.
pub struct LatchWakes {
    walkers: [Walker; WALKER_COUNT_MAX],
}

#[derive(Default)]
struct Walker {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Default for LatchWakes {
    fn default() -> Self {
        Self { walkers: std::array::from_fn(|_| Walker::default()) }
    }
}

impl LatchWakes {
    /// The token of a thread.
    #[must_use]
    pub fn token(walker: usize) -> u64 {
        debug_assert!(walker < WALKER_COUNT_MAX);
        FIRST_TOKEN - walker as u64
    }

    /// Wakes the thread with a token. Returns whether it is a snapshot thread.
    pub fn wake(&self, token: u64) -> bool {
        let Some(walker) = self.walkers.get((FIRST_TOKEN - token) as usize) else { return false };
        *walker.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        walker.woken.notify_all();
        true
    }

    /// Blocks a thread until it is woken.
    pub fn wait(&self, walker: usize) {
        let walker = &self.walkers[walker];
        let mut is_woken = walker.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_woken {
            is_woken = walker.woken.wait(is_woken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_woken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_before_the_wait_counts() {
        let wakes = LatchWakes::default();
        assert!(wakes.wake(LatchWakes::token(3)));
        wakes.wait(3);
        assert!(!wakes.wake(LatchWakes::token(WALKER_COUNT_MAX - 1) - 1));
    }
}
