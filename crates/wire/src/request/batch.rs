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
    /// Argument count, with [`INLINE`] or [`REPEATED`].
    argc: u32,
    start: u32,
    end: u32,
}

/// Mark the argument counts of an inline request, and of one of the form of the one before it. Counts stay below them: in input of
/// this size there is no room for so many arguments.
const INLINE: u32 = 1 << 31;
const REPEATED: u32 = 1 << 30;
const _: () = assert!(base::limits::QUERY_BUFFER_SIZE_MAX / b"$0\r\n\r\n".len() < REPEATED as usize);

impl Request {
    /// Number of arguments, the name included; never 0.
    #[must_use]
    #[inline]
    pub fn argc(&self) -> usize {
        (self.argc & !(INLINE | REPEATED)) as usize
    }

    /// Whether it came as a line of text.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.argc & INLINE != 0
    }

    /// Whether its name is that of the request before it in the batch, and so are the number and the sizes of its arguments.
    #[must_use]
    #[inline]
    pub fn is_repeated(&self) -> bool {
        self.argc & REPEATED != 0
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

    /// All requests with their arguments, in order; `bytes` as for [`Self::args`].
    #[inline]
    pub fn iter<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a Request, Args<'a>)> {
        self.requests.iter().map(move |request| (request, self.args_of(request, bytes)))
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

    /// The last request, with its arguments, unless it is inline.
    #[inline(always)]
    pub(super) fn last_multibulk(&self) -> Option<(&Request, &[Span])> {
        let last = self.requests.last().filter(|request| !request.is_inline())?;
        Some((last, &self.spans[last.first_arg as usize..]))
    }

    /// Closes a multibulk request whose arguments are the spans from `first_arg` on.
    #[inline]
    pub(super) fn push_multibulk(&mut self, first_arg: usize, start: usize, end: usize) {
        self.push(first_arg, 0, start, end);
    }

    /// Closes a multibulk request of the form of the last one likewise.
    #[inline(always)]
    pub(super) fn push_repeated(&mut self, first_arg: usize, start: usize, end: usize) {
        self.push(first_arg, REPEATED, start, end);
    }

    /// Closes an inline request likewise.
    pub(super) fn push_inline(&mut self, first_arg: usize, start: usize, end: usize) {
        self.push(first_arg, INLINE, start, end);
    }

    #[inline(always)]
    fn push(&mut self, first_arg: usize, mark: u32, start: usize, end: usize) {
        let argc = (self.spans.len() - first_arg) as u32 | mark;
        self.requests.push(Request {
            first_arg: first_arg as u32,
            argc,
            start: start as u32,
            end: end as u32,
        });
    }
}
