//! Eviction in the thread whose command needs the memory: for a while, set by `maxmemory-eviction-tenacity`; what is left
//! of it is done between the turns of the event loop, and commands go on meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::MaxmemoryPolicy;
use keyspace::{EvictionOrder, EvictionPolicy};
use reactor::clock::Ticks;

use super::Executor;
use crate::shared::Attention;

/// Keys evicted between two looks at the time, as in Redis.
const KEYS_BETWEEN_LOOKS: u32 = 16;

/// For how long memory use was over its limit, with eviction not keeping up.
#[derive(Default)]
pub struct ExceededTime {
    /// Unix time in microseconds since when it is; 0: it is not.
    since_us: AtomicU64,
    total_us: AtomicU64,
}

impl ExceededTime {
    fn note(&self, is_exceeded: bool) {
        let since = self.since_us.load(Ordering::Relaxed);
        if is_exceeded == (since != 0) {
            return;
        }
        let now = reactor::clock::unix_micros() as u64;
        // Of several threads that come here at once, one changes it.
        let next = if is_exceeded { now } else { 0 };
        let changed =
            self.since_us.compare_exchange(since, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if changed && !is_exceeded {
            self.total_us.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// Since when it is over the limit now, and altogether, in milliseconds.
    pub fn millis(&self) -> (u64, u64) {
        let since = self.since_us.load(Ordering::Relaxed);
        let current =
            if since == 0 { 0 } else { (reactor::clock::unix_micros() as u64).saturating_sub(since) };
        (current / 1000, (self.total_us.load(Ordering::Relaxed) + current) / 1000)
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        self.total_us.store(0, Ordering::Relaxed);
        self.since_us.store(0, Ordering::Relaxed);
    }
}

impl Executor {
    /// Evicts until memory use is within `maxmemory`, or the time for it is over: then the rest is left to
    /// [`Self::go_on_evicting`]. `false`: there is nothing to evict.
    #[cold]
    pub fn make_room(&mut self) -> bool {
        if self.shared.attention.is_set(Attention::ANY_PAUSE) {
            return true;
        }
        let is_over = self.excess() > 0;
        let is_short = &self.shared.is_short_of_memory;
        if is_short.load(Ordering::Relaxed) != is_over {
            is_short.store(is_over, Ordering::Relaxed);
        }
        if !is_over {
            self.note_eviction(false);
            return true;
        }
        // What is being imported is complete or worth nothing.
        let policy = eviction_policy(self.config.maxmemory_policy).filter(|_| !self.config.import_mode);
        let Some(policy) = policy else {
            self.shared.exceeded_time.note(true);
            return false;
        };
        let latency = self.latency_start();
        let made = self.evict(policy);
        self.latency_end(latency, "eviction-cycle");
        made
    }

    fn evict(&mut self, policy: EvictionPolicy) -> bool {
        let limit = time_limit(self.config.maxmemory_eviction_tenacity);
        let samples = usize::from(self.config.maxmemory_samples);
        let started = Ticks::now();
        // Set beforehand: what telling others of evicted keys takes for a moment must not cost further keys.
        let excess = self.excess();
        let (mut count, mut freed) = (0, 0);
        while freed < excess && self.excess() > 0 {
            let latency = self.latency_start();
            let Some(evicted) = self.evictor.evict(&mut self.view, policy, samples) else {
                self.is_evicting = false;
                self.shared.exceeded_time.note(true);
                return false;
            };
            let size = evicted.removed.entry().allocated_bytes() as u64;
            freed += size;
            if self.config.lazyfree_lazy_eviction && evicted.removed.is_costly_to_drop() {
                self.shared.background.free_evicted(size, Box::new(move || drop(evicted)));
            } else {
                drop(evicted);
            }
            self.latency_end(latency, "eviction-del");
            count += 1;
            if count % KEYS_BETWEEN_LOOKS == 0
                && limit.is_some_and(|limit| Ticks::now().ns_since(started) as u128 > limit.as_nanos())
            {
                self.note_eviction(true);
                return true;
            }
        }
        self.note_eviction(false);
        true
    }

    fn note_eviction(&mut self, is_unfinished: bool) {
        self.is_evicting = is_unfinished;
        self.shared.exceeded_time.note(is_unfinished);
    }

    /// Bytes that are in use beyond `maxmemory`.
    fn excess(&self) -> u64 {
        let limit = self.config.maxmemory;
        if limit == 0 {
            return 0;
        }
        let Some(excess) = (self.shared.used_memory() as u64).checked_sub(limit) else { return 0 };
        // What is on its way to be freed counts as freed, else too much would follow it; so does what connections hold
        // that are being closed, or beyond their own limit, for some of them are about to be, what tells other threads
        // of evicted keys, and what the kernel takes at a turn's end.
        let leaving = self.shared.background.evicted_bytes()
            + self.shared.client_memory().saturating_sub(self.client_memory_max)
            + self.shared.leaving_client_memory()
            + self.shared.hub.underway_bytes()
            + self.shared.statistics.sum(|thread| &thread.unsent_bytes)
            + self.shared.statistics.sum(|thread| &thread.in_hand_bytes);
        excess.saturating_sub(leaving)
    }

    /// Goes on with what the last eviction left over.
    pub fn go_on_evicting(&mut self) {
        if self.is_evicting {
            self.make_room();
        }
    }
}

/// How long a command may be held up by eviction, by Valkey's scale; `None`: as long as it takes.
fn time_limit(tenacity: u8) -> Option<Duration> {
    match tenacity {
        0..=10 => Some(Duration::from_micros(50 * u64::from(tenacity))),
        11..100 => Some(Duration::from_micros((500.0 * 1.15_f64.powi(i32::from(tenacity) - 10)) as u64)),
        _ => None,
    }
}

/// What a `maxmemory-policy` means; `None`: nothing is evicted.
fn eviction_policy(policy: MaxmemoryPolicy) -> Option<EvictionPolicy> {
    let (volatile_only, order) = match policy {
        MaxmemoryPolicy::Noeviction => return None,
        MaxmemoryPolicy::VolatileLru | MaxmemoryPolicy::VolatileLfu => (true, EvictionOrder::Aging),
        MaxmemoryPolicy::VolatileRandom => (true, EvictionOrder::Random),
        MaxmemoryPolicy::VolatileTtl => (true, EvictionOrder::Ttl),
        MaxmemoryPolicy::AllkeysLru | MaxmemoryPolicy::AllkeysLfu => (false, EvictionOrder::Aging),
        MaxmemoryPolicy::AllkeysRandom => (false, EvictionOrder::Random),
    };
    Some(EvictionPolicy { volatile_only, order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenacity_is_linear_then_geometric_then_endless() {
        assert_eq!(time_limit(0), Some(Duration::ZERO));
        assert_eq!(time_limit(10), Some(Duration::from_micros(500)));
        assert_eq!(time_limit(11), Some(Duration::from_micros(575)));
        assert!(time_limit(99).is_some_and(|limit| limit.as_secs() > 100));
        assert_eq!(time_limit(100), None);
    }
}
