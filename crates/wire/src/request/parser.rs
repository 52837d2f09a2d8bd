//! The parser of client input.
//!
//! Pure and resumable: [`Parser::parse`] appends the complete requests at the front of its input to a batch,
//! and stores how much of the incomplete request it has read. No byte of a large request is read twice, however
//! the input is fragmented.
//!
//! Invariants:
//! 1. All stored positions are relative to the start of the incomplete request, which is the end of the
//!    consumed input. The caller may move the bytes, but must pass them again from there on.
//! 2. Neither the requests nor the error depend on where the input is cut.
//! 3. Memory grows with the bytes that have arrived, never with announced sizes.
//! 4. With a detached argument a request is incomplete, and `spans` has an empty span in its place, or none yet.
//!
//! States of an incomplete request:
//!
//! | position | stored in | continued by |
//! |---|---|---|
//! | start, nothing read | all fields 0 | `start_requests` |
//! | first line, end not found | `line_scanned` | `start_requests` |
//! | length line of an argument | `args_missing`, `resume_at`, `line_scanned` | `resume` |
//! | argument, length known | also `bulk_len` | `resume` |
//! | behind a detached argument | as that of an argument without bytes, and `detached` | `resume` |
//!
//! Start reading at [`Parser::parse`].

use std::ops::Range;
use std::sync::Arc;

use base::limits::{ARGUMENT_COUNT_MAX, INLINE_SIZE_MAX, QUERY_BUFFER_SIZE_MAX};

use super::args::{DetachedArgument, Span};
use super::batch::Batch;
use super::inline;
use super::lines::{LINE_END, NumberLine, count_line, find_in_line, length_line, plain_length_line};
use super::protocol_error::ProtocolError;
use super::repeat::count_repeats;
use crate::number;
use crate::number_line::short_number_line;

/// Largest number of arguments of a request from an unauthenticated client.
const UNAUTHENTICATED_ARGUMENT_COUNT_MAX: u64 = 10;

/// Largest size of an argument from an unauthenticated client.
const UNAUTHENTICATED_BULK_SIZE_MAX: u64 = 16 * 1024;

/// Spans whose memory is kept from one incomplete request to the next.
const KEPT_SPAN_COUNT_MAX: usize = 1024;

/// The sender of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sender {
    /// An unauthenticated client. Each call parses only one request, because it may authenticate the client.
    Unauthenticated,
    /// A client.
    #[default]
    Client,
    /// The primary that this server replicates: no limits, and no inline requests except empty lines.
    Primary,
}

/// The limits of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The sender.
    pub sender: Sender,
    /// `proto-max-bulk-len`: largest size of an argument from a client, in bytes.
    pub bulk_size_max: u64,
}

impl Default for RequestLimits {
    /// The limits of an authenticated client, with Redis's default of 512 MiB.
    fn default() -> Self {
        Self { sender: Sender::Client, bulk_size_max: 512 * 1024 * 1024 }
    }
}

/// The result of a call of [`Parser::parse`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Parsed {
    /// Bytes of complete requests at the front of the input, empty requests included.
    pub consumed: usize,
    /// If the input ends inside an argument: its missing bytes, with its line end.
    pub need_hint: Option<usize>,
    /// The error in the request after the consumed ones. The connection closes after the requests before it.
    pub error: Option<ProtocolError>,
}

/// The state of an incomplete request. Clean initially, after a complete request and after an error.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The complete arguments of the incomplete request, relative to its start.
    spans: Vec<Span>,
    progress: Progress,
    /// The argument that is not part of the input.
    detached: Option<Detached>,
}

/// An argument that the caller has received in a buffer of its own.
#[derive(Clone, Debug)]
struct Detached {
    /// Its place among the arguments.
    index: usize,
    argument: Arc<Vec<u8>>,
}

/// The progress in a request. Positions are relative to its start.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Missing arguments; 0 until the first line has been read.
    args_missing: u64,
    /// The start of the next length line, or of the argument if its length line has been read.
    resume_at: usize,
    /// The length of the argument at `resume_at`.
    bulk_len: Option<u64>,
    /// Bytes of the line at `resume_at` that contain no line end.
    line_scanned: usize,
}

/// The limits that apply to a sender.
#[derive(Clone, Copy)]
struct Bounds {
    count_max: u64,
    bulk_size_max: u64,
    /// The limit on arguments after authentication. Exceeding it is a different error than the tighter limit before.
    authenticated_bulk_size_max: u64,
}

