//! Fixed defects of this crate that a simulation can enable again, see [`sync::simulation::Fault`].

sync::planted_faults! {
    /// A replica that continues misses one byte.
    LATE_RESUME = "late-resume";
    /// The cut of a snapshot for replicas does not count changes that are in the log and not yet in the backlog.
    STALE_CUT = "stale-cut";
    /// The former id of the data has no end, so that a replica with changes of its own continues.
    ENDLESS_HISTORY = "endless-history";
}
