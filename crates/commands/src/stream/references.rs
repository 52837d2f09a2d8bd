//! `KEEPREF | DELREF | ACKED`: the handling of references in groups when an entry is deleted.

use std::collections::BTreeMap;

use collections::stream::{Stream, StreamId};
use keyspace::Key;

use super::logged::log_acknowledged;
use crate::context::Ctx;
use crate::doc::Arg;
use crate::word::Word;

/// What happens to the references of groups to a deleted entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They are kept.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
    /// The entry is kept until all groups have acknowledged it.
    Acknowledged,
}

/// Documentation of these options.
pub const ARG: Arg = Arg::one_of(
    "condition",
    &[Arg::word("keepref", "KEEPREF"), Arg::word("delref", "DELREF"), Arg::word("acked", "ACKED")],
)
.optional();

impl References {
    /// Parses an option.
    pub fn parse(word: &[u8]) -> Option<Self> {
        [(&b"keepref"[..], Self::Keep), (b"delref", Self::Delete), (b"acked", Self::Acknowledged)]
            .into_iter()
            .find(|(name, _)| word.eq_token(name))
            .map(|(_, references)| references)
    }

    /// Whether the entry may be deleted.
    pub fn permit(self, stream: &Stream, id: StreamId) -> bool {
        self != Self::Acknowledged || !stream.is_wanted(id)
    }

    /// Deletes the references of groups to an entry, if requested.
    pub fn delete_references(self, stream: &mut Stream, id: StreamId, deleted: &mut DeletedReferences) {
        if self == Self::Delete {
            stream.acknowledge_in_all_groups(id, |group| deleted.note(group, id));
        }
    }
}

/// The references that a command has deleted, by group.
#[derive(Default)]
pub struct DeletedReferences {
    groups: BTreeMap<Box<[u8]>, Vec<StreamId>>,
}

impl DeletedReferences {
    /// Records a deleted reference.
    pub fn note(&mut self, group: &[u8], id: StreamId) {
        match self.groups.get_mut(group) {
            Some(ids) => ids.push(id),
            None => {
                self.groups.insert(group.into(), vec![id]);
            }
        }
    }

    /// Number of deleted references.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|ids| ids.len() as u64).sum()
    }

    /// Records the deletions as acknowledgements, which older servers know.
    pub fn record_effects(&self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        for (group, ids) in &self.groups {
            log_acknowledged(ctx, key, group, ids);
        }
    }
}
