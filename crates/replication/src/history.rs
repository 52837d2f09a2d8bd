//! The histories of the data that this server can continue for a replica.
//!
//! | event | id | former id, valid up to |
//! |---|---|---|
//! | start, or the stream begins anew | new | none |
//! | full synchronisation from a primary | the primary's | none |
//! | partial synchronisation with another id | the primary's | the own one, the offset then |
//! | promotion to a primary | new | the own one, the offset then |

use sync::simulation::planted;

use crate::faults;
use crate::id::ReplicationId;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    id: ReplicationId,
    /// The id before, and the offset up to which the data had it.
    former: Option<(ReplicationId, u64)>,
}

impl History {
    /// A history without a former one.
    #[must_use]
    pub fn new(id: ReplicationId) -> Self {
        Self { id, former: None }
    }

    /// One with a former id, that was valid up to an offset.
    #[must_use]
    pub fn continued(id: ReplicationId, former: ReplicationId, offset: u64) -> Self {
        Self { id, former: Some((former, offset)) }
    }

    /// Gives the data a new id. The present one stays valid up to `offset`.
    pub fn shift(&mut self, id: ReplicationId, offset: u64) {
        let end = if planted(faults::ENDLESS_HISTORY) { (i64::MAX - 1) as u64 } else { offset };
        *self = Self::continued(id, self.id, end);
    }

    /// The id of the data.
    #[must_use]
    pub fn id(&self) -> ReplicationId {
        self.id
    }

    /// The former id; [`ReplicationId::NONE`] if there is none.
    #[must_use]
    pub fn former_id(&self) -> ReplicationId {
        self.former.map_or(ReplicationId::NONE, |(id, _)| id)
    }

    /// The offset, as replicas name it, from which the former id is not valid: the number of the first byte that the
    /// former history does not have. -1 if there is none.
    #[must_use]
    pub fn second_offset(&self) -> i64 {
        self.former.map_or(-1, |(_, offset)| offset as i64 + 1)
    }

    /// Whether data with this id at an offset were those of this server.
    #[must_use]
    pub fn contains(&self, id: ReplicationId, offset: u64) -> bool {
        id == self.id || self.former.is_some_and(|(former, end)| id == former && offset <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_id_is_valid_up_to_its_offset() {
        let id = |digit: u8| ReplicationId::from_random([digit; 20]);
        let mut history = History::new(id(1));
        assert!(history.contains(id(1), 1 << 40) && !history.contains(id(2), 0));
        assert_eq!((history.former_id(), history.second_offset()), (ReplicationId::NONE, -1));
        history.shift(id(2), 100);
        assert!(
            history.contains(id(2), 101) && history.contains(id(1), 100) && !history.contains(id(1), 101)
        );
        assert_eq!((history.former_id(), history.second_offset()), (id(1), 101));
        history.shift(id(3), 200);
        assert!(!history.contains(id(1), 50), "only one former id is kept");
    }
}