impl Bounds {
    fn of(limits: &RequestLimits) -> Self {
        let authenticated_bulk_size_max = match limits.sender {
            Sender::Unauthenticated | Sender::Client => limits.bulk_size_max,
            Sender::Primary => u64::MAX,
        };
        let (count_max, bulk_size_max) = match limits.sender {
            Sender::Unauthenticated => (
                UNAUTHENTICATED_ARGUMENT_COUNT_MAX,
                UNAUTHENTICATED_BULK_SIZE_MAX.min(authenticated_bulk_size_max),
            ),
            Sender::Client | Sender::Primary => (ARGUMENT_COUNT_MAX as u64, authenticated_bulk_size_max),
        };
        Self { count_max, bulk_size_max, authenticated_bulk_size_max }
    }

    fn bulk_size_error(&self, size: u64) -> ProtocolError {
        if size > self.authenticated_bulk_size_max {
            ProtocolError::InvalidLength
        } else {
            ProtocolError::UnauthenticatedLength
        }
    }
}

/// The end of reading a request.
enum ReadResult {
    /// The request and the repeated requests after it are complete and have this many bytes. They are in the
    /// batch, unless the request is empty (an empty line, a count of 0).
    Complete(usize),
    /// More bytes are needed.
    Incomplete(Progress),
    Failed(ProtocolError),
}

impl Parser {
    /// A parser at the start of a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Discards the incomplete request.
    pub fn reset(&mut self) {
        self.spans.clear();
        self.progress = Progress::default();
        self.detached = None;
    }

    /// Takes the announced argument, which the caller has received completely in a buffer of its own. The input continues
    /// with the argument's line end at the start of [`Self::announced`]. Panics if no argument of this size is announced,
    /// or another one of the request is detached.
    pub fn detach(&mut self, argument: Arc<Vec<u8>>) {
        assert_eq!(self.progress.bulk_len, Some(argument.len() as u64), "the argument is the announced one");
        assert!(!self.has_detached(), "one argument of a request may be detached");
        // What remains of it in the input is an argument without bytes.
        self.progress.bulk_len = Some(0);
        self.detached = Some(Detached { index: self.spans.len(), argument });
    }

    /// Whether an argument of the incomplete request is detached.
    #[must_use]
    pub fn has_detached(&self) -> bool {
        self.detached.is_some()
    }

    /// Whether part of a request has been read.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.progress.args_missing > 0 || self.progress.line_scanned > 0
    }

    /// The position, in the incomplete request, of an announced argument that has not arrived completely, with
    /// its line end. `0..0` if there is none.
    #[must_use]
    pub fn announced(&self) -> Range<usize> {
        let start = self.progress.resume_at;
        // An end beyond the largest position has already been refused.
        self.progress.bulk_len.map_or(0..0, |len| start..start + len as usize + LINE_END.len())
    }

    /// Bytes at the front of the incomplete request that need not be read again: complete arguments and length
    /// lines.
    #[must_use]
    pub fn read_size(&self) -> usize {
        self.progress.resume_at
    }

    /// Allocated bytes, for accounting.
    #[must_use]
    pub fn allocated_size(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Appends the complete requests at the front of `bytes` to `batch`, up to `request_count_max` of them.
    ///
    /// `bytes` starts where the last call stopped consuming. The batch contains positions in these `bytes`, so
    /// clear it before a call with other bytes. At an error, the batch contains the requests before it.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
        batch: &mut Batch,
        request_count_max: usize,
    ) -> Parsed {
        let input = &bytes[..bytes.len().min(QUERY_BUFFER_SIZE_MAX)];
        let bounds = Bounds::of(limits);
        let request_count_max = match limits.sender {
            Sender::Unauthenticated => request_count_max.min(1),
            Sender::Client | Sender::Primary => request_count_max,
        };
        let mut parsed = Parsed::default();
        if request_count_max == 0 {
            return parsed;
        }
        let full_at = batch.len().saturating_add(request_count_max);
        if self.progress.args_missing > 0 {
            match self.resume(input, &bounds, batch) {
                ReadResult::Complete(size) => parsed.consumed = size,
                result => return self.stop(input, result, parsed),
            }
        }
        let mut line_scanned = self.progress.line_scanned;
        self.progress = Progress::default();
        while parsed.consumed < input.len() && batch.len() < full_at {
            let start = parsed.consumed;
            let first_arg = batch.spans.len();
            let count_max = full_at - batch.len();
            match start_requests(input, start, line_scanned, limits.sender, &bounds, batch, count_max) {
                ReadResult::Complete(size) => parsed.consumed += size,
                result => {
                    self.spans.extend(batch.spans.drain(first_arg..));
                    return self.stop(input, result, parsed);
                }
            }
            line_scanned = 0;
        }
        parsed
    }

    /// Continues with the arguments of the incomplete request at the front of `input`.
    #[inline(never)]
    fn resume(&mut self, input: &[u8], bounds: &Bounds, batch: &mut Batch) -> ReadResult {
        // Arguments are collected here, not in the batch: moving them between both in each call would be
        // quadratic.
        let progress = std::mem::take(&mut self.progress);
        let result = read_bulks(input, progress, bounds, &mut self.spans);
        if let ReadResult::Complete(size) = result {
            let first_arg = batch.spans.len();
            if let Some(Detached { index, argument }) = self.detached.take() {
                self.spans[index] = Span::detached(argument.len());
                batch.detached = DetachedArgument(Some(argument));
            }
            batch.spans.append(&mut self.spans);
            self.spans.shrink_to(KEPT_SPAN_COUNT_MAX);
            batch.push_multibulk(first_arg, 0, size, 1);
        }
        result
    }

    /// Stores the progress in the request at `parsed.consumed`, or reports its error.
    #[cold]
    #[inline(never)]
    fn stop(&mut self, input: &[u8], result: ReadResult, mut parsed: Parsed) -> Parsed {
        let error = match result {
            ReadResult::Complete(_) => None,
            ReadResult::Failed(error) => Some(error),
            ReadResult::Incomplete(progress) => {
                let end = progress.bulk_len.map(|len| {
                    (progress.resume_at as u64).saturating_add(len).saturating_add(LINE_END.len() as u64)
                });
                if end.is_some_and(|end| end > QUERY_BUFFER_SIZE_MAX as u64) {
                    Some(ProtocolError::RequestTooBig)
                } else {
                    parsed.need_hint = end.map(|end| parsed.consumed + end as usize - input.len());
                    self.progress = progress;
                    None
                }
            }
        };
        if error.is_some() {
            self.reset();
            parsed.error = error;
        }
        parsed
    }
}

