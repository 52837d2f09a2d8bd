//! Fast clocks: the processor's time stamp counter, and wall time in milliseconds.
//!
//! The counter is used where the kernel itself uses it as its clock source. Elsewhere [`Ticks`] are nanoseconds
//! of the monotonic clock, at three times the cost. Calibration takes `CALIBRATION` once per process, for an
//! accuracy of about 10 parts per million. Crates that calibrate to nanoseconds spin for up to 0.2 s.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sync::simulation;

/// The lowest [`Uptime`], so that no moment is 0.
const UPTIME_MIN_MS: i64 = 1;
/// The time during which the counter is compared with the monotonic clock.
const CALIBRATION: Duration = Duration::from_millis(2);

/// A moment in processor-specific units. Comparable across threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

impl Ticks {
    /// Returns the current time; about 8 ns.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self(match scale().source {
            Source::Counter => counter::read(),
            Source::Monotonic => monotonic_ns(),
        })
    }

    /// Nanoseconds since `earlier`; 0 if `earlier` is later than `self`.
    #[inline]
    #[must_use]
    pub fn ns_since(self, earlier: Self) -> u64 {
        let ticks = u128::from(self.0.saturating_sub(earlier.0));
        ((ticks * u128::from(scale().ns_per_tick_32)) >> 32) as u64
    }

    /// Adds `ns` nanoseconds.
    #[must_use]
    pub fn plus_ns(self, ns: u64) -> Self {
        let ticks = (u128::from(ns) << 32) / u128::from(scale().ns_per_tick_32);
        Self(self.0.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }

    /// Nanoseconds of the monotonic clock.
    #[inline]
    #[must_use]
    pub fn uptime_ns(self) -> u64 {
        self.ns_since(Self(0))
    }

    /// Microseconds of the monotonic clock.
    #[inline]
    #[must_use]
    pub fn uptime_us(self) -> i64 {
        (self.uptime_ns() / 1000) as i64
    }

    /// Milliseconds of the monotonic clock, rounded down.
    #[inline]
    #[must_use]
    pub fn uptime(self) -> Uptime {
        Uptime(UPTIME_MIN_MS + self.uptime_us() / 1000)
    }

    /// The raw count, for storing in an atomic.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// The inverse of [`Self::to_raw`].
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// A time in milliseconds of the monotonic clock. Timers use it because the wall clock may be set. It is
/// unrelated to the date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(i64);

impl Uptime {
    /// Returns the current time.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Ticks::now().uptime()
    }

    /// Adds `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Adds `time`, in whole milliseconds.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        self.plus_ms(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
    }

    /// Milliseconds since `earlier`; negative if `earlier` is later than `self`.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Microseconds from `moment` to the start of this millisecond; 0 if it has passed.
    #[must_use]
    pub fn us_since(self, moment: Ticks) -> u64 {
        let us = (self.0 - UPTIME_MIN_MS).saturating_mul(1000);
        u64::try_from(us.saturating_sub(moment.uptime_us())).unwrap_or(0)
    }

    /// The raw count, for storing in an atomic. Never 0 for a moment of this process.
    #[must_use]
    pub fn to_raw(self) -> i64 {
        self.0
    }

    /// The inverse of [`Self::to_raw`].
    #[must_use]
    pub fn from_raw(raw: i64) -> Self {
        Self(raw)
    }
}

/// Milliseconds since the Unix epoch, by the wall clock, which may be set back; 0 before 1970.
#[must_use]
pub fn unix_millis() -> i64 {
    if let Some(micros) = simulation::unix_micros() {
        return micros / 1000;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Microseconds since the Unix epoch.
#[must_use]
pub fn unix_micros() -> i64 {
    if let Some(micros) = simulation::unix_micros() {
        return micros;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// Calibrates now instead of at the first use. Called at start-up, before threads are created.
pub fn calibrate() {
    let _ = scale();
}

/// Whether ticks are the processor's counter, for the log.
#[must_use]
pub fn uses_counter() -> bool {
    scale().source == Source::Counter
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Counter,
    Monotonic,
}

#[derive(Clone, Copy)]
struct Scale {
    source: Source,
    /// Nanoseconds per tick, in units of 1/2^32.
    ns_per_tick_32: u64,
}

static SCALE: OnceLock<Scale> = OnceLock::new();

#[inline]
fn scale() -> Scale {
    if simulation::is_simulated() {
        return MONOTONIC;
    }
    *SCALE.get_or_init(measure)
}

const MONOTONIC: Scale = Scale { source: Source::Monotonic, ns_per_tick_32: 1 << 32 };

fn measure() -> Scale {
    if !counter::is_trusted() {
        return MONOTONIC;
    }
    let (first_ns, first) = read_both();
    let end = Instant::now() + CALIBRATION;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    let (last_ns, last) = read_both();
    let ticks = last.saturating_sub(first);
    let ns_per_tick_32 = (u128::from(last_ns - first_ns) << 32).checked_div(ticks.into()).unwrap_or(0) as u64;
    // A frequency outside 10 MHz to 10 GHz is implausible.
    if (1 << 32 >> 4..100 << 32).contains(&ns_per_tick_32) {
        Scale { source: Source::Counter, ns_per_tick_32 }
    } else {
        MONOTONIC
    }
}

/// Reads both clocks at one moment: the closest of several pairs, since the thread may be preempted between
/// readings.
fn read_both() -> (u64, u64) {
    let mut best = (0, 0);
    let mut best_width = u64::MAX;
    for _ in 0..16 {
        let before = counter::read();
        let ns = monotonic_ns();
        let width = counter::read().saturating_sub(before);
        if width < best_width {
            best_width = width;
            best = (ns, before + width / 2);
        }
    }
    best
}

fn monotonic_ns() -> u64 {
    if let Some(ns) = simulation::monotonic_ns() {
        return ns;
    }
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(target_arch = "x86_64")]
mod counter {
    /// Whether the kernel trusts the counter. Linux checks it against other clocks and reports its choice here.
    pub(super) fn is_trusted() -> bool {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(path).is_ok_and(|name| name.trim() == "tsc")
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux lets processes use it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn is_trusted() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Ticks, unix_millis};

    #[test]
    fn agrees_with_the_monotonic_clock() {
        let (ticks, instant) = (Ticks::now(), Instant::now());
        while instant.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let (ns, expected_ns) = (Ticks::now().ns_since(ticks), instant.elapsed().as_nanos() as u64);
        // A preemption between the readings widens the gap; a wrong scale would be far off.
        assert!(ns.abs_diff(expected_ns) < expected_ns / 4, "{ns} against {expected_ns}");
    }

    #[test]
    fn measured_differences_add_up() {
        let start = Ticks::now();
        let later = start.plus_ns(1_000_000_000);
        assert!(later.ns_since(start).abs_diff(1_000_000_000) < 10);
        assert_eq!(start.ns_since(later), 0);
        assert_eq!(Ticks::from_raw(later.to_raw()), later);
    }

    #[test]
    fn uptime_is_monotonic_time_in_milliseconds() {
        let start = Ticks::now();
        let later = start.plus_ns(5_000_000_000);
        let passed_ms = later.uptime().ms_since(start.uptime());
        assert!((4999..=5001).contains(&passed_ms), "{passed_ms}");
        assert!(start.uptime() >= Ticks::from_raw(0).uptime() && Ticks::from_raw(0).uptime().to_raw() > 0);
        assert_eq!(start.uptime().plus_ms(7).ms_since(start.uptime()), 7);
    }

    #[test]
    fn unix_time_is_plausible() {
        assert!(unix_millis() > 1_700_000_000_000);
    }
}
