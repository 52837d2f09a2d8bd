//! Rates over the last second and a half, sampled ten times a second by the first thread.

use sync::Mutex;

use crate::monitoring::statistics::Statistics;

/// Samples kept of each rate.
const SAMPLE_COUNT: usize = 16;

/// The sampled rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Commands a second.
    pub commands: u64,
    /// Bytes received a second.
    pub received_bytes: u64,
    /// Bytes sent a second.
    pub sent_bytes: u64,
    /// Turns of all event loops a second.
    pub turns: u64,
    /// Nanoseconds per turn.
    pub turn_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    at_ms: i64,
    commands: u64,
    received_bytes: u64,
    sent_bytes: u64,
    turns: u64,
    busy_ns: u64,
}

/// The samples.
#[derive(Default)]
pub struct Metrics {
    samples: Mutex<(usize, [Totals; SAMPLE_COUNT])>,
}

impl Metrics {
    /// Takes a sample.
    pub fn sample(&self, statistics: &Statistics, now_ms: i64) {
        let totals = Totals {
            at_ms: now_ms,
            commands: statistics.sum(|thread| &thread.commands_processed),
            received_bytes: statistics.sum(|thread| &thread.sockets.received_bytes),
            sent_bytes: statistics.sum(|thread| &thread.sockets.sent_bytes),
            turns: statistics.sum(|thread| &thread.turn.count),
            busy_ns: statistics.sum(|thread| &thread.turn.busy_ns),
        };
        let mut samples = self.samples.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (next, ring) = &mut *samples;
        ring[*next % SAMPLE_COUNT] = totals;
        *next += 1;
    }

    /// The rates between the oldest sample kept and the newest.
    pub fn rates(&self) -> Rates {
        let samples = self.samples.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (next, ring) = &*samples;
        if *next < 2 {
            return Rates::default();
        }
        let newest = ring[(*next - 1) % SAMPLE_COUNT];
        let oldest = ring[next.saturating_sub(SAMPLE_COUNT) % SAMPLE_COUNT];
        let ms = u64::try_from(newest.at_ms - oldest.at_ms).unwrap_or(0).max(1);
        let per_second = |new: u64, old: u64| new.saturating_sub(old) * 1000 / ms;
        let turns = newest.turns.saturating_sub(oldest.turns);
        Rates {
            commands: per_second(newest.commands, oldest.commands),
            received_bytes: per_second(newest.received_bytes, oldest.received_bytes),
            sent_bytes: per_second(newest.sent_bytes, oldest.sent_bytes),
            turns: per_second(newest.turns, oldest.turns),
            turn_ns: newest.busy_ns.saturating_sub(oldest.busy_ns) / turns.max(1),
        }
    }

    /// Removes all samples.
    pub fn reset(&self) {
        *self.samples.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Default::default();
    }
}
