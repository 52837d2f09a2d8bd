//! IDs and entries of streams in replies.

use collections::stream::{StreamEntry, StreamId};
use wire::number::{I64_TEXT_SIZE_MAX, format_u64};
use wire::reply::ReplyBuffer;

use crate::reply_buffers::SharedReplyBuffers;

/// Writes an ID as a bulk string.
pub fn write_id(out: &mut ReplyBuffer<'_>, id: StreamId) {
    let (mut ms, mut seq) = ([0; I64_TEXT_SIZE_MAX], [0; I64_TEXT_SIZE_MAX]);
    out.bulk_parts(&[format_u64(id.ms, &mut ms), b"-", format_u64(id.seq, &mut seq)]);
}

/// Writes an entry: its ID, and one array of fields and values.
pub fn write_entry(out: &mut ReplyBuffer<'_>, entry: &StreamEntry<'_>) {
    out.array(2);
    write_id(out, entry.id);
    out.array(2 * entry.pair_count());
    for (name, value) in entry.pairs() {
        out.bulk(name);
        out.bulk(value);
    }
}

/// Writes an array of at most `count` entries. Chunks may be split off it, so it must be the last array of the reply
/// whose length is not known in advance.
pub fn write_entries<'a>(
    out: &mut ReplyBuffer<'_>,
    entries: impl Iterator<Item = StreamEntry<'a>>,
    count: Option<usize>,
    shared_replies: &SharedReplyBuffers,
) {
    let array = out.deferred_array();
    let (mut len, chunks) = (0, shared_replies.chunks(out));
    for entry in entries.take(count.unwrap_or(usize::MAX)) {
        write_entry(out, &entry);
        chunks.cut(out);
        len += 1;
    }
    chunks.set_len(out, array, len);
}
