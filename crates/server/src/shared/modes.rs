//! The modes of the whole server that change how requests or the periodic work are handled.

use std::time::Duration;

use keyspace::{EffectOrigin, EffectSink};
use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::Shared;
use super::pause::{Pause, PauseReason};
use super::pending_shutdown::PendingShutdown;
use super::sync_stops::SyncStops;
use crate::mail::Mail;

/// The modes of the whole server.
pub struct Modes {
    /// The modes that are tested before every request; all clear on the fast path.
    pub flags: GlobalFlags,
    /// The pauses of clients.
    pub pause: Pause,
    /// A shutdown that saves first.
    pub shutdown: PendingShutdown,
    /// Connections in `MONITOR` mode.
    monitor_count: AtomicU64,
    /// Whether the active expiry cycle runs.
    pub active_expire: AtomicBool,
    /// Whether the periodic work is suspended (`DEBUG PAUSE-CRON`).
    pub cron_paused: AtomicBool,
    /// Whether checksums of dumped values are not checked (`DEBUG SET-SKIP-CHECKSUM-VALIDATION`).
    pub skips_checksums: AtomicBool,
    /// Where the process stops itself in a full synchronisation.
    pub sync_stops: SyncStops,
    /// Whether scripts may run every command (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub scripts_run_all: AtomicBool,
    /// Until when workers begin no turn, in milliseconds of the monotonic clock (`DEBUG SLEEP`).
    stalled_until: AtomicI64,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            flags: GlobalFlags::default(),
            pause: Pause::default(),
            shutdown: PendingShutdown::default(),
            monitor_count: AtomicU64::new(0),
            active_expire: AtomicBool::new(true),
            cron_paused: AtomicBool::new(false),
            skips_checksums: AtomicBool::new(false),
            sync_stops: SyncStops::default(),
            scripts_run_all: AtomicBool::new(false),
            stalled_until: AtomicI64::new(0),
        }
    }
}

impl Modes {
    /// Whether data are being loaded, also beside the present ones.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.flags.is_set(GlobalFlags::ANY_LOADING)
    }

    /// Whether the server is ending.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.flags.is_set(GlobalFlags::STOPPING)
    }

    /// Whether writes are paused, alone or with all requests.
    #[must_use]
    pub fn pauses_writes(&self) -> bool {
        self.flags.is_set(GlobalFlags::ANY_PAUSE) && Uptime::now() < self.pause.until()
    }

    /// Keeps all workers from beginning a turn for a time.
    pub fn stall(&self, time: Duration) {
        self.stalled_until.fetch_max(Uptime::now().plus(time).to_raw(), Ordering::Relaxed);
    }

    /// Blocks the calling worker while all are kept from beginning a turn.
    #[inline]
    pub fn await_stall(&self) {
        let until = self.stalled_until.load(Ordering::Relaxed);
        if until != 0 {
            let left_ms = Uptime::from_raw(until).ms_since(Uptime::now());
            if left_ms > 0 {
                sync::thread::sleep(Duration::from_millis(left_ms.unsigned_abs()));
            }
        }
    }

    /// Counts a connection that enters or leaves `MONITOR` mode.
    pub fn count_monitor(&self, enters: bool) {
        if enters {
            self.monitor_count.fetch_add(1, Ordering::AcqRel);
            self.flags.set(GlobalFlags::MONITORED, true);
        } else if self.monitor_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.flags.set(GlobalFlags::MONITORED, false);
        }
    }
}

/// Flags that change how every request is handled; one load shows that none is set.
#[derive(Default)]
pub struct GlobalFlags(AtomicU32);

