//! Elements that are the entries of a table: walking and preserving them.

use super::{Element, Grains, PortionLimits, TrackingState};
use crate::entry::Entry;
use crate::table::Table;

impl TrackingState {
    /// Walks a table until the limits or its end. Returns whether it is the end.
    pub(crate) fn walk_table(
        &mut self,
        table: &Table,
        limits: PortionLimits,
        element: impl Fn(Entry<'_>) -> Element<'_>,
    ) -> bool {
        while let Some(from) = self.table.next() {
            if self.is_enough(limits) {
                return false;
            }
            let Self { sink, table: grains, visited_len, .. } = self;
            let next = table.visit_home(from >> Grains::TABLE_SHIFT, |position, entry| {
                *visited_len += 1;
                if !grains.is_preserved(position << Grains::TABLE_SHIFT) {
                    sink.add(element(entry));
                }
            });
            self.table.advance(next.map(|next| u64::from(next) << Grains::TABLE_SHIFT));
        }
        true
    }

    /// Preserves the entries of a table at the position of a hash that `is_ahead` of the walk, before they change.
    pub(crate) fn preserve_in_table(
        &mut self,
        table: &Table,
        hash: u64,
        element: impl Fn(Entry<'_>) -> Element<'_>,
        is_ahead: impl Fn(Entry<'_>, Option<&(u64, Box<[u8]>)>) -> bool,
    ) {
        let Self { sink, table: grains, last, .. } = self;
        let Some(positions) = grains.begin_change(Table::position(hash) << Grains::TABLE_SHIFT) else {
            return;
        };
        let mut next = Some((positions.start >> Grains::TABLE_SHIFT) as u32);
        while let Some(from) = next.filter(|from| u64::from(*from) << Grains::TABLE_SHIFT < positions.end) {
            next = table.visit_home(from, |position, entry| {
                let is_in = positions.contains(&(u64::from(position) << Grains::TABLE_SHIFT));
                if is_in && is_ahead(entry, last.as_ref()) {
                    sink.add(element(entry));
                }
            });
        }
    }
}
