//! Active expiry: each tick deletes expired keys and hash fields, in a worker's share of the slots. On a replica, only keys whose
//! expiry its own clients have set.

use keyspace::{EffectOrigin, Expired, ExpiryCycle, FieldExpiryCycle};
use os::clock::Ticks;
use sync::atomic::Ordering;

use crate::executor::Executor;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// A worker's part of active expiry.
pub struct ActiveExpiry {
    keys: ExpiryCycle,
    fields: FieldExpiryCycle,
    /// Whether it is that of the first worker.
    is_first: bool,
}

impl ActiveExpiry {
    pub(super) fn new(thread: usize) -> Self {
        Self { keys: ExpiryCycle::new(thread), fields: FieldExpiryCycle::new(thread), is_first: thread == 0 }
    }

    /// Deletes for a part of the time until the next tick, `tick_ms` milliseconds from now.
    pub(super) fn run(&mut self, executor: &mut Executor, shared: &'static Shared, tick_ms: i64) {
        executor.follow_config();
        let config = &executor.settings.config;
        if config.import_mode
            || !shared.modes.active_expire.load(Ordering::Relaxed)
            || shared.modes.flags.is_set(GlobalFlags::ANY_PAUSE | GlobalFlags::ANY_LOADING)
        {
            return;
        }
        let local = &shared.keyspace.local_expiries;
        if shared.modes.flags.is_set(GlobalFlags::REPLICA) {
            // Unless the server became one in this turn: then these would be changes of a primary.
            if self.is_first && local.count() > 0 && executor.latching.effects.origin() == EffectOrigin::Local
            {
                executor.latching.mode.sees_expired = false;
                executor.latching.delete_local_expired();
            }
            return;
        }
        local.clear();
        executor.follow_promotion();
        let config = &executor.settings.config;
        let lazily = config.lazyfree_lazy_expire;
        // Two hundredths of the time between ticks, and one more for each step of effort.
        let permille = 10 * u64::from(config.active_expire_effort + 1);
        let budget_ns = permille * 1000 * tick_ms as u64;
        executor.latching.mode.sees_expired = false;
        let threads = shared.pool.wanted();
        let started = Ticks::now();
        let mut cut_short = false;
        let within_budget = || {
            cut_short = Ticks::now().ns_since(started) >= budget_ns;
            !cut_short
        };
        let free = |expired: Expired| {
            if lazily && expired.removed.is_costly_to_drop() {
                shared.memory.background.free(1, Box::new(move || drop(expired)));
            }
        };
        let within_half = || Ticks::now().ns_since(started) < budget_ns / 2;
        self.fields.run(&mut executor.latching, threads, within_half, |expired| drop(expired));
        self.keys.run(&mut executor.latching, threads, within_budget, free);
        executor.statistics.expiry.ns.add(Ticks::now().ns_since(started));
        executor.statistics.expiry.cut_short.add(u64::from(cut_short));
        let settings = &executor.settings;
        let watched = Some(started).filter(|_| settings.latency_start().is_some());
        settings.latency_end(&shared.monitoring, watched, "expire-cycle");
    }
}
