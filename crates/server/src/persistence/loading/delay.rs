//! Delays in loads, for tests (`key-load-delay`).

use std::time::Duration;

use crate::shared::Shared;

/// Longer delays are taken in parts, so that the server can be ended meanwhile.
const PART_MAX: Duration = Duration::from_millis(20);

/// The delay after each key or request.
pub(super) struct Delay<'a> {
    shared: &'a Shared,
    generation: u64,
    /// In microseconds. Negative: one microsecond after so many keys.
    micros: i32,
    key_count: u32,
}

impl<'a> Delay<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let generation = shared.config.generation();
        Self { shared, generation, micros: shared.config.load().key_load_delay, key_count: 0 }
    }

    /// Whether there is a delay. It may be changed during a load.
    pub(super) fn is_on(&mut self) -> bool {
        let generation = self.shared.config.generation();
        if generation != self.generation {
            *self = Self::new(self.shared);
        }
        self.micros != 0
    }

    /// Whether a slow load must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.micros != 0 && self.shared.modes.is_stopping()
    }

    /// Waits after a key, if there is a delay.
    #[inline]
    pub(super) fn after_key(&mut self) {
        if self.micros != 0 && self.is_on() {
            self.wait();
        }
    }

    #[cold]
    fn wait(&mut self) {
        self.key_count = self.key_count.wrapping_add(1);
        let mut left = match u64::try_from(self.micros) {
            Ok(micros) => Duration::from_micros(micros),
            Err(_) if self.key_count.is_multiple_of(self.micros.unsigned_abs()) => Duration::from_micros(1),
            Err(_) => return,
        };
        while !left.is_zero() && !self.shared.modes.is_stopping() {
            let part = left.min(PART_MAX);
            sync::thread::sleep(part);
            left -= part;
        }
    }
}
