//! Detects a synchronisation of the append-only file that takes too long, while it still hangs: the thread that writes the
//! file is blocked in it, so another thread has to report it.
//!
//! | state, FROM | TO | step |
//! |---|---|---|
//! | idle | began at `t` | [`SyncWatch::begin`] |
//! | began | began, reported | [`SyncWatch::take_delay`], by any thread, once |
//! | began, reported or not | idle | [`SyncWatch::end`] |

use os::clock::Uptime;
use sync::atomic::{AtomicI64, Ordering};

/// How long a synchronisation may take before it counts as delayed, in milliseconds.
const DELAY_MS_MAX: i64 = if cfg!(test) { 1 } else { 2000 };

const IDLE: i64 = 0;

/// The synchronisation under way.
#[derive(Default)]
pub struct SyncWatch {
    /// [`IDLE`], or twice the moment at which it began, plus 1 if its delay was reported.
    state: AtomicI64,
}

impl SyncWatch {
    /// A synchronisation begins.
    pub fn begin(&self, now: Uptime) {
        self.state.store(now.to_raw() * 2, Ordering::Relaxed);
    }

    /// The synchronisation has ended. Returns how long it took, in milliseconds, if that is too long and was not reported.
    pub fn end(&self, now: Uptime) -> Option<i64> {
        let state = self.state.swap(IDLE, Ordering::Relaxed);
        unreported_delay(state, now)
    }

    /// Returns how long the synchronisation under way has taken, if that is too long and was not reported.
    pub fn take_delay(&self, now: Uptime) -> Option<i64> {
        let state = self.state.load(Ordering::Relaxed);
        let delay_ms = unreported_delay(state, now)?;
        let marked = self.state.compare_exchange(state, state | 1, Ordering::Relaxed, Ordering::Relaxed);
        marked.is_ok().then_some(delay_ms)
    }

    /// Whether a synchronisation is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }
}

fn unreported_delay(state: i64, now: Uptime) -> Option<i64> {
    let delay_ms = now.ms_since(Uptime::from_raw(state / 2));
    (state != IDLE && state & 1 == 0 && delay_ms > DELAY_MS_MAX).then_some(delay_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_reported_once() {
        let (watch, began) = (SyncWatch::default(), Uptime::now());
        let late = began.plus_ms(DELAY_MS_MAX + 1);
        assert_eq!(watch.take_delay(late), None);
        watch.begin(began);
        assert_eq!((watch.take_delay(began), watch.is_under_way()), (None, true));
        assert_eq!(watch.take_delay(late), Some(DELAY_MS_MAX + 1));
        assert_eq!((watch.take_delay(late), watch.end(late), watch.is_under_way()), (None, None, false));
        watch.begin(began);
        assert_eq!(watch.end(late), Some(DELAY_MS_MAX + 1));
    }
}
