//! Long strings that replies share with the keyspace instead of copying them, and chunks split off long
//! replies. Both are sent from their own buffers. So a long reply is not copied into ever larger output buffers, and
//! each part is freed as soon as it is sent.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wire::reply::{Deferred, ReplyBuffer};

/// Strings up to this size, in bytes, are always copied.
pub const COPIED_SIZE_MAX: usize = 1 << 10;

/// Size of a chunk in bytes: as much as a connection passes to the kernel at a time.
const CHUNK_SIZE: usize = 256 << 10;

/// A part of a reply with its own buffer: a shared string or a chunk, at its place in the reply.
pub struct ReplyPart {
    /// Bytes of output before it.
    pub at: usize,
    /// The string, as it was when the command ran.
    pub text: Arc<Vec<u8>>,
    /// What it is.
    pub kind: PartKind,
}

/// The kind of a part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// A value of the keyspace.
    Value,
    /// A chunk of the reply, which nothing else refers to.
    Chunk,
    /// A published message, which other subscribers get, too.
    Message,
}

/// Shared strings and chunks between the bytes of an output, in order.
#[derive(Default)]
pub struct ReplyParts(Vec<ReplyPart>);

impl ReplyParts {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total bytes of the buffers after a position in the output.
    #[must_use]
    pub fn size_since(&self, mark: usize) -> usize {
        self.0.iter().filter(|part| part.at > mark).map(|part| part.text.len()).sum()
    }

    /// Returns the total bytes of the chunks, which no other owner shares.
    #[must_use]
    pub fn chunks_size(&self) -> usize {
        self.0.iter().filter(|part| part.kind == PartKind::Chunk).map(|part| part.text.len()).sum()
    }

    /// Removes the buffers after a position at which the output is truncated.
    pub fn truncate_to(&mut self, mark: usize) {
        self.0.retain(|part| part.at <= mark);
    }

    /// Adds a published message at the end of an output of this size.
    pub fn push_message(&mut self, at: usize, text: Arc<Vec<u8>>) {
        self.0.push(ReplyPart { at, text, kind: PartKind::Message });
    }

    /// Moves all of `others` to the end.
    pub fn append(&mut self, others: &mut Self) {
        self.0.append(&mut others.0);
    }

    /// Iterates over all parts, the last one first.
    pub fn into_iter_from_end(self) -> impl Iterator<Item = ReplyPart> {
        self.0.into_iter().rev()
    }
}

/// The shared strings and chunks of a command's reply.
#[derive(Default)]
pub struct SharedReplyBuffers {
    is_accepted: Cell<bool>,
    parts: RefCell<ReplyParts>,
}

impl SharedReplyBuffers {
    /// Sets whether sharing is accepted; initially everything is copied. Returns the previous setting.
    pub fn accept(&self, is_accepted: bool) -> bool {
        self.is_accepted.replace(is_accepted)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.is_accepted.get()
    }

    pub(crate) fn share(&self, at: usize, text: Arc<Vec<u8>>) {
        self.parts.borrow_mut().0.push(ReplyPart { at, text, kind: PartKind::Value });
    }

    /// Returns the chunk writer for a reply that begins at the current end of `out`.
    #[must_use]
    pub fn chunks(&self, out: &ReplyBuffer<'_>) -> ReplyChunks<'_> {
        ReplyChunks {
            shared_replies: self,
            start: if self.is_accepted() { out.mark().position() } else { usize::MAX },
        }
    }

    /// Returns the shared strings and chunks not taken yet.
    #[inline]
    #[must_use]
    pub fn parts(&mut self) -> &mut ReplyParts {
        self.parts.get_mut()
    }
}

/// Splits chunks off one long reply. Output written before its creation is not split off. It must not be empty:
/// otherwise the first chunk would count as a part of the previous reply.
pub struct ReplyChunks<'a> {
    shared_replies: &'a SharedReplyBuffers,
    start: usize,
}

impl ReplyChunks<'_> {
    /// Called between two elements: splits off a chunk if enough is written.
    #[inline]
    pub fn cut(&self, out: &mut ReplyBuffer<'_>) {
        if out.mark().position() >= self.start.saturating_add(CHUNK_SIZE) {
            self.split_chunk(out);
        }
    }

    #[cold]
    fn split_chunk(&self, out: &mut ReplyBuffer<'_>) {
        let text = Arc::new(out.split_off(self.start));
        self.shared_replies.parts.borrow_mut().0.push(ReplyPart {
            at: self.start,
            text,
            kind: PartKind::Chunk,
        });
    }

    /// Called at the end: sets the length of an aggregate whose header was written last before the
    /// chunks.
    pub fn set_len(self, out: &mut ReplyBuffer<'_>, deferred: Deferred, len: usize) {
        let moved = out.set_len(deferred, len);
        for part in self.shared_replies.parts.borrow_mut().0.iter_mut().filter(|part| part.at >= self.start) {
            part.at += moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::reply::Protocol;

    /// Returns a reply of `count` numbers with its parts joined, and the size of the part that was not split
    /// off.
    fn reply(count: i64, is_accepted: bool) -> (Vec<u8>, usize) {
        let shared_replies = SharedReplyBuffers::default();
        shared_replies.accept(is_accepted);
        let mut bytes = Vec::new();
        let mut out = ReplyBuffer::new(&mut bytes, Protocol::Resp2);
        let array = out.deferred_array();
        let chunks = shared_replies.chunks(&out);
        for number in 0..count {
            out.bulk_int(number);
            chunks.cut(&mut out);
        }
        chunks.set_len(&mut out, array, count as usize);
        let (size, parts) = (bytes.len(), shared_replies.parts.into_inner());
        assert_eq!(parts.chunks_size(), parts.size_since(0));
        for part in parts.into_iter_from_end() {
            bytes.splice(part.at..part.at, part.text.iter().copied());
        }
        (bytes, size)
    }

    #[test]
    fn chunks_and_remainder_form_the_whole_reply() {
        for count in [0, 9, 10, 1000, 100_000] {
            let (whole, size) = reply(count, false);
            assert_eq!(whole.len(), size);
            let (joined, rest) = reply(count, true);
            assert!(joined == whole, "{count}");
            assert!(rest < CHUNK_SIZE + 64, "{rest} bytes are left");
        }
    }
}
