//! Input of a connection that is not executed yet.
//!
//! Owns a buffer with an executed part at the front. The rest is moved only if it is no longer than that part,
//! or when the buffer grows. So input that is executed in small steps is moved at most once in total, and not
//! in each step. A large argument of the first request is received in a buffer of its own (`large_argument.rs`), and the
//! input continues with its line end.
//!
//! Invariants
//! 1. `done` is at most the buffer's length; an empty one begins at 0.
//! 2. While a large argument arrives, the buffer ends with its length line.

use std::ops::{Deref, Range};

use wire::request::Parser;

use crate::connection::large_argument::{LARGE_ARGUMENT_SIZE_MIN, LargeArgument};

/// Waiting input.
#[derive(Default)]
pub struct QueryBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that are executed.
    done: usize,
    /// The large argument of the first request.
    argument: Option<Box<LargeArgument>>,
    /// Bytes moved so far.
    #[cfg(test)]
    moved_size: usize,
}

const LINE_END_SIZE: usize = b"\r\n".len();

impl QueryBuffer {
    /// Bytes of memory that it uses, without those of the large argument.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The large argument of the first request.
    #[must_use]
    pub fn argument(&self) -> Option<&LargeArgument> {
        self.argument.as_deref()
    }

    /// Moves the bytes of the announced argument (with its line end) to a buffer of its own, if it is large and only begins to
    /// arrive.
    pub fn begin_argument(&mut self, announced: Range<usize>) {
        let size = announced.len().saturating_sub(LINE_END_SIZE);
        let is_here = (announced.start..announced.start + size).contains(&self.len());
        if size < LARGE_ARGUMENT_SIZE_MIN || !is_here || self.argument.is_some() {
            return;
        }
        let at = self.done + announced.start;
        self.argument = Some(Box::new(LargeArgument::new(&self.bytes[at..], size)));
        self.bytes.truncate(at);
        // Nothing is added before the argument is complete: the memory of both is that of the announced request.
        self.replace(self.len());
    }

    /// Adds input to the large argument that is arriving, if there is one, and passes the argument to the parser when it is
    /// complete. Returns the rest of the input.
    pub fn fill_argument<'a>(&mut self, data: &'a [u8], parser: &mut Parser) -> &'a [u8] {
        match &mut self.argument {
            Some(argument) => argument.fill(data, parser),
            None => data,
        }
    }

    /// Adds input. Call [`Self::make_room`] before, unless doubling is right.
    pub fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Removes executed bytes at the front, and the large argument with its request.
    pub fn consume(&mut self, size: usize) {
        if size > 0 {
            self.argument = None;
        }
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

    /// Frees the memory of a large argument in which nothing has arrived.
    pub fn shrink_argument(&mut self) {
        if let Some(argument) = &mut self.argument {
            argument.shrink();
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
