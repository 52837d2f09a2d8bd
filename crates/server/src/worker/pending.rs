//! Work that a turn may leave for the next one. While there is any, the worker does not sleep: a kind that is listed here can
//! neither be forgotten by the turn nor by the wait before it.

use super::Worker;

/// A kind of work.
struct PendingWork {
    /// Whether there is any.
    is_left: fn(&Worker) -> bool,
    /// Does some of it.
    run: fn(&mut Worker),
}

/// What follows the events of a turn, in this order.
const AFTER_EVENTS: [PendingWork; 6] = [
    PendingWork { is_left: |worker| !worker.arrivals.are_empty(), run: Worker::accept_arrivals },
    PendingWork { is_left: |worker| !worker.encryption.waiting.is_empty(), run: Worker::continue_handshakes },
    PendingWork {
        is_left: |worker| worker.executor.budget.is_evicting(),
        run: |worker| worker.executor.eviction().resume(),
    },
    PendingWork {
        is_left: |worker| worker.cron.defragmenter.has_time(),
        run: |worker| worker.cron.defragmenter.run(&mut worker.executor, worker.shared),
    },
    PendingWork { is_left: |worker| !worker.waits.ready.is_empty(), run: Worker::run_ready },
    PendingWork {
        is_left: |worker| worker.executor.has_orphans(),
        run: |worker| worker.executor.continue_orphans(&worker.host),
    },
];

/// What follows the timers.
const DEFERRED_SERVES: PendingWork =
    PendingWork { is_left: |worker| worker.executor.has_deferred_serves(), run: Worker::run_deferred };

impl PendingWork {
    #[inline(always)]
    fn run_some(&self, worker: &mut Worker) {
        if (self.is_left)(worker) {
            (self.run)(worker);
        }
    }
}

impl Worker {
    /// Continues what earlier turns have left, and does what the events of this one have caused.
    #[inline(always)]
    pub(super) fn work_after_events(&mut self) {
        AFTER_EVENTS.iter().for_each(|work| work.run_some(self));
    }

    /// Serves the waiters of keys that could not be latched before.
    #[inline(always)]
    pub(super) fn work_after_timers(&mut self) {
        DEFERRED_SERVES.run_some(self);
    }

    /// Whether something is left to do, besides what events will bring: work of the kinds above, mail, messages to be sent,
    /// connections that leave, and the answers to barriers, which other workers wait for.
    pub(super) fn has_work(&self) -> bool {
        let is_left = |work: &PendingWork| (work.is_left)(self);
        AFTER_EVENTS.iter().any(is_left)
            || is_left(&DEFERRED_SERVES)
            || self.host.subscriptions.has_mail()
            || self.output.delivery.is_due()
            || self.waits.barrier_counts() != (0, 0)
            || self.scaling.has_leaving()
    }
}
