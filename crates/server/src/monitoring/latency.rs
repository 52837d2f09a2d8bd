//! The latency monitor: for each kind of event the last 160 seconds with such an event, as `LATENCY` shows them.

use std::collections::{BTreeMap, VecDeque};

use commands::host::LatencyEvent;
use sync::{Mutex, MutexGuard};

/// Samples kept of an event: one a second at most.
const SAMPLE_COUNT_MAX: usize = 160;

/// Latency events by name.
#[derive(Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<&'static str, History>>,
}

#[derive(Clone, Default)]
struct History {
    samples: VecDeque<(u32, u64)>,
    max_ms: u64,
    sum_ms: u64,
    count: u64,
}

impl LatencyMonitor {
    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, History>> {
        self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a sample; of one second only the highest is kept.
    pub fn add(&self, event: &'static str, at_seconds: u32, ms: u64) {
        let mut events = self.events();
        let history = events.entry(event).or_default();
        history.max_ms = history.max_ms.max(ms);
        history.sum_ms += ms;
        history.count += 1;
        match history.samples.back_mut() {
            Some((second, highest)) if *second == at_seconds => *highest = (*highest).max(ms),
            _ => {
                history.samples.push_back((at_seconds, ms));
                if history.samples.len() > SAMPLE_COUNT_MAX {
                    history.samples.pop_front();
                }
            }
        }
    }

    /// All events, sorted by name.
    #[must_use]
    pub fn all(&self) -> Vec<LatencyEvent> {
        let events = self.events();
        let event = |(name, history): (&&'static str, &History)| LatencyEvent {
            name,
            samples: history.samples.iter().copied().collect(),
            max_ms: history.max_ms,
            sum_ms: history.sum_ms,
            count: history.count,
        };
        events.iter().map(event).collect()
    }

    /// Removes the named events, or all if none is named. Returns how many there were.
    pub fn reset(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events();
        let before = events.len();
        if names.is_empty() {
            events.clear();
        } else {
            events.retain(|name, _| !names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes())));
        }
        before - events.len()
    }
}
