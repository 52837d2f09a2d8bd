//! Writing of elements: members alone, or with their scores, flat in RESP2 and as pairs in RESP3.

use wire::reply::ReplyBuffer;

use crate::reply_buffers::SharedReplyBuffers;

/// Writes elements as an array, which may be long.
pub(super) fn write_elements<'a>(
    out: &mut ReplyBuffer<'_>,
    elements: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
    with_scores: bool,
    shared_replies: &SharedReplyBuffers,
) {
    write_header(out, elements.len(), with_scores);
    let chunks = shared_replies.chunks(out);
    for (member, score) in elements {
        write_element(out, member, score, with_scores);
        chunks.cut(out);
    }
}

/// Writes the header of an array of `count` elements.
pub(super) fn write_header(out: &mut ReplyBuffer<'_>, count: usize, with_scores: bool) {
    out.array(if with_scores && !out.is_resp3() { 2 * count } else { count });
}

/// Writes one element of such an array.
#[inline]
pub(super) fn write_element(out: &mut ReplyBuffer<'_>, member: &[u8], score: f64, with_scores: bool) {
    if !with_scores {
        out.bulk(member);
        return;
    }
    if out.is_resp3() {
        out.array(2);
    }
    out.bulk(member);
    out.double(score);
}
