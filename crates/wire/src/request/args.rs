//! The arguments of one request: spans of the caller's bytes. One large argument may have a buffer of its own, which a
//! command can store without a copy.
//!
//! Invariant: every span of an [`Args`] is inside its bytes, except the one of a detached argument. The constructor's
//! caller ensures this; indexing panics if it does not hold (a batch read with other bytes than it was parsed from).

use std::ops::{Index, Range};
use std::slice;
use std::sync::Arc;

use crate::number;

/// The position of an argument in its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Position of the first byte.
    pub start: u32,
    /// Size in bytes.
    pub len: u32,
}

/// The start of the span of a detached argument: no input is so long that it contains this position.
const DETACHED_START: u32 = u32::MAX;
const _: () = assert!(base::limits::QUERY_BUFFER_SIZE_MAX <= DETACHED_START as usize);

impl Span {
    /// The span of an argument that is not among the bytes of its request. It is not empty.
    pub(super) fn detached(len: usize) -> Self {
        Self { start: DETACHED_START, len: len as u32 }
    }

    #[inline]
    fn of<'a>(self, bytes: &'a [u8], detached: &'a DetachedArgument) -> &'a [u8] {
        let start = self.start as usize;
        match bytes.get(start..start + self.len as usize) {
            Some(argument) => argument,
            None => detached.of(self),
        }
    }
}

/// The argument of a request that has a buffer of its own, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct DetachedArgument(pub(super) Option<Arc<Vec<u8>>>);

impl DetachedArgument {
    const NONE: &'static Self = &Self(None);

    #[cold]
    #[inline(never)]
    fn of(&self, span: Span) -> &Arc<Vec<u8>> {
        let is_detached = span.start == DETACHED_START;
        self.0.as_ref().filter(|_| is_detached).expect("arguments are inside the bytes of their request")
    }
}

/// One argument of a request.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A part of the input.
    Bytes(&'a [u8]),
    /// A large argument in a buffer of its own, without room for more.
    Detached(&'a Arc<Vec<u8>>),
}

impl<'a> Argument<'a> {
    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Detached(buffer) => buffer,
        }
    }
}

/// The arguments of a request, the name first. A copy copies two slices and a reference.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    detached: &'a DetachedArgument,
}

impl<'a> Args<'a> {
    /// The arguments at these positions of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans, detached: DetachedArgument::NONE }
    }

    /// As [`Self::new`], with the argument that is not among these bytes.
    #[inline]
    pub(super) fn with_detached(bytes: &'a [u8], spans: &'a [Span], detached: &'a DetachedArgument) -> Self {
        Self { bytes, spans, detached }
    }

    /// Number of arguments, the name included.
    #[must_use]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Whether there are none: possible for a [`Self::tail`], never for a request.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, if it exists.
    #[must_use]
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes, self.detached))
    }

    /// The argument at `index`, with the lifetime of the bytes. Panics if it does not exist.
    #[must_use]
    #[inline]
    pub fn at(self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.bytes, self.detached)
    }

    /// As [`Self::at`], for a caller that may keep the buffer of a detached argument.
    #[must_use]
    #[inline]
    pub fn argument(self, index: usize) -> Argument<'a> {
        let span = self.spans[index];
        let start = span.start as usize;
        match self.bytes.get(start..start + span.len as usize) {
            Some(bytes) => Argument::Bytes(bytes),
            None => Argument::Detached(self.detached.of(span)),
        }
    }

    /// Whether one of them is detached.
    #[must_use]
    pub fn has_detached(self) -> bool {
        self.detached.0.is_some() && self.spans.iter().any(|span| span.start == DETACHED_START)
    }

    /// The command's name as the client sent it; empty only if there are no arguments.
    #[must_use]
    #[inline]
    pub fn name(self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// All arguments in order.
    #[must_use]
    pub fn iter(self) -> Iter<'a> {
        Iter { bytes: self.bytes, spans: self.spans.iter(), detached: self.detached }
    }

    /// The arguments from `index` on; empty if `index` is beyond the last one.
    #[must_use]
    pub fn tail(self, index: usize) -> Self {
        Self { spans: self.spans.get(index..).unwrap_or_default(), ..self }
    }

    /// A range of the arguments. Panics if it exceeds their number.
    #[must_use]
    pub fn range(self, indexes: Range<usize>) -> Self {
        Self { spans: &self.spans[indexes], ..self }
    }

    /// The size in bytes of these arguments as one multibulk request. O(number of arguments).
    #[must_use]
    pub fn wire_size(self) -> usize {
        let header_size = |count: usize| 3 + number::decimal_digit_count(count as u64);
        let arguments: usize =
            self.spans.iter().map(|span| header_size(span.len as usize) + span.len as usize + 2).sum();
        header_size(self.spans.len()) + arguments
    }

    /// The request as it was received, if that is exactly what [`Self::write_multibulk`] writes. `None` for an inline
    /// request, leading zeros in a length, a detached argument, or arguments that were not received. O(number of
    /// arguments).
    #[must_use]
    #[inline]
    pub fn as_multibulk(self) -> Option<&'a [u8]> {
        let last = self.spans.last()?;
        let end = last.start as usize + last.len as usize + 2;
        // From the last argument to the first: the end of its line, then the header before it.
        let mut at = end;
        for span in self.spans.iter().rev() {
            let (start, len) = (span.start as usize, span.len as usize);
            if at != start + len + 2 || self.bytes.get(at - 2..at)? != b"\r\n" {
                return None;
            }
            at = number::header_before(self.bytes, start, b'$', len as u64)?;
        }
        let start = number::header_before(self.bytes, at, b'*', self.spans.len() as u64)?;
        self.bytes.get(start..end)
    }

    /// Appends these arguments as one multibulk request: [`Self::wire_size`] bytes.
    pub fn write_multibulk(self, out: &mut Vec<u8>) {
        out.reserve(self.wire_size());
        number::write_header(out, b'*', self.len() as u64);
        for argument in self.iter() {
            number::write_header(out, b'$', argument.len() as u64);
            out.extend_from_slice(argument);
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|argument| argument.escape_ascii().to_string())).finish()
    }
}

