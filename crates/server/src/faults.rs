//! Fixed defects of the server that a simulation can enable again, see [`sync::simulation::Fault`].

use commands::session::SessionFlags;
use sync::simulation::planted;

sync::planted_faults! {
    /// Mail to a worker that has read its mailbox for the last time is lost: it checks and deregisters in two steps.
    LOST_MAIL = "lost-mail";
    /// Mail does not wake a worker that sleeps: it is read when the next timer ends.
    OMITTED_WAKE = "omitted-wake";
    /// Timers follow the wall clock.
    WALL_TIMERS = "wall-timers";
    /// A connection that is moved while a pause ends waits on.
    MISSED_UNPAUSE = "missed-unpause";
    /// `CLIENT PAUSE` replies while running batches may still write.
    EARLY_PAUSE = "early-pause";
    /// `CLIENT TRACKING ON BCAST` replies while workers may make changes that they do not broadcast.
    EARLY_BROADCAST = "early-broadcast";
    /// `ACL SETUSER` and its relatives reply while workers may still use the old permissions.
    EARLY_ACL = "early-acl";
    /// `EXEC` runs commands with the permissions with which they were queued.
    UNCHECKED_EXEC = "unchecked-exec";
    /// A blocked request is served with the permissions with which it began to wait.
    UNCHECKED_WAITER = "unchecked-waiter";
    /// A script that has paused continues with the permissions with which it began.
    UNCHECKED_SCRIPT = "unchecked-script";
    /// A subscriber stays when its user may no longer use the channel.
    KEPT_SUBSCRIBER = "kept-subscriber";
    /// A script releases its latches while it is paused.
    LOOSE_SCRIPT = "loose-script";
    /// A request is refused with `BUSY` as soon as a script holds its slot, however short that has run.
    EARLY_BUSY = "early-busy";
    /// Replies leave before the changes that they show are synchronised.
    EARLY_REPLY = "early-reply";
    /// The manifest names a base that is not synchronised.
    EARLY_MANIFEST = "early-manifest";
    /// `WAIT` counts replicas that have not applied the change.
    EARLY_WAIT = "early-wait";
    /// After a cut, the stream does not select the database of the next change.
    LOST_SELECT = "lost-select";
    /// A server that becomes a replica asks to continue while workers may still change data for clients.
    LATE_WRITES = "late-writes";
    /// Replicas are sent what is for the append-only file only.
    SENT_RANGE = "sent-range";
}

/// Whether a fault omits a barrier: that of a pause while one is in force, of broadcasts if the session has them, otherwise
/// of permissions.
pub(crate) fn omits_barrier(is_paused: bool, session: SessionFlags) -> bool {
    planted(match (is_paused, session.contains(SessionFlags::TRACKING_BCAST)) {
        (true, _) => EARLY_PAUSE,
        (false, true) => EARLY_BROADCAST,
        (false, false) => EARLY_ACL,
    })
}
