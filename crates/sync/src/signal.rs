//! A flag with a thread that waits for it.

use std::sync::PoisonError;
use std::time::Duration;

use crate::{Condvar, Mutex};

/// See the module documentation.
#[derive(Default)]
pub struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Sets the flag, and ends the wait.
    pub fn set(&self) {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        *is_set = true;
        self.changed.notify_one();
    }

    /// Waits until the flag is set, for this long at most, and clears it.
    pub fn wait(&self, timeout: Duration) {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let waited = self.changed.wait_timeout(is_set, timeout).unwrap_or_else(PoisonError::into_inner);
            is_set = waited.0;
            if waited.1.timed_out() {
                break;
            }
        }
        *is_set = false;
    }
}
