//! Eviction in the worker whose command needs the memory, for a time set by
//! `maxmemory-eviction-tenacity`. The rest is done between the turns of the event loop, while commands continue.
//!
//! For runs of plain requests room is made beforehand ([`Eviction::has_room_for`]), for a batch at a time
//! and with a reserve: adding up the memory use of all threads costs as much as evicting a key. All other
//! commands check one by one ([`Eviction::make_room`]).
//!
//! Eviction reaches its time limit once a turn of the event loop: however many requests arrive, the next
//! turn is not delayed by more than that. After that, in this turn, a request that adds data evicts as
//! much as memory use has grown since; nothing else evicts.
//!
//! Invariants
//! 1. The memory that a thread may use without adding up is at most [`GRANT_SIZE_MAX`] bytes, in addition to the
//!    room found for the batch that it runs.
//! 2. `excess_left` is set only between an eviction that ran out of time and the end of its turn.

use std::ops::ControlFlow;
use std::time::Duration;

use config::MaxmemoryPolicy;
use keyspace::{EffectOrigin, EvictionOrder, EvictionPolicy, Evictor, Latching};
use os::clock::Ticks;
use sync::atomic::Ordering;

use super::settings::WorkerSettings;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// The maximum number of bytes that a thread may use before it adds up memory use again.
const GRANT_SIZE_MAX: u64 = 64 << 10;

/// Input up to this size may need four times as much memory.
const SMALL_INPUT_SIZE: usize = 16 << 10;

/// The reserve that is kept free: this part of the limit, and at most [`RESERVED_SIZE_MAX`] bytes.
const RESERVED_SHARE: u64 = 1024;
const RESERVED_SIZE_MAX: u64 = 64 << 10;

/// Beyond this size nothing is evicted before the memory is actually used.
const EVICTED_AHEAD_SIZE_MAX: u64 = 1 << 20;

/// How often an eviction compares the decrease of memory use with the size of its victims.
const ROUND_COUNT_MAX: usize = 8;

/// How an eviction ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// The requested size is free.
    Enough,
    /// The time ran out.
    Part,
    /// Nothing was left to evict.
    Everything,
}

/// What a worker has determined about the memory that its requests may use.
pub struct MemoryBudget {
    evictor: Evictor,
    /// Whether the last eviction ran out of time.
    is_evicting: bool,
    /// The bytes in use beyond the limit when eviction ran out of time in this turn; `None`: it has not.
    excess_left: Option<u64>,
    /// Whether the current plain requests fit into the free memory.
    pub(super) has_room: bool,
    /// Bytes that plain requests may use before memory use is added up again.
    granted: u64,
    /// The maximum of [`sync::allocator::allocated_here`] while the current plain requests run.
    allocated_max: isize,
    /// The size of recently evicted keys, in bytes.
    victim_size: u64,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self {
            evictor: Evictor::default(),
            is_evicting: false,
            excess_left: None,
            has_room: false,
            granted: 0,
            allocated_max: isize::MAX,
            victim_size: 0,
        }
    }
}

impl MemoryBudget {
    /// Whether the last eviction ran out of time.
    #[must_use]
    pub fn is_evicting(&self) -> bool {
        self.is_evicting
    }

    /// Begins a turn of the event loop, in which there is time for eviction again.
    pub fn begin_turn(&mut self) {
        self.excess_left = None;
    }

    /// Makes the next plain requests add up memory use again.
    pub(super) fn revoke_grant(&mut self) {
        self.granted = 0;
    }

    /// Whether the current plain requests have used more memory than was planned for them.
    #[inline]
    pub(super) fn is_outgrown(&self) -> bool {
        sync::allocator::allocated_here() > self.allocated_max
    }

    /// Takes `need` bytes for plain requests from the granted ones. `false`: too few are left.
    #[inline]
    fn take(&mut self, need: u64) -> bool {
        let most = isize::try_from(need + GRANT_SIZE_MAX).unwrap_or(isize::MAX);
        self.allocated_max = sync::allocator::allocated_here().saturating_add(most);
        match self.granted.checked_sub(need) {
            Some(left) => {
                self.granted = left;
                true
            }
            None => false,
        }
    }
}