impl GlobalFlags {
    /// Clients are paused.
    pub const PAUSED: u32 = 1 << 0;
    /// Only writes are paused.
    pub const PAUSED_WRITES: u32 = 1 << 1;
    /// Either of the pauses.
    pub const ANY_PAUSE: u32 = Self::PAUSED | Self::PAUSED_WRITES;
    /// Some connection is in `MONITOR` mode.
    pub const MONITORED: u32 = 1 << 2;
    /// The server is shutting down.
    pub const STOPPING: u32 = 1 << 3;
    /// Writes require more replicas than there are.
    pub const NO_REPLICAS: u32 = 1 << 4;
    /// Data are being loaded, and none are shown meanwhile.
    pub const LOADING: u32 = 1 << 5;
    /// Data are being loaded beside those that requests use.
    pub const ASYNC_LOADING: u32 = 1 << 13;
    /// Either of the loads. They exclude each other.
    pub const ANY_LOADING: u32 = Self::LOADING | Self::ASYNC_LOADING;
    /// The server is a replica: the primary's stream changes its data, and nothing expires by itself.
    pub const REPLICA: u32 = 1 << 6;
    /// Writes of clients are refused, because the server is a replica (`replica-read-only`).
    pub const READ_ONLY: u32 = 1 << 7;
    /// The link to the primary is down, and data that may be old are not shown (`replica-serve-stale-data`).
    pub const STALE: u32 = 1 << 11;
    /// The server is a replica of the target of a failover, which is not a primary yet: clients are not redirected to it.
    pub const FAILING_OVER: u32 = 1 << 12;
    /// What does not apply to the requests of the primary.
    pub const EXEMPT_PRIMARY: u32 = Self::REPLICA
        | Self::READ_ONLY
        | Self::FAILING_OVER
        | Self::STALE
        | Self::NO_REPLICAS
        | Self::ANY_LOADING
        | Self::UNSAVED
        | Self::APPEND_FAILED;
    /// Writes are refused because the data could not be saved.
    pub const UNSAVED: u32 = 1 << 8;
    /// A snapshot can't keep up with changes of unsaved entries: these changes wait.
    pub const SNAPSHOT_FULL: u32 = 1 << 9;
    /// The append-only file can't be written, so writes are refused.
    pub const APPEND_FAILED: u32 = 1 << 10;

    /// All flags.
    #[must_use]
    #[inline]
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn is_set(&self, flag: u32) -> bool {
        self.load() & flag != 0
    }

    /// Whose changes those of clients are.
    #[must_use]
    pub fn origin_of_clients(&self) -> EffectOrigin {
        match self.is_set(Self::REPLICA) {
            true => EffectOrigin::Local,
            false => EffectOrigin::Own,
        }
    }

    /// Counts the following changes of clients as those of a primary, if the server has become one since the origin of the
    /// effects was set: replicas must receive them. Called after the modes allow a change.
    #[inline(always)]
    pub fn follow_promotion(&self, effects: &mut EffectSink) {
        if effects.origin() == EffectOrigin::Local {
            effects.set_origin(self.origin_of_clients());
        }
    }

    /// Sets a flag, unless any of `others` is set, or the flag itself. Returns whether it has set it.
    #[must_use]
    pub fn raise(&self, flag: u32, others: u32) -> bool {
        let raise = |flags| (flags & (flag | others) == 0).then_some(flags | flag);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, raise).is_ok()
    }

    /// Sets or clears flags.
    pub fn set(&self, flags: u32, on: bool) {
        if on {
            self.0.fetch_or(flags, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!flags, Ordering::AcqRel);
        }
    }
}

impl Shared {
    /// Ends the server: every worker sends its remaining output, and ends.
    pub fn stop(&self) {
        self.modes.flags.set(GlobalFlags::STOPPING, true);
        self.workers.post_all(|| Mail::Stop);
        self.replication.role.wake();
    }

    /// Ends the pause of clients for a reason.
    pub fn end_pause(&self, reason: PauseReason) {
        self.modes.pause.end(&self.modes.flags, reason, Uptime::now());
        self.workers.post_all(|| Mail::PauseChanged);
    }

    /// Ends the pauses of clients whose end has passed.
    pub fn end_pause_if_over(&self, now: Uptime) {
        if self.modes.pause.end_if_over(&self.modes.flags, now) {
            self.workers.post_all(|| Mail::PauseChanged);
        }
    }
}
