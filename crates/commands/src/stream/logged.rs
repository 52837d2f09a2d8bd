//! The logged effects of stream commands whose result depends on the time, on options or on node boundaries: requests
//! that repeat the changes exactly.

use collections::stream::{Stream, StreamId};
use keyspace::Key;

use crate::context::{Ctx, EffectArg};

/// IDs named by one logged request.
const LOGGED_ID_COUNT_MAX: usize = 1024;

/// Records that a consumer was created.
pub(super) fn log_new_consumer(ctx: &mut Ctx<'_>, key: Key<'_>, group: &[u8], consumer: &[u8]) {
    ctx.record_effect(&[
        "XGROUP".into(),
        "CREATECONSUMER".into(),
        key.bytes.into(),
        group.into(),
        consumer.into(),
    ]);
}

/// Records deliveries of equal time and count. `last_id` is the last ID delivered to the group.
pub(super) fn log_deliveries(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    (group, consumer): (&[u8], &[u8]),
    ids: &[StreamId],
    (at, count): (i64, u64),
    last_id: StreamId,
) {
    if !ctx.records_effects() {
        return;
    }
    let last_id = last_id.to_string();
    for ids in ids.chunks(LOGGED_ID_COUNT_MAX) {
        let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
        let head = [EffectArg::from("XCLAIM"), key.bytes.into(), group.into(), consumer.into(), 0.into()];
        let tail = [
            EffectArg::from("TIME"),
            at.into(),
            "RETRYCOUNT".into(),
            (count as i64).into(),
            "FORCE".into(),
            "JUSTID".into(),
            "LASTID".into(),
            last_id.as_str().into(),
        ];
        let ids = ids.iter().map(|id| EffectArg::from(id.as_str()));
        ctx.record_effect(&head.into_iter().chain(ids).chain(tail).collect::<Vec<_>>());
    }
}

/// Records the last ID delivered to a group, and the number of entries that it has read.
pub(super) fn log_position(ctx: &mut Ctx<'_>, key: Key<'_>, group: &[u8]) {
    if !ctx.records_effects() {
        return;
    }
    let Some(found) = ctx.peek::<Stream>(key).and_then(|stream| stream.group(group)) else { return };
    let last_id = found.last_id.to_string();
    let read = found.entries_read.map_or(-1, |count| count as i64);
    ctx.record_effect(&[
        "XGROUP".into(),
        "SETID".into(),
        key.bytes.into(),
        group.into(),
        last_id.as_str().into(),
        "ENTRIESREAD".into(),
        read.into(),
    ]);
}

/// Records that pending entries were acknowledged.
pub(super) fn log_acknowledged(ctx: &mut Ctx<'_>, key: Key<'_>, group: &[u8], ids: &[StreamId]) {
    if ctx.records_effects() {
        let head = [EffectArg::from("XACK"), key.bytes.into(), group.into()];
        log_with_ids(ctx, &head, ids);
    }
}

/// Records that entries were deleted.
pub(super) fn log_deleted(ctx: &mut Ctx<'_>, key: Key<'_>, ids: &[StreamId]) {
    if ctx.records_effects() {
        log_with_ids(ctx, &["XDEL".into(), key.bytes.into()], ids);
    }
}

/// Records a request with these IDs, or several, as each has at most [`LOGGED_ID_COUNT_MAX`].
fn log_with_ids(ctx: &mut Ctx<'_>, head: &[EffectArg<'_>], ids: &[StreamId]) {
    for ids in ids.chunks(LOGGED_ID_COUNT_MAX) {
        let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
        let ids = ids.iter().map(|id| EffectArg::from(id.as_str()));
        ctx.record_effect(&head.iter().copied().chain(ids).collect::<Vec<_>>());
    }
}
