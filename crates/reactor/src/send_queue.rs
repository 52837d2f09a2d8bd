//! The unsent data of one connection.
//!
//! Invariants, asserted by `check`:
//! 1. `pending_size` is the number of bytes queued and not sent.
//! 2. `sent_size` bytes of the first buffer are sent, fewer than its size; 0 if there is no buffer.
//! 3. No buffer is empty.
//! 4. `message_size` is the number of bytes in messages that are not completely sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Deref;
use std::sync::Arc;

/// Maximum number of buffers per send call.
pub(crate) const SLICE_COUNT_MAX: usize = 64;

/// Maximum number of bytes per send call. The kernel copies accepted bytes at once, while other connections
/// wait.
pub(crate) const OFFER_SIZE_MAX: usize = 256 * 1024;

/// Maximum pending size of a connection whose completed sends do not end a wait; see
/// [`Event::Sent`](crate::Event::Sent).
pub(crate) const QUIET_SIZE_MAX: usize = 16 * 1024;

/// A buffer to send.
pub(crate) enum Buffer {
    Own(Vec<u8>),
    /// Possibly shared with other owners, and immutable.
    Shared(Arc<Vec<u8>>),
    /// As `Shared`, and sent to many connections.
    Message(Arc<Vec<u8>>),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) | Self::Message(bytes) => bytes,
        }
    }
}

impl Buffer {
    /// Returns the buffer, cleared, for reuse; without capacity if it was shared.
    pub(crate) fn emptied(self) -> Vec<u8> {
        match self {
            Self::Own(mut bytes) => {
                bytes.clear();
                bytes
            }
            Self::Shared(_) | Self::Message(_) => Vec::new(),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) | Self::Message(bytes) => Arc::unwrap_or_clone(bytes),
        }
    }
}

/// Buffers in send order; the first may be partly sent.
#[derive(Default)]
pub(crate) struct SendQueue {
    buffers: VecDeque<Buffer>,
    sent_size: usize,
    pending_size: usize,
    message_size: usize,
}

