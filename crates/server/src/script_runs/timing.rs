//! How long a script runs: when its worker serves others, when it is interrupted next, and when it counts as slow.

use std::rc::Rc;

use os::clock::Ticks;
use script::INTERVAL_MAX;

/// How long a script runs until its worker serves others, in nanoseconds.
pub(super) const SLICE_NS_MAX: u64 = 1_000_000;

/// How long the commands that a script calls take until it is interrupted, in nanoseconds.
const CALLED_NS_MAX: u64 = 10_000_000;

/// The fewest instructions between two interrupts.
const INTERVAL_MIN: u32 = 10;

/// See the module documentation.
pub(super) struct Timing {
    pub(super) started: Ticks,
    slice_began: Ticks,
    /// When it was last interrupted.
    interrupted_at: Ticks,
    /// The instructions until it is again.
    interval: u32,
    /// How long the commands took that it has called since, in nanoseconds.
    pub(super) called_ns: u64,
    /// Whether the script may pause while its worker serves others.
    pub(super) may_pause: bool,
    /// Pauses the script; `None`: it can't pause.
    pub(super) pause: Option<Rc<dyn Fn()>>,
    /// Whether the script pauses, so that its next slice begins when it continues.
    pub(super) pauses: bool,
    /// Whether the log has a line about how long it runs.
    pub(super) is_reported: bool,
}

impl Timing {
    pub(super) fn new(now: Ticks) -> Self {
        Self {
            started: now,
            slice_began: now,
            interrupted_at: now,
            interval: INTERVAL_MAX,
            called_ns: 0,
            may_pause: false,
            pause: None,
            pauses: false,
            is_reported: false,
        }
    }

    /// A script begins. The interval stays: the next script is like the last one more often than not.
    pub(super) fn begin(&mut self) {
        let now = Ticks::now();
        self.started = now;
        self.slice_began = now;
        self.interrupted_at = now;
        self.called_ns = 0;
        self.is_reported = false;
    }

    /// The time since the last interrupt, in nanoseconds.
    pub(super) fn since_interrupt_ns(&self) -> u64 {
        Ticks::now().ns_since(self.interrupted_at)
    }

    /// The script is interrupted, after so many nanoseconds. Returns the time.
    pub(super) fn interrupted(&mut self, passed_ns: u64) -> Ticks {
        let now = Ticks::now();
        self.called_ns = 0;
        if std::mem::take(&mut self.pauses) {
            self.slice_began = now;
        } else {
            self.adapt_interval(passed_ns);
        }
        self.interrupted_at = now;
        now
    }

    /// Fewer instructions until the next interrupt if those before took long, as each may copy a large string.
    fn adapt_interval(&mut self, ns: u64) {
        if ns > 2 * SLICE_NS_MAX {
            let fitting = u64::from(self.interval) * SLICE_NS_MAX / ns;
            self.interval = u32::try_from(fitting).unwrap_or(u32::MAX).max(INTERVAL_MIN);
        } else {
            self.interval = self.interval.saturating_mul(2).min(INTERVAL_MAX);
        }
    }

    /// Whether its worker is to serve others now.
    pub(super) fn is_slice_over(&self, now: Ticks) -> bool {
        self.may_pause && now.ns_since(self.slice_began) > SLICE_NS_MAX
    }

    /// The instructions until it is interrupted.
    pub(super) fn interval(&self) -> u32 {
        self.interval
    }

    /// Whether it is to be interrupted at once, for the commands that it has called.
    pub(super) fn is_due(&self) -> bool {
        self.called_ns > CALLED_NS_MAX
    }
}
