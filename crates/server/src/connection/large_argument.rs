//! A large argument of a request, received in a buffer of its own. A command that stores the argument shares the buffer, so
//! its bytes exist once, and are copied once after they were received.
//!
//! Owns the buffer. Its memory grows with the bytes that have arrived: it has the announced size once a part of the argument has
//! arrived ([`PART`]), and less before. So little is copied and freed while it grows. A buffer that only doubles would leave
//! as much freed memory behind as the argument needs.
//!
//! | from | to | by |
//! |---|---|---|
//! | arriving | complete: its line end arrives, and the parser has the buffer | `fill` |
//! | complete, the request was parsed and must wait | complete, the parser continues behind the argument | `continue_parsing` |

use std::sync::Arc;

use wire::request::Parser;

/// The smallest argument that has a buffer of its own, in bytes.
pub const LARGE_ARGUMENT_SIZE_MIN: usize = 1 << 20;

/// The part of an argument that must have arrived before its buffer has the announced size: one of so many.
const PART: usize = 16;

/// How much larger the buffer may be than what has arrived before that.
const GROWTH: usize = 4;

/// A large argument of the first request of a connection's input.
pub struct LargeArgument {
    /// The announced size in bytes, without the line end.
    size: usize,
    progress: ArgumentProgress,
}

enum ArgumentProgress {
    Arriving(Vec<u8>),
    /// The parser as it was when the argument was complete. It holds the argument.
    Complete(Parser),
}

impl LargeArgument {
    /// An argument of `size` bytes, of which the first ones have arrived.
    #[must_use]
    pub fn new(arrived: &[u8], size: usize) -> Self {
        debug_assert!(arrived.len() < size);
        let mut bytes = Vec::new();
        append(&mut bytes, arrived, size);
        Self { size, progress: ArgumentProgress::Arriving(bytes) }
    }

    /// Bytes that have arrived of an argument that is not complete.
    #[must_use]
    pub fn arriving_size(&self) -> usize {
        if let ArgumentProgress::Arriving(bytes) = &self.progress { bytes.len() } else { 0 }
    }

    /// Bytes that have arrived.
    #[must_use]
    pub fn arrived_size(&self) -> usize {
        if let ArgumentProgress::Arriving(bytes) = &self.progress { bytes.len() } else { self.size }
    }

    /// Bytes of memory that it uses.
    #[must_use]
    pub fn capacity(&self) -> usize {
        if let ArgumentProgress::Arriving(bytes) = &self.progress { bytes.capacity() } else { self.size }
    }

    /// Adds input to an argument that is arriving, and passes it to the parser when input behind it arrives. Returns that
    /// input.
    pub fn fill<'a>(&mut self, data: &'a [u8], parser: &mut Parser) -> &'a [u8] {
        let ArgumentProgress::Arriving(bytes) = &mut self.progress else { return data };
        let (part, rest) = data.split_at(data.len().min(self.size - bytes.len()));
        append(bytes, part, self.size);
        // Until its line end arrives, it counts as input.
        if bytes.len() == self.size && !rest.is_empty() {
            parser.detach(Arc::new(std::mem::take(bytes)));
            self.progress = ArgumentProgress::Complete(parser.clone());
        }
        rest
    }

    /// Makes a parser that was reset continue behind the argument.
    pub fn continue_parsing(&self, parser: &mut Parser) {
        if let ArgumentProgress::Complete(behind) = &self.progress
            && !parser.has_detached()
        {
            *parser = behind.clone();
        }
    }

    /// Frees the memory in which nothing has arrived.
    pub fn shrink(&mut self) {
        if let ArgumentProgress::Arriving(bytes) = &mut self.progress {
            bytes.shrink_to_fit();
        }
    }
}

/// Appends bytes of an argument of `size` bytes.
fn append(bytes: &mut Vec<u8>, data: &[u8], size: usize) {
    let len = bytes.len() + data.len();
    if len > bytes.capacity() {
        let part = size.div_ceil(PART);
        let capacity = if len >= part { size } else { part.min(GROWTH * len) };
        bytes.reserve_exact(capacity - bytes.len());
    }
    bytes.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::request::{Batch, RequestLimits};

    /// Parses the input, of which the argument is detached.
    fn parsed(parser: &mut Parser, input: &[u8], batch: &mut Batch) -> usize {
        batch.clear();
        parser.parse(input, &RequestLimits::default(), batch, 10).consumed
    }

    #[test]
    fn memory_grows_with_what_has_arrived() {
        let (mut parser, mut batch) = (Parser::new(), Batch::new());
        let size = 10_000_000;
        let head = b"*2\r\n$4\r\nECHO\r\n$10000000\r\n";
        assert_eq!(parsed(&mut parser, head, &mut batch), 0);
        let mut argument = LargeArgument::new(b"", size);
        assert_eq!(argument.capacity(), 0);
        let (mut count, mut freed_size) = (0, 0);
        while count < size {
            let before = argument.capacity();
            assert!(argument.fill(&[7; 1000], &mut parser).is_empty());
            count += 1000;
            assert_eq!(argument.arrived_size(), count);
            assert!(argument.capacity() <= size.min(PART * count), "{} for {count}", argument.capacity());
            freed_size += if argument.capacity() == before { 0 } else { before };
        }
        assert!(freed_size < size / 8, "{freed_size} bytes were freed");
        assert_eq!((argument.capacity(), argument.arriving_size()), (size, size));
        assert_eq!(argument.fill(b"\r\n", &mut parser), b"\r\n");
        assert_eq!((argument.capacity(), argument.arriving_size()), (size, 0));
    }

    #[test]
    fn a_request_is_parsed_again_behind_its_argument() {
        let (mut parser, mut batch) = (Parser::new(), Batch::new());
        let mut input = b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n".to_vec();
        assert_eq!(parsed(&mut parser, &input, &mut batch), 0);
        let mut argument = LargeArgument::new(b"ab", 5);
        let rest = argument.fill(b"cde\r\n$2\r\nNX\r\nPING\r\n", &mut parser);
        input.extend_from_slice(rest);
        for _ in 0..2 {
            argument.continue_parsing(&mut parser);
            // The part of the input does not matter.
            assert_eq!(parsed(&mut parser, &input[..30], &mut batch), 0);
            argument.continue_parsing(&mut parser);
            assert_eq!(parsed(&mut parser, &input, &mut batch), input.len());
            let words: Vec<_> = batch.requests(&input).map(|args| args.iter().collect::<Vec<_>>()).collect();
            assert_eq!(words, [&[&b"SET"[..], b"k", b"abcde", b"NX"][..], &[b"PING"]]);
        }
    }
}
