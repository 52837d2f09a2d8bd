//! Fixed defects of this crate that a simulation can enable again, see [`Fault`](crate::simulation::Fault).

crate::planted_faults! {
    /// The memory of a connection that is closed stays charged.
    KEPT_CHARGE = "kept-charge";
}
