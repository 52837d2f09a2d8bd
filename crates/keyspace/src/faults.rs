//! Fixed defects of this crate that a simulation can enable again, see [`sync::simulation::Fault`].

sync::planted_faults! {
    /// The effects of a command are logged after its latches are released, with those of later commands.
    LATE_EFFECTS = "late-effects";
}