/// Eviction as the worker does it now.
pub struct Eviction<'a> {
    pub(super) budget: &'a mut MemoryBudget,
    pub(super) latching: &'a mut Latching<'static>,
    pub(super) settings: &'a WorkerSettings,
    pub(super) flags: &'static GlobalFlags,
    pub(super) shared: &'static Shared,
}

impl Eviction<'_> {
    /// Evicts until memory use is within `maxmemory`, or the time runs out: then the rest is left to
    /// [`Self::resume`]. `need` is the size of a request that may add to memory use; 0: it adds
    /// nothing. Returns `false` if there is nothing to evict.
    #[cold]
    pub fn make_room(&mut self, need: u64) -> bool {
        // The next command may use any amount of memory.
        self.budget.revoke_grant();
        if self.flags.is_set(GlobalFlags::ANY_PAUSE | GlobalFlags::ANY_LOADING) {
            return true;
        }
        let used = self.shared.limited_memory();
        // Includes memory about to be freed: buffers returned would otherwise be kept, and further keys evicted.
        let is_over = used as u64 > self.settings.config.maxmemory && self.settings.config.maxmemory > 0;
        let is_short = &self.shared.memory.is_over_limit;
        if is_short.load(Ordering::Relaxed) != is_over {
            is_short.store(is_over, Ordering::Relaxed);
        }
        let excess = if is_over { self.room_beside(used, 0).min(0).unsigned_abs() } else { 0 };
        if excess == 0 {
            self.note_eviction(false);
            return true;
        }
        let freed = match (self.policy_in_force(), self.budget.excess_left) {
            (None, _) => Freed::Everything,
            (Some(policy), None) => self.evict_excess(policy, excess),
            (Some(_), Some(_)) if need == 0 => Freed::Part,
            (Some(policy), Some(left)) => {
                let grown = excess.saturating_sub(left);
                let wanted = (grown + 2 * need).min(excess + self.reserve());
                match self.evict(policy, wanted) {
                    Freed::Enough => Freed::Part,
                    freed => freed,
                }
            }
        };
        match freed {
            Freed::Enough => self.note_eviction(false),
            Freed::Part => self.note_eviction(true),
            Freed::Everything if self.excess() == 0 => self.note_eviction(false),
            Freed::Everything => {
                self.budget.is_evicting = false;
                self.shared.memory.exceeded_time.note(true);
                return false;
            }
        }
        true
    }

    /// Evicts `excess` bytes and a little more, as the next command will need it.
    fn evict_excess(&mut self, policy: EvictionPolicy, mut excess: u64) -> Freed {
        for _ in 0..ROUND_COUNT_MAX {
            let freed = self.evict(policy, excess + self.reserve());
            // Sizes of collections are estimated from samples, so memory use decides.
            excess = self.excess();
            match freed {
                Freed::Enough if excess == 0 => return Freed::Enough,
                Freed::Enough => {}
                Freed::Part => {
                    self.budget.excess_left = Some(excess);
                    return Freed::Part;
                }
                Freed::Everything => return Freed::Everything,
            }
        }
        self.budget.excess_left = Some(excess);
        Freed::Part
    }

    /// Whether plain requests of this many bytes fit into the free memory: they add memory in proportion
    /// to their size. Evicts for them if necessary, so that requests run in one go in a full cache, too.
    #[inline]
    pub(super) fn has_room_for(&mut self, input_size: usize) -> bool {
        if self.settings.config.maxmemory == 0 {
            return true;
        }
        let need = need_of(input_size);
        self.budget.take(need) || self.seek_room(need)
    }

    /// Adds up memory use, and evicts in advance if less than `need` bytes and a reserve are free. Grants each
    /// thread a part of the rest, such that all of them together remain within the limit.
    #[cold]
    fn seek_room(&mut self, need: u64) -> bool {
        self.budget.revoke_grant();
        let reserve = self.reserve();
        let mut room = self.room(need + reserve);
        if room < (need + reserve / 2) as i64
            && need <= EVICTED_AHEAD_SIZE_MAX
            && self.budget.excess_left.is_none()
            && let Some(policy) = self.policy_in_force()
        {
            let freed = self.evict(policy, (need + reserve).saturating_add_signed(room.saturating_neg()));
            room = self.room(need + reserve);
            if freed == Freed::Part && room < 0 {
                self.budget.excess_left = Some(self.excess());
                self.note_eviction(true);
            }
        }
        let Ok(left) = u64::try_from(room.saturating_sub_unsigned(need)) else { return false };
        self.budget.granted = (left / (2 * self.shared.pool.wanted() as u64)).min(GRANT_SIZE_MAX);
        true
    }

    /// Bytes that are kept free when eviction is necessary, so that it is not necessary for each request.
    fn reserve(&self) -> u64 {
        (self.settings.config.maxmemory / RESERVED_SHARE).min(RESERVED_SIZE_MAX)
    }

    /// The eviction policy in force; `None`: nothing is evicted.
    fn policy_in_force(&self) -> Option<EvictionPolicy> {
        // A partial import has no value, so nothing is evicted from it.
        eviction_policy(self.settings.config.maxmemory_policy).filter(|_| !self.settings.config.import_mode)
    }

    /// Evicts until `wanted` bytes are free.
    fn evict(&mut self, policy: EvictionPolicy, wanted: u64) -> Freed {
        let cycle_latency = self.settings.latency_start();
        let origin = self.latching.effects.origin();
        if origin != EffectOrigin::Own {
            // It may be a request of the primary for which room is made.
            self.latching.effects.set_origin(self.flags.origin_of_clients());
        }
        let freed = self.evict_groups(policy, wanted);
        self.latching.effects.set_origin(origin);
        self.settings.latency_end(&self.shared.monitoring, cycle_latency, "eviction-cycle");
        freed
    }

    fn evict_groups(&mut self, policy: EvictionPolicy, wanted: u64) -> Freed {
        let limit = time_limit(self.settings.config.maxmemory_eviction_tenacity);
        let samples = usize::from(self.settings.config.maxmemory_samples);
        let started = Ticks::now();
        // Counts the size of the victims instead of memory use: other threads add to that, and so do
        // events and invalidations for evicted keys for a moment, which must not cost further keys.
        let mut freed = 0;
        loop {
            let latency = self.settings.latency_start();
            let group_size = (wanted - freed).div_ceil(self.budget.victim_size.max(1)) as usize;
            let (shared, is_lazy) = (self.shared, self.settings.config.lazyfree_lazy_eviction);
            let mut group_freed = 0;
            let count = self.budget.evictor.evict(self.latching, policy, samples, group_size, |evicted| {
                let size = evicted.removed.entry().approximate_bytes() as u64;
                group_freed += size;
                if is_lazy && evicted.removed.is_costly_to_drop() {
                    shared.memory.background.free_evicted(size, Box::new(move || drop(evicted)));
                } else {
                    drop(evicted);
                }
                if freed + group_freed < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.settings.latency_end(&self.shared.monitoring, latency, "eviction-del");
            if count == 0 {
                return Freed::Everything;
            }
            freed += group_freed;
            self.budget.victim_size = (3 * self.budget.victim_size + group_freed / count as u64) / 4;
            if freed >= wanted {
                return Freed::Enough;
            }
            if limit.is_some_and(|limit| u128::from(Ticks::now().ns_since(started)) > limit.as_nanos()) {
                return Freed::Part;
            }
        }
    }

    fn note_eviction(&mut self, is_unfinished: bool) {
        self.budget.is_evicting = is_unfinished;
        self.shared.memory.exceeded_time.note(is_unfinished);
    }

    /// Bytes that are in use beyond `maxmemory`.
    fn excess(&self) -> u64 {
        if self.settings.config.maxmemory == 0 {
            return 0;
        }
        self.room(0).min(0).unsigned_abs()
    }

    /// Bytes that may still be used; negative if the limit is exceeded. Memory about to be freed is added
    /// up only where this is less than `wanted`.
    fn room(&self, wanted: u64) -> i64 {
        self.room_beside(self.shared.limited_memory(), wanted)
    }

    /// As [`Self::room`], with `used` bytes in use.
    fn room_beside(&self, used: usize, wanted: u64) -> i64 {
        let limit = i64::try_from(self.settings.config.maxmemory).unwrap_or(i64::MAX);
        let room = limit - used as i64;
        if room >= wanted as i64 {
            return room;
        }
        // Memory about to be freed counts as free, or else too many keys would be evicted. So does the
        // memory of connections that are being closed, or that exceeds the limit of the connections, as
        // some are about to be closed. So do messages about evicted keys to other threads, output that the
        // kernel accepts at a turn's end, and input of which the requests are about to be executed.
        let soon_free = self.shared.memory.background.evicted_bytes()
            + self
                .shared
                .monitoring
                .statistics
                .client_memory()
                .saturating_sub(self.settings.client_memory_max)
            + self.shared.monitoring.statistics.closing_client_memory()
            + self.shared.hub.underway_bytes()
            + self.shared.monitoring.statistics.sum(|thread| &thread.memory.unsent)
            + self.shared.monitoring.statistics.sum(|thread| &thread.memory.current_reply)
            + self.shared.monitoring.statistics.sum(|thread| &thread.memory.passing_input);
        room.saturating_add_unsigned(soon_free)
    }

    /// Continues the last eviction that ran out of time.
    pub fn resume(&mut self) {
        if self.budget.is_evicting && self.budget.excess_left.is_none() {
            self.make_room(0);
        }
    }
}

/// Bytes that requests of this size may need: small ones may become entries several times their size.
#[inline]
pub(super) fn need_of(input_size: usize) -> u64 {
    (input_size + 3 * input_size.min(SMALL_INPUT_SIZE)) as u64
}

/// How long eviction may delay a command, by Valkey's scale; `None`: without limit.
fn time_limit(tenacity: u8) -> Option<Duration> {
    match tenacity {
        0..=10 => Some(Duration::from_micros(50 * u64::from(tenacity))),
        11..100 => Some(Duration::from_micros((500.0 * 1.15_f64.powi(i32::from(tenacity) - 10)) as u64)),
        _ => None,
    }
}

/// Returns the eviction policy for a `maxmemory-policy`; `None`: nothing is evicted.
fn eviction_policy(policy: MaxmemoryPolicy) -> Option<EvictionPolicy> {
    let (volatile_only, order) = match policy {
        MaxmemoryPolicy::Noeviction => return None,
        MaxmemoryPolicy::VolatileLru | MaxmemoryPolicy::VolatileLrm | MaxmemoryPolicy::VolatileLfu => {
            (true, EvictionOrder::Aging)
        }
        MaxmemoryPolicy::VolatileRandom => (true, EvictionOrder::Random),
        MaxmemoryPolicy::VolatileTtl => (true, EvictionOrder::Ttl),
        MaxmemoryPolicy::AllkeysLru | MaxmemoryPolicy::AllkeysLrm | MaxmemoryPolicy::AllkeysLfu => {
            (false, EvictionOrder::Aging)
        }
        MaxmemoryPolicy::AllkeysRandom => (false, EvictionOrder::Random),
    };
    Some(EvictionPolicy { volatile_only, order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_time_limit_is_linear_then_geometric_then_none() {
        assert_eq!(time_limit(0), Some(Duration::ZERO));
        assert_eq!(time_limit(10), Some(Duration::from_micros(500)));
        assert_eq!(time_limit(11), Some(Duration::from_micros(575)));
        assert!(time_limit(99).is_some_and(|limit| limit.as_secs() > 100));
        assert_eq!(time_limit(100), None);
    }
}
