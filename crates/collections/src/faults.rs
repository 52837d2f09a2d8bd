//! Fixed defects of this crate that a simulation can enable again, see [`sync::simulation::Fault`].

sync::planted_faults! {
    /// A segment is retired before the hint that leads to it is unlinked.
    EARLY_RETIRE = "early-retire";
}
