//! Input of a connection that is not executed yet.
//!
//! Owns a buffer with an executed part at the front. The rest is moved only if it is no longer than that part,
//! or when the buffer grows. So input that is executed in small steps is moved at most once in total, and not
//! in each step.
//!
//! Invariant: `done` is at most the buffer's length; an empty one begins at 0.

use std::ops::Deref;

/// Waiting input.
#[derive(Default)]
pub struct QueryBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that are executed.
    done: usize,
    /// Bytes moved so far.
    #[cfg(test)]
    moved_size: usize,
}

impl QueryBuffer {
    /// Bytes of memory that it uses.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds input. Call [`Self::make_room`] before, unless doubling is right.
    pub fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Removes executed bytes at the front.
    pub fn consume(&mut self, size: usize) {
        self.done += size;
        assert!(self.done <= self.bytes.len(), "only buffered bytes are executed");
        if self.len() <= self.done {
            self.compact();
        }
    }

    /// Makes room for `data_size` more bytes. If the buffer has to grow, it grows to `size` bytes at least.
    pub fn make_room(&mut self, data_size: usize, size: usize) {
        if self.bytes.len() + data_size > self.bytes.capacity() {
            let needed = self.len() + data_size;
            // Less than half of the buffer is executed. If only that part became free, the next input would
            // move all again.
            let needed = if self.done > 0 { needed + needed / 2 } else { needed };
            self.replace(size.max(needed));
        }
    }

    /// Shrinks the buffer to `size` bytes, or to its contents if they are longer.
    pub fn shrink_to(&mut self, size: usize) {
        let size = size.max(self.len());
        if size == 0 {
            *self = Self::default();
        } else if size < self.bytes.capacity() {
            self.replace(size);
        }
    }

    /// Moves the rest to the front of the buffer.
    fn compact(&mut self) {
        self.note_move();
        self.bytes.drain(..self.done);
        self.done = 0;
    }

    /// Moves the rest to a buffer of this size.
    fn replace(&mut self, size: usize) {
        self.note_move();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(self);
        (self.bytes, self.done) = (bytes, 0);
    }

    fn note_move(&mut self) {
        #[cfg(test)]
        {
            self.moved_size += self.len();
        }
    }
}

impl Deref for QueryBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.done..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes moved when `count` requests are executed one by one, while as many arrive again.
    fn moved_size(count: usize) -> usize {
        let request = b"*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n";
        let mut query = QueryBuffer::default();
        query.push(&request.repeat(count));
        for number in 0..2 * count {
            assert_eq!(query.len(), (count - number / 2 - number % 2) * request.len());
            assert!(query.starts_with(request));
            query.consume(request.len());
            if number % 2 == 1 {
                query.make_room(request.len(), 0);
                query.push(request);
            }
            if number % 2 == 0 && query.is_empty() {
                break;
            }
        }
        query.moved_size
    }

    #[test]
    fn moved_bytes_grow_linearly_with_executed_bytes() {
        let (few, many) = (moved_size(1000), moved_size(4000));
        assert!(few > 0 && many <= 5 * few, "{few} {many}");
    }

    #[test]
    fn no_bytes_are_lost_or_duplicated() {
        let mut query = QueryBuffer::default();
        query.push(b"0123456789");
        query.consume(3);
        assert_eq!(&*query, b"3456789");
        query.make_room(100, 0);
        query.push(b"abc");
        assert_eq!(&*query, b"3456789abc");
        query.consume(9);
        assert_eq!(&*query, b"c");
        query.shrink_to(0);
        assert_eq!((&*query, query.capacity()), (&b"c"[..], 1));
        query.consume(1);
        query.shrink_to(0);
        assert_eq!((query.len(), query.capacity()), (0, 0));
    }
}
