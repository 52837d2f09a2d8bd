//! Fixed defects of this crate that a simulation can enable again, see [`sync::simulation::Fault`].

sync::planted_faults! {
    /// The position of the data in an append-only file precedes their last changes, so a file that was cut has that of a whole one.
    EARLY_MARK = "early-mark";
}
