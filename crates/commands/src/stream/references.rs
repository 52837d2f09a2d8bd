//! `KEEPREF | DELREF | ACKED`: what is asked of groups before an entry is deleted, and told to them.

use collections::stream::{Stream, StreamId};

use crate::doc::Arg;
use crate::word::Word;

/// What becomes of a group's knowledge of an entry that is to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// It stays.
    #[default]
    Keep,
    /// It goes as well.
    Delete,
    /// The entry stays as long as some group has not acknowledged it.
    Acknowledged,
}

/// The documentation of these words.
pub const ARG: Arg = Arg::one_of(
    "condition",
    &[Arg::word("keepref", "KEEPREF"), Arg::word("delref", "DELREF"), Arg::word("acked", "ACKED")],
)
.optional();

impl References {
    /// Which one a word of a request names.
    pub fn parse(word: &[u8]) -> Option<Self> {
        [(&b"keepref"[..], Self::Keep), (b"delref", Self::Delete), (b"acked", Self::Acknowledged)]
            .into_iter()
            .find(|(name, _)| word.eq_token(name))
            .map(|(_, references)| references)
    }

    /// Whether the entry may be deleted now.
    pub fn permit(self, stream: &Stream, id: StreamId) -> bool {
        self != Self::Acknowledged || !stream.is_wanted(id)
    }

    /// Has groups forget an entry that is deleted, where that is asked for.
    pub fn forget(self, stream: &mut Stream, id: StreamId) {
        if self == Self::Delete {
            for group in stream.groups_mut() {
                group.acknowledge(id);
            }
        }
    }
}
