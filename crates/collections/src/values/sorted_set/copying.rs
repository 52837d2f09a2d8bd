//! Copies of a sorted set, and its move to other memory.

use super::{SortedSet, SortedSetForm};
use crate::memory::heap::Heap;

impl SortedSet {
    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        let form = match &self.form {
            SortedSetForm::Brief { brief, is_skiplist } => {
                SortedSetForm::Brief { brief: brief.to_copy(heap), is_skiplist: *is_skiplist }
            }
            SortedSetForm::Small { small, is_skiplist } => {
                SortedSetForm::Small { small: small.to_copy(heap), is_skiplist: *is_skiplist }
            }
            SortedSetForm::Large(large) => SortedSetForm::Large(Box::new(large.to_copy(heap))),
        };
        Self { form }
    }

    /// See [`crate::Object::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match &mut self.form {
            SortedSetForm::Brief { brief, .. } => brief.relocate(heap),
            SortedSetForm::Small { small, .. } => small.relocate(heap),
            SortedSetForm::Large(_) => false,
        }
    }
}
