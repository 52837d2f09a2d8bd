//! Where the process stops itself in a full synchronisation, for tests of what the other server does meanwhile (`DEBUG
//! PAUSE-AFTER-FORK`, `DEBUG REPL-PAUSE`).
//!
//! A primary that forks goes on sending the snapshot while it is stopped: its child does. Here that would stop, too. So clients
//! get no replies from the cut on, as those of a stopped server, and the process stops when the snapshot is sent.

use commands::host::SyncPoint;
use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::Shared;
use super::pause::{ENDLESS_MS, PauseReason};
use crate::connection::replica::ReplicaState;
use crate::logging;

/// See the module documentation.
#[derive(Default)]
pub struct SyncStops {
    /// A bit for each [`SyncPoint`].
    points: AtomicU8,
    /// Whether the process stops when the snapshot is sent.
    is_due: AtomicBool,
}

impl SyncStops {
    /// Adds a point, or removes it.
    pub fn set(&self, point: SyncPoint, enabled: bool) {
        match enabled {
            true => self.points.fetch_or(bit(point), Ordering::AcqRel),
            false => self.points.fetch_and(!bit(point), Ordering::AcqRel),
        };
    }

    /// Stops the process at a point, if that is wanted, until it is continued by a signal.
    pub fn stop_at(&self, point: SyncPoint) {
        self.stop_after(point, || ());
    }

    /// As [`Self::stop_at`], after a call by which others learn that the point is reached: a removal that follows from it is too
    /// late.
    pub fn stop_after(&self, point: SyncPoint, announce: impl FnOnce()) {
        let stops = self.has(point);
        announce();
        if stops {
            stop();
        }
    }

    fn has(&self, point: SyncPoint) -> bool {
        self.points.load(Ordering::Acquire) & bit(point) != 0
    }
}

impl Shared {
    /// Lets clients wait if the process is to stop when the snapshot is sent that is being cut.
    pub fn begin_stop_after_snapshot(&self) {
        let stops = &self.modes.sync_stops;
        if stops.has(SyncPoint::Snapshot) {
            let now = Uptime::now();
            let until = now.plus_ms(ENDLESS_MS);
            self.modes.pause.begin(&self.modes.flags, PauseReason::Stop, now, until, false);
            stops.is_due.store(true, Ordering::Release);
        }
    }

    /// Stops the process if that is due and the snapshot is sent. Called every tick.
    pub fn stop_after_snapshot_if_due(&self) {
        let is_due = &self.modes.sync_stops.is_due;
        if !is_due.load(Ordering::Acquire) || self.snapshots.is_busy() {
            return;
        }
        let is_receiving = |state| state == ReplicaState::Receiving;
        let is_sent = !self.replication.replicas.all().iter().any(|replica| is_receiving(replica.state()));
        if is_sent && is_due.swap(false, Ordering::AcqRel) {
            stop();
            self.end_pause(PauseReason::Stop);
        }
    }
}

fn stop() {
    log::info!("The process stops itself, as DEBUG demands");
    // The thread that writes the log stops, too.
    logging::flush();
    match os::process::stop_itself() {
        Ok(()) => log::info!("The process was continued"),
        Err(error) => log::warn!("The process can't stop itself: {error}"),
    }
}

fn bit(point: SyncPoint) -> u8 {
    1 << point as u8
}
