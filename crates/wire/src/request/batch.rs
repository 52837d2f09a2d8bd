//! A run of complete requests, as spans of the input they were parsed from.
//!
//! Owns the unquoted arguments of inline requests; all other arguments stay where they were received. Reused from
//! batch to batch, so that parsing allocates nothing once it has warmed up.
//!
//! Invariants:
//! 1. `spans` is the concatenation of the requests' arguments, in order.
//! 2. Spans of an inline request are positions in `inline_bytes`, all others positions in the parsed input.
//! 3. A request has at least one argument.

use super::args::{Args, Span};

/// Arguments and extent of a request in a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    first_arg: u32,
    /// Argument count; [`INLINE`] is set for an inline request.
    argc: u32,
    start: u32,
    end: u32,
}

/// Marks the argument count of an inline request; counts stay below it (`ARGUMENT_COUNT_MAX`).
const INLINE: u32 = 1 << 31;
const _: () = assert!(base::limits::ARGUMENT_COUNT_MAX < INLINE as usize);

impl Request {
    /// Number of arguments, the name included; never 0.
    #[must_use]
    #[inline]
    pub fn argc(&self) -> usize {
        (self.argc & !INLINE) as usize
    }

    /// Whether it came as a line of text.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.argc & INLINE != 0
    }

    /// Position of its first byte in the parsed input.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// Position behind its last byte in the parsed input.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end as usize
    }
}

/// The requests of one pass over the input.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) spans: Vec<Span>,
    pub(super) inline_bytes: Vec<u8>,
    requests: Vec<Request>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the requests and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.inline_bytes.clear();
        self.requests.clear();
    }

    /// Gives back the memory that a rare large batch has left, beyond room for `span_count` arguments.
    pub fn shrink(&mut self, span_count: usize) {
        self.spans.shrink_to(span_count);
        self.requests.shrink_to(span_count);
        self.inline_bytes.shrink_to(span_count);
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether it has no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The request of this index. Panics if there are fewer.
    #[must_use]
    #[inline]
    pub fn request(&self, index: usize) -> &Request {
        &self.requests[index]
    }

    /// The arguments of a request. `bytes` is the input as it was given to the parser; it may have grown at its end.
    #[must_use]
    #[inline]
    pub fn args<'a>(&'a self, index: usize, bytes: &'a [u8]) -> Args<'a> {
        self.args_of(&self.requests[index], bytes)
    }

    /// The arguments of every request from `index` on, in order; `bytes` as for [`Self::args`].
    #[inline]
    pub fn args_from<'a>(&'a self, index: usize, bytes: &'a [u8]) -> impl Iterator<Item = Args<'a>> {
        self.requests[index..].iter().map(move |request| self.args_of(request, bytes))
    }

    #[inline(always)]
    fn args_of<'a>(&'a self, request: &Request, bytes: &'a [u8]) -> Args<'a> {
        let first = request.first_arg as usize;
        let source = if request.is_inline() { &self.inline_bytes } else { bytes };
        Args::new(source, &self.spans[first..first + request.argc()])
    }

    /// Bytes of memory held, for accounting.
    #[must_use]
    pub fn allocated_size(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
            + self.requests.capacity() * size_of::<Request>()
            + self.inline_bytes.capacity()
    }

    /// Closes a multibulk request whose arguments are the spans from `first_arg` on.
    #[inline]
    pub(super) fn push_multibulk(&mut self, first_arg: usize, start: usize, end: usize) {
        let argc = (self.spans.len() - first_arg) as u32;
        self.requests.push(Request {
            first_arg: first_arg as u32,
            argc,
            start: start as u32,
            end: end as u32,
        });
    }

    /// Closes an inline request likewise.
    pub(super) fn push_inline(&mut self, first_arg: usize, start: usize, end: usize) {
        let argc = (self.spans.len() - first_arg) as u32 | INLINE;
        self.requests.push(Request {
            first_arg: first_arg as u32,
            argc,
            start: start as u32,
            end: end as u32,
        });
    }
}
