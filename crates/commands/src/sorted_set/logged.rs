//! Effects that name the members, for requests whose repetition could have another result.

use collections::SortedSet;
use keyspace::Key;

use crate::context::{Ctx, EffectArg};

/// Members named by one logged request.
const LOGGED_MEMBER_COUNT_MAX: usize = 512;

/// Records a result that replaces a key's value. It must not be empty.
pub(crate) fn log_stored(ctx: &mut Ctx<'_>, destination: Key<'_>, stored: &SortedSet) {
    if !ctx.records_effects() {
        return;
    }
    ctx.record_deletion(destination);
    let members: Vec<(&[u8], String)> =
        stored.iter().map(|(member, score)| (member, score.to_string())).collect();
    for members in members.chunks(LOGGED_MEMBER_COUNT_MAX) {
        let command = [EffectArg::from("ZADD"), destination.bytes.into()];
        let pairs = members.iter().flat_map(|(member, score)| [score.as_str().into(), (*member).into()]);
        ctx.record_effect(&command.into_iter().chain(pairs).collect::<Vec<_>>());
    }
}

/// Records the removal of members.
pub(super) fn log_removed(ctx: &mut Ctx<'_>, key: Key<'_>, members: &[Vec<u8>]) {
    for members in members.chunks(LOGGED_MEMBER_COUNT_MAX) {
        let command = [EffectArg::from("ZREM"), key.bytes.into()];
        let members = members.iter().map(|member| EffectArg::from(&member[..]));
        ctx.record_effect(&command.into_iter().chain(members).collect::<Vec<_>>());
    }
}

/// Whether the members have different scores. What a range of names has then depends on the encoding, which may be another one
/// where the request is repeated.
pub(super) fn has_several_scores(set: &SortedSet) -> bool {
    let score = |rank| set.range(rank, 1).next().map(|(_, score)| score);
    score(0) != score(set.len().saturating_sub(1))
}
