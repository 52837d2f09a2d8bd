//! Fixed defects of this crate that a simulation can enable again, see [`sync::simulation::Fault`].

sync::planted_faults! {
    /// A quiet send counts as complete while the kernel's overflow list holds completions.
    EARLY_SETTLE = "early-settle";
}
