//! Long strings of replies, which are lent to the connection instead of being copied into its output, and portions of
//! long replies, which are put aside: so the output of a connection does not grow by being copied into ever larger
//! buffers, and what is sent of it is freed at once.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wire::reply::{Deferred, ReplyBuffer};

/// No string up to this size is lent.
pub const COPIED_SIZE_MAX: usize = 1 << 10;

/// Bytes of a reply that are put aside together: as many as a connection offers to the kernel at a time.
const PORTION_SIZE: usize = 256 << 10;

/// A long string, or a portion, that belongs into a reply.
pub struct Lent {
    /// Bytes of output before it.
    pub at: usize,
    /// The string, as it was when it was asked for.
    pub text: Arc<Vec<u8>>,
    /// It is a portion of the reply, not a value.
    is_portion: bool,
}

/// Long strings between the bytes of an output, in order.
#[derive(Default)]
pub struct LentTexts(Vec<Lent>);

impl LentTexts {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of those behind a place in the output.
    #[must_use]
    pub fn size_since(&self, mark: usize) -> usize {
        self.0.iter().filter(|lent| lent.at > mark).map(|lent| lent.text.len()).sum()
    }

    /// Bytes of those that are portions of replies: nobody else has them.
    #[must_use]
    pub fn portions_size(&self) -> usize {
        self.0.iter().filter(|lent| lent.is_portion).map(|lent| lent.text.len()).sum()
    }

    /// Forgets those behind a place in the output, which is cut off there.
    pub fn forget_since(&mut self, mark: usize) {
        self.0.retain(|lent| lent.at <= mark);
    }

    /// Moves all of `others` to the end.
    pub fn append(&mut self, others: &mut Self) {
        self.0.append(&mut others.0);
    }

    /// All of them, the last one first.
    pub fn into_iter_from_end(self) -> impl Iterator<Item = Lent> {
        self.0.into_iter().rev()
    }
}

/// What a command lends to whom it answers.
#[derive(Default)]
pub struct SharedReplyBuffers {
    is_accepted: Cell<bool>,
    lent: RefCell<LentTexts>,
}

impl SharedReplyBuffers {
    /// Whether what is lent is accepted; else everything is copied, as at the beginning. Returns what held before.
    pub fn accept(&self, is_accepted: bool) -> bool {
        self.is_accepted.replace(is_accepted)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.is_accepted.get()
    }

    pub(crate) fn lend(&self, at: usize, text: Arc<Vec<u8>>) {
        self.lent.borrow_mut().0.push(Lent { at, text, is_portion: false });
    }

    /// What puts portions of a reply aside that is as long as `out` shows, and becomes longer.
    #[must_use]
    pub fn portions(&self, out: &ReplyBuffer<'_>) -> ReplyChunks<'_> {
        ReplyChunks {
            lending: self,
            start: if self.is_accepted() { out.mark().position() } else { usize::MAX },
        }
    }

    /// What was lent and not taken.
    #[inline]
    #[must_use]
    pub fn lent(&mut self) -> &mut LentTexts {
        self.lent.get_mut()
    }
}

/// Puts portions of one long reply aside. What was written before it was made stays: it is never empty, or what is put
/// aside would be taken for part of the reply before.
pub struct ReplyChunks<'a> {
    lending: &'a SharedReplyBuffers,
    start: usize,
}

impl ReplyChunks<'_> {
    /// Between two elements: puts what was written aside, if it is enough.
    #[inline]
    pub fn cut(&self, out: &mut ReplyBuffer<'_>) {
        if out.mark().position() >= self.start.saturating_add(PORTION_SIZE) {
            self.put_aside(out);
        }
    }

    #[cold]
    fn put_aside(&self, out: &mut ReplyBuffer<'_>) {
        let text = Arc::new(out.split_off(self.start));
        self.lending.lent.borrow_mut().0.push(Lent { at: self.start, text, is_portion: true });
    }

    /// At the end: tells the length of an aggregate whose header was the last that was written before.
    pub fn set_len(self, out: &mut ReplyBuffer<'_>, deferred: Deferred, len: usize) {
        let moved = out.set_len(deferred, len);
        for lent in self.lending.lent.borrow_mut().0.iter_mut().filter(|lent| lent.at >= self.start) {
            lent.at += moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::reply::Protocol;

    /// A reply of so many numbers with its parts put together, and the size of what was not put aside.
    fn reply(count: i64, is_accepted: bool) -> (Vec<u8>, usize) {
        let lending = SharedReplyBuffers::default();
        lending.accept(is_accepted);
        let mut bytes = Vec::new();
        let mut out = ReplyBuffer::new(&mut bytes, Protocol::Resp2);
        let array = out.deferred_array();
        let portions = lending.portions(&out);
        for number in 0..count {
            out.bulk_int(number);
            portions.cut(&mut out);
        }
        portions.set_len(&mut out, array, count as usize);
        let (size, lent) = (bytes.len(), lending.lent.into_inner());
        assert_eq!(lent.portions_size(), lent.size_since(0));
        for lent in lent.into_iter_from_end() {
            bytes.splice(lent.at..lent.at, lent.text.iter().copied());
        }
        (bytes, size)
    }

    #[test]
    fn portions_and_the_rest_are_the_whole_reply() {
        for count in [0, 9, 10, 1000, 100_000] {
            let (whole, size) = reply(count, false);
            assert_eq!(whole.len(), size);
            let (joined, rest) = reply(count, true);
            assert!(joined == whole, "{count}");
            assert!(rest < PORTION_SIZE + 64, "{rest} bytes are left");
        }
    }
}