/// Reads the request at `start`, whose first line has no line end in `line_scanned` bytes, and the repeated
/// requests after it, up to `count_max` in all.
#[inline(always)]
fn start_requests(
    input: &[u8],
    start: usize,
    line_scanned: usize,
    sender: Sender,
    bounds: &Bounds,
    batch: &mut Batch,
    count_max: usize,
) -> ReadResult {
    let rest = &input[start..];
    if rest.first() != Some(&b'*') {
        return read_inline(input, start, line_scanned, sender, batch);
    }
    let (count, after) = match short_number_line(rest, b'*') {
        Some((count, after)) => (u64::from(count), after),
        None => match count_line(rest, line_scanned) {
            NumberLine::Read(count, after) => (count, after),
            NumberLine::Incomplete { line_scanned } => {
                return ReadResult::Incomplete(Progress { line_scanned, ..Progress::default() });
            }
            NumberLine::Failed(error) => return ReadResult::Failed(error),
        },
    };
    let resume_at = rest.len() - after.len();
    if count == 0 {
        return ReadResult::Complete(resume_at);
    }
    if count > bounds.count_max {
        return ReadResult::Failed(ProtocolError::UnauthenticatedCount);
    }
    let first_arg = batch.spans.len();
    let mut progress = Progress { args_missing: count, resume_at, bulk_len: None, line_scanned: 0 };
    let result = match read_plain_bulks(rest, progress, bounds, &mut batch.spans) {
        (0, size) => ReadResult::Complete(size),
        (args_missing, resume_at) => {
            progress.args_missing = args_missing;
            progress.resume_at = resume_at;
            read_bulks(rest, progress, bounds, &mut batch.spans)
        }
    };
    let ReadResult::Complete(size) = result else { return result };
    let count = count_repeats(rest, size, &batch.spans[first_arg..], count_max);
    batch.push_multibulk(first_arg, start, size, count);
    ReadResult::Complete(count * size)
}

/// Reads the missing arguments of the request at the front of `request`, and appends their spans.
#[inline(never)]
fn read_bulks(request: &[u8], mut progress: Progress, bounds: &Bounds, spans: &mut Vec<Span>) -> ReadResult {
    loop {
        match read_bulk(request, &mut progress, bounds) {
            Ok(Some(span)) => spans.push(span),
            Ok(None) => return ReadResult::Incomplete(progress),
            Err(error) => return ReadResult::Failed(error),
        }
        (progress.args_missing, progress.resume_at) = read_plain_bulks(request, progress, bounds, spans);
        if progress.args_missing == 0 {
            return ReadResult::Complete(progress.resume_at);
        }
    }
}