impl SendQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    pub(crate) fn buffer_count(&self) -> usize {
        self.buffers.len()
    }

    /// Bytes queued and not sent.
    pub(crate) fn pending_size(&self) -> usize {
        self.pending_size
    }

    /// Bytes queued, plus the sent bytes of the first buffer, which is held until all of it is sent. Sent bytes
    /// of a shared buffer are not counted.
    pub(crate) fn held_size(&self) -> usize {
        let is_own = matches!(self.buffers.front(), Some(Buffer::Own(_)));
        self.pending_size + if is_own { self.sent_size } else { 0 }
    }

    /// Bytes of messages that are not completely sent, at most [`Self::held_size`].
    pub(crate) fn message_size(&self) -> usize {
        self.message_size.min(self.held_size())
    }

    /// Whether one call can send everything, and its completion need not end a wait.
    pub(crate) fn is_small(&self) -> bool {
        self.pending_size <= QUIET_SIZE_MAX && self.buffers.len() <= SLICE_COUNT_MAX
    }

    /// Queues a buffer, which must not be empty.
    pub(crate) fn push(&mut self, buffer: Buffer) {
        debug_assert!(!buffer.is_empty(), "invariant 3");
        self.pending_size += buffer.len();
        if let Buffer::Message(bytes) = &buffer {
            self.message_size += bytes.len();
        }
        self.buffers.push_back(buffer);
    }

    /// The part of the first buffer to offer next; empty if there is no buffer.
    pub(crate) fn first(&self) -> &[u8] {
        let rest = self.buffers.front().map_or(&[][..], |buffer| &buffer[self.sent_size..]);
        &rest[..rest.len().min(OFFER_SIZE_MAX)]
    }

    /// Writes the bytes to offer next into `slices`. Returns the number of slices and of bytes.
    pub(crate) fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
        let mut skip = self.sent_size;
        let (mut count, mut size) = (0, 0);
        for (slice, buffer) in slices.iter_mut().zip(&self.buffers) {
            let rest = &buffer[skip..];
            let part = &rest[..rest.len().min(OFFER_SIZE_MAX - size)];
            if part.is_empty() {
                break;
            }
            *slice = IoSlice::new(part);
            skip = 0;
            count += 1;
            size += part.len();
        }
        (count, size)
    }

    /// Records that `size` more bytes are sent, and passes each completely sent buffer to `done`, cleared.
    pub(crate) fn advance(&mut self, size: usize, mut done: impl FnMut(Vec<u8>)) {
        debug_assert!(size <= self.pending_size);
        self.pending_size -= size;
        self.sent_size += size;
        while let Some(first) = self.buffers.front() {
            if self.sent_size < first.len() {
                break;
            }
            self.sent_size -= first.len();
            if let Some(buffer) = self.buffers.pop_front() {
                if let Buffer::Message(bytes) = &buffer {
                    self.message_size -= bytes.len();
                }
                done(buffer.emptied());
            }
        }
    }

    /// Empties the queue. Returns the unsent data in order.
    pub(crate) fn take_unsent(&mut self) -> Vec<Vec<u8>> {
        let buffers = std::mem::take(&mut self.buffers);
        let mut unsent: Vec<Vec<u8>> = buffers.into_iter().map(Buffer::into_bytes).collect();
        if let Some(first) = unsent.first_mut() {
            first.drain(..self.sent_size);
        }
        self.sent_size = 0;
        self.pending_size = 0;
        self.message_size = 0;
        unsent
    }

    #[cfg(test)]
    fn check(&self) {
        let queued: usize = self.buffers.iter().map(|buffer| buffer.len()).sum();
        assert_eq!(self.pending_size, queued - self.sent_size, "invariant 1");
        assert!(self.sent_size < self.buffers.front().map_or(1, |buffer| buffer.len()), "invariant 2");
        assert!(self.buffers.iter().all(|buffer| !buffer.is_empty()), "invariant 3");
        let messages = self.buffers.iter().filter(|buffer| matches!(buffer, Buffer::Message(_)));
        assert_eq!(self.message_size, messages.map(|buffer| buffer.len()).sum(), "invariant 4");
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::{Buffer, OFFER_SIZE_MAX, SLICE_COUNT_MAX, SendQueue};

    fn queue_of(parts: &[&str]) -> SendQueue {
        let mut queue = SendQueue::default();
        for (index, part) in parts.iter().enumerate() {
            let bytes = part.as_bytes().to_vec();
            queue.push(match index % 4 {
                0 | 2 => Buffer::Own(bytes),
                1 => Buffer::Shared(bytes.into()),
                _ => Buffer::Message(bytes.into()),
            });
        }
        queue
    }

    #[test]
    fn every_split_gives_the_same_bytes() {
        let parts = ["a", "bcd", "ef", "ghijk"];
        let whole = parts.concat();
        for step in 1..=whole.len() {
            let mut queue = queue_of(&parts);
            let mut sent = Vec::new();
            let mut done_count = 0;
            while !queue.is_empty() {
                let mut slices = [IoSlice::new(&[]); 3];
                let (count, offered_size) = queue.fill(&mut slices);
                let offered: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                assert_eq!(offered.len(), offered_size);
                assert!(offered.starts_with(queue.first()));
                let size = step.min(offered.len());
                sent.extend_from_slice(&offered[..size]);
                queue.advance(size, |buffer| {
                    assert!(buffer.is_empty());
                    assert_eq!(buffer.capacity() > 0, done_count % 2 == 0, "a shared buffer is released");
                    done_count += 1;
                });
                queue.check();
                assert_eq!(queue.pending_size(), whole.len() - sent.len());
            }
            assert_eq!(sent, whole.as_bytes());
            assert_eq!(done_count, parts.len());
        }
    }

    #[test]
    fn large_buffers_are_sent_in_pieces() {
        let mut queue = SendQueue::default();
        queue.push(Buffer::Own(vec![1; 10]));
        queue.push(Buffer::Shared(vec![2; 2 * OFFER_SIZE_MAX].into()));
        queue.push(Buffer::Own(vec![3; 10]));
        let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
        assert_eq!(queue.fill(&mut slices), (2, OFFER_SIZE_MAX));
        queue.advance(OFFER_SIZE_MAX, |_| {});
        assert_eq!(queue.first().len(), OFFER_SIZE_MAX);
        queue.advance(OFFER_SIZE_MAX, |_| {});
        let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
        assert_eq!(queue.fill(&mut slices), (2, 20));
        queue.check();
    }

    #[test]
    fn unsent_starts_where_sending_stopped() {
        let mut queue = queue_of(&["abc", "def"]);
        queue.advance(2, |_| unreachable!("no buffer is completely sent"));
        assert_eq!(queue.held_size(), 6);
        assert_eq!(queue.take_unsent(), [b"c".to_vec(), b"def".to_vec()]);
        queue.check();
        assert!(queue.is_empty());
    }
}
