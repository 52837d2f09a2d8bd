//! The complete requests of one pass over the input, as spans of it.
//!
//! Owns the unquoted arguments of inline requests, and shares a large argument that was received in a buffer of its own;
//! all other arguments stay in the input buffer. Reused for each batch, so that parsing stops allocating after the first
//! ones.
//!
//! Invariants:
//! 1. `spans` is the concatenation of the arguments of each series' first request, in order.
//! 2. Spans of an inline request are positions in `inline_bytes`, all others are relative to the start of their
//!    request. The span of a detached argument, which only the first request may have, leads outside.
//! 3. A request has at least one argument, a series at least one request, and a series of inline requests
//!    exactly one.

use std::ops::Range;

use super::args::{Args, DetachedArgument, Span};

/// Consecutive requests of a [`Batch`] that differ in the contents of their arguments only: the name, the
/// number of arguments and their sizes are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    first_arg: u32,
    /// Argument count of each request, with [`INLINE`].
    argc: u32,
    /// Position of the first request in the parsed input.
    start: u32,
    /// Size of each request in bytes.
    size: u32,
    count: u32,
}

/// Marks the argument count of an inline request. Counts are smaller: the largest input cannot hold so many
/// arguments.
const INLINE: u32 = 1 << 31;
const _: () = assert!(base::limits::QUERY_BUFFER_SIZE_MAX / b"$0\r\n\r\n".len() < INLINE as usize);

impl Series {
    /// Number of requests; never 0.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Number of arguments of each request, the name included; never 0.
    #[must_use]
    #[inline]
    pub fn argc(&self) -> usize {
        (self.argc & !INLINE) as usize
    }

    /// Size of each request in bytes.
    #[must_use]
    #[inline]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Whether the request is inline.
    #[must_use]
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.argc & INLINE != 0
    }

    /// Position of the `nth` request in the parsed input, counted from 0.
    #[must_use]
    #[inline]
    pub fn range_of(&self, nth: usize) -> Range<usize> {
        let start = self.start as usize + nth * self.size();
        start..start + self.size()
    }

    /// The `nth` request as a series of one.
    #[must_use]
    #[inline]
    pub fn only(&self, nth: usize) -> Self {
        Self { start: self.range_of(nth).start as u32, count: 1, ..*self }
    }
}

/// The requests of one pass over the input.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) spans: Vec<Span>,
    pub(super) inline_bytes: Vec<u8>,
    pub(super) detached: DetachedArgument,
    series: Vec<Series>,
    /// Number of all requests.
    len: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the requests and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.inline_bytes.clear();
        self.detached.0 = None;
        self.series.clear();
        self.len = 0;
    }

    /// Frees memory of a rare large batch, except room for `span_count` arguments.
    pub fn shrink(&mut self, span_count: usize) {
        self.spans.shrink_to(span_count);
        self.series.shrink_to(span_count);
        self.inline_bytes.shrink_to(span_count);
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size of the detached argument of the first request, in bytes. It is not part of the size of its [`Series`]. 0:
    /// there is none.
    #[must_use]
    #[inline]
    pub fn detached_size(&self) -> usize {
        self.detached.0.as_ref().map_or(0, |argument| argument.len())
    }

    /// The requests, in order.
    #[must_use]
    #[inline]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The arguments of the `nth` request of a series. `bytes` is the input that was given to the parser; it
    /// may have grown at its end. Panics if it is shorter.
    #[must_use]
    #[inline]
    pub fn args<'a>(&'a self, series: &Series, nth: usize, bytes: &'a [u8]) -> Args<'a> {
        Args::with_detached(self.source(series, nth, bytes), self.spans_of(series), &self.detached)
    }

    /// The arguments of each request of a series, from the `nth` on; `bytes` as for [`Self::args`].
    #[inline(always)]
    pub fn args_from<'a>(
        &'a self,
        series: &Series,
        nth: usize,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = Args<'a>> {
        let (spans, size) = (self.spans_of(series), series.size());
        let mut source = self.source(series, nth, bytes);
        (nth..series.count()).map(move |_| {
            let args = Args::with_detached(source, spans, &self.detached);
            source = source.get(size..).unwrap_or_default();
            args
        })
    }

    /// The arguments of each request; `bytes` as for [`Self::args`].
    pub fn requests<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Args<'a>> {
        self.series.iter().flat_map(move |series| self.args_from(series, 0, bytes))
    }

    /// The bytes to which the spans of the `nth` request refer.
    #[inline(always)]
    fn source<'a>(&'a self, series: &Series, nth: usize, bytes: &'a [u8]) -> &'a [u8] {
        if series.is_inline() { &self.inline_bytes } else { &bytes[series.range_of(nth).start..] }
    }

    #[inline(always)]
    fn spans_of(&self, series: &Series) -> &[Span] {
        &self.spans[series.first_arg as usize..][..series.argc()]
    }

    /// Allocated bytes, for accounting.
    #[must_use]
    pub fn allocated_size(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
            + self.series.capacity() * size_of::<Series>()
            + self.inline_bytes.capacity()
    }

    /// Adds a series of multibulk requests. The spans from `first_arg` on are the arguments of its first
    /// request.
    #[inline]
    pub(super) fn push_multibulk(&mut self, first_arg: usize, start: usize, size: usize, count: usize) {
        self.push(first_arg, 0, start, size, count);
    }

    /// Adds an inline request.
    pub(super) fn push_inline(&mut self, first_arg: usize, start: usize, size: usize) {
        self.push(first_arg, INLINE, start, size, 1);
    }

    #[inline(always)]
    fn push(&mut self, first_arg: usize, inline_flag: u32, start: usize, size: usize, count: usize) {
        let argc = (self.spans.len() - first_arg) as u32 | inline_flag;
        let (first_arg, start, size) = (first_arg as u32, start as u32, size as u32);
        self.series.push(Series { first_arg, argc, start, size, count: count as u32 });
        self.len += count;
    }
}