/// Reads well-formed arguments that have arrived completely. Returns the number still missing, and their
/// position.
#[inline(always)]
fn read_plain_bulks(
    request: &[u8],
    progress: Progress,
    bounds: &Bounds,
    spans: &mut Vec<Span>,
) -> (u64, usize) {
    let mut args_missing = progress.args_missing;
    // Each step starts at the line end before a length line, and thereby checks the end of the previous
    // argument.
    let mut line_end = progress.resume_at - LINE_END.len();
    while args_missing > 0
        && let Some((len, start)) = plain_length_line(request, line_end)
        && len as usize <= request.len() - start
        && u64::from(len) <= bounds.bulk_size_max
    {
        spans.push(Span { start: start as u32, len });
        args_missing -= 1;
        line_end = start + len as usize;
    }
    let end = line_end + LINE_END.len();
    if args_missing == 0 && request.get(line_end..end) == Some(LINE_END) {
        return (0, end);
    }
    if args_missing == progress.args_missing {
        return (args_missing, progress.resume_at);
    }
    // The end of the last argument may be malformed or missing: the argument is left to the full check.
    let last = spans.pop().unwrap_or_default();
    let length_line_size = 1 + number::decimal_digit_count(u64::from(last.len)) + LINE_END.len();
    (args_missing + 1, last.start as usize - length_line_size)
}

/// Reads one argument with every check; `None` if it is incomplete.
#[inline(never)]
fn read_bulk(
    request: &[u8],
    progress: &mut Progress,
    bounds: &Bounds,
) -> Result<Option<Span>, ProtocolError> {
    let rest = &request[progress.resume_at..];
    let (len, body) = match progress.bulk_len {
        Some(len) => (len, rest),
        None => match length_line(rest, progress.line_scanned) {
            NumberLine::Read(len, body) => (len, body),
            NumberLine::Incomplete { line_scanned } => {
                progress.line_scanned = line_scanned;
                return Ok(None);
            }
            NumberLine::Failed(error) => return Err(error),
        },
    };
    progress.line_scanned = 0;
    if len > bounds.bulk_size_max {
        return Err(bounds.bulk_size_error(len));
    }
    let start = request.len() - body.len();
    let after = usize::try_from(len).ok().and_then(|len| body.get(len..)).unwrap_or_default();
    match after.split_first_chunk() {
        Some((LINE_END, after)) => {
            progress.args_missing -= 1;
            progress.bulk_len = None;
            progress.resume_at = request.len() - after.len();
            Ok(Some(Span { start: start as u32, len: len as u32 }))
        }
        Some(_) => Err(ProtocolError::InvalidLineEnd),
        None => {
            progress.bulk_len = Some(len);
            progress.resume_at = start;
            Ok(None)
        }
    }
}

/// Reads an inline request: a line that ends in `\n` or `\r\n`. Redis and Valkey search a C string for the end,
/// so a line with a NUL byte has none.
#[inline(never)]
fn read_inline(
    input: &[u8],
    start: usize,
    line_scanned: usize,
    sender: Sender,
    batch: &mut Batch,
) -> ReadResult {
    let rest = &input[start..];
    let end = find_in_line(rest, line_scanned, |byte| matches!(byte, b'\n' | 0));
    let Some(line_feed) = end.filter(|&end| rest[end] == b'\n') else {
        if rest.len() > INLINE_SIZE_MAX {
            return ReadResult::Failed(ProtocolError::InlineTooBig);
        }
        let line_scanned = end.unwrap_or(rest.len());
        return ReadResult::Incomplete(Progress { line_scanned, ..Progress::default() });
    };
    let line = &rest[..line_feed];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if sender == Sender::Primary && !line.is_empty() {
        return ReadResult::Failed(ProtocolError::InlineFromPrimary);
    }
    let size = line_feed + 1;
    let first_arg = batch.spans.len();
    let inline_size = batch.inline_bytes.len();
    if inline::split_words(line, &mut batch.inline_bytes, &mut batch.spans).is_err() {
        batch.inline_bytes.truncate(inline_size);
        batch.spans.truncate(first_arg);
        return ReadResult::Failed(ProtocolError::UnbalancedQuotes);
    }
    if batch.spans.len() > first_arg {
        batch.push_inline(first_arg, start, size);
    }
    ReadResult::Complete(size)
}