/// Iterator over the arguments of a request.
#[derive(Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    spans: slice::Iter<'a, Span>,
    detached: &'a DetachedArgument,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next().map(|span| span.of(self.bytes, self.detached))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.spans.next_back().map(|span| span.of(self.bytes, self.detached))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Arguments that own their bytes: of a queued or rewritten request, or one from a script. [`Self::append`] shares one large
/// argument with the request that it came from.
#[derive(Clone, Debug, Default)]
pub struct ArgsBuf {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    detached: DetachedArgument,
}

impl ArgsBuf {
    /// An empty list of arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an argument. Panics if all of them together exceed 4 GiB.
    pub fn push(&mut self, argument: &[u8]) {
        let start = u32::try_from(self.bytes.len()).expect("arguments of a request fit in 4 GiB");
        let len = u32::try_from(argument.len()).expect("arguments of a request fit in 4 GiB");
        self.bytes.extend_from_slice(argument);
        self.spans.push(Span { start, len });
    }

    /// Appends arguments. A detached one is shared, unless there is one already.
    pub fn append(&mut self, args: Args<'_>) {
        for (span, argument) in args.spans.iter().zip(args) {
            match &args.detached.0 {
                Some(buffer) if span.start == DETACHED_START && self.detached.0.is_none() => {
                    self.detached.0 = Some(Arc::clone(buffer));
                    self.spans.push(*span);
                }
                _ => self.push(argument),
            }
        }
    }

    /// Appends an integer argument in decimal.
    pub fn push_i64(&mut self, value: i64) {
        self.push(number::format_i64(value, &mut [0; number::I64_TEXT_SIZE_MAX]));
    }

    /// Removes the arguments and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.detached.0 = None;
    }

    /// A view of the arguments.
    #[must_use]
    pub fn args(&self) -> Args<'_> {
        Args::with_detached(&self.bytes, &self.spans, &self.detached)
    }

    /// Allocated bytes, for accounting.
    #[must_use]
    pub fn allocated_size(&self) -> usize {
        let detached = self.detached.0.as_ref().map_or(0, |buffer| buffer.capacity());
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>() + detached
    }
}

impl From<Args<'_>> for ArgsBuf {
    fn from(args: Args<'_>) -> Self {
        let is_copied = |span: &&Span| span.start != DETACHED_START;
        let size = args.spans.iter().filter(is_copied).map(|span| span.len as usize).sum();
        let spans = Vec::with_capacity(args.spans.len());
        let mut owned =
            Self { bytes: Vec::with_capacity(size), spans, detached: DetachedArgument::default() };
        owned.append(args);
        owned
    }
}

impl<'a> Extend<&'a [u8]> for ArgsBuf {
    fn extend<T: IntoIterator<Item = &'a [u8]>>(&mut self, arguments: T) {
        for argument in arguments {
            self.push(argument);
        }
    }
}

impl<'a> FromIterator<&'a [u8]> for ArgsBuf {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(arguments: T) -> Self {
        let mut owned = Self::new();
        owned.extend(arguments);
        owned
    }
}
