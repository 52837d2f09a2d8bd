//! An object while a snapshot walks it in portions, see `tracking.rs`.

use std::sync::Arc;

use super::Object;
use crate::hasher::KeyHasher;
use crate::values::tracking::{ElementSink, PortionLimits, Tracking};

impl Tracking {
    /// Begins to track a collection. Called under its latch, for reading by one thread or for writing. `None` if it
    /// can't be walked in portions.
    pub fn begin(object: &Object, hasher: &KeyHasher, sink: Box<dyn ElementSink>) -> Option<Arc<Self>> {
        let (tracker, parts) = object.tracked()?;
        Some(Self::begin_with(tracker, parts, object.element_count(), hasher, sink))
    }

    /// The snapshot that tracks a collection, if any. Called under its latch.
    #[must_use]
    pub fn of(object: &Object) -> Option<Arc<Self>> {
        object.tracked()?.0.tracking()
    }

    /// Whether it tracks this collection. Called under its latch.
    #[must_use]
    pub fn is_of(&self, object: &Object) -> bool {
        object.tracked().is_some_and(|(tracker, _)| self.is_in(tracker))
    }

    /// Walks a portion of the collection. Called under its latch, for reading. Returns whether it was the last one;
    /// the collection is not tracked any more then.
    pub fn walk(&self, object: &Object, limits: PortionLimits) -> bool {
        debug_assert!(self.is_of(object));
        let Some((tracker, parts)) = object.tracked() else { return true };
        self.walk_parts(tracker, parts, limits)
    }
}
