//! `KEEPREF | DELREF | ACKED`: the handling of references in groups when an entry is deleted.

use collections::stream::{Stream, StreamId};

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

    /// Deletes the references of groups to a deleted entry, if requested.
    pub fn delete_references(self, stream: &mut Stream, id: StreamId) {
        if self == Self::Delete {
            for group in stream.groups_mut() {
                group.acknowledge(id);
            }
        }
    }
}
