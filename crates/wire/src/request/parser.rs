//! The parser of client input.
//!
//! Pure and resumable: [`Parser::parse`] looks at the bytes it is given, appends the complete requests at their front
//! to a batch, and remembers how far it got in the one that is not complete, so that no byte of a large request is
//! looked at twice, however it is cut up on its way.
//!
//! Invariants:
//! 1. Everything the parser remembers is relative to the start of the incomplete request, which is the end of what was
//!    consumed: the caller may move the bytes, but must give them again from there on.
//! 2. What is parsed does not depend on where the input is cut, nor does the error.
//! 3. Nothing is reserved on the word of a client: memory grows with the bytes that have arrived.
//!
//! Where a request stands, and who takes it on:
//!
//! | stands at | remembered by | goes on in |
//! |---|---|---|
//! | start, nothing seen | all fields 0 | `start_requests` |
//! | first line, end not seen | `line_scanned` | `start_requests` |
//! | length line of an argument | `args_missing`, `resume_at`, `line_scanned` | `resume` |
//! | argument, length known | also `bulk_len` | `resume` |
//!
//! Start reading at [`Parser::parse`].

use std::ops::Range;

use base::limits::{ARGUMENT_COUNT_MAX, INLINE_SIZE_MAX, QUERY_BUFFER_SIZE_MAX};

use super::args::Span;
use super::batch::Batch;
use super::inline;
use super::lines::{LINE_END, NumberLine, count_line, find_in_line, length_line, plain_length_line};
use super::protocol_error::ProtocolError;
use super::repeat::count_alike;
use crate::number;
use crate::number_line::short_number_line;

/// Arguments a client may send in one request before it has authenticated.
const UNAUTHENTICATED_ARGUMENT_COUNT_MAX: u64 = 10;

/// Size of an argument a client may send before it has authenticated.
const UNAUTHENTICATED_BULK_SIZE_MAX: u64 = 16 * 1024;

/// Spans for which room is kept from one incomplete request to the next.
const KEPT_SPAN_COUNT_MAX: usize = 1024;

/// Who sends the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// A client that has to authenticate first. Only one request is parsed a call, for it may be the one.
    Unauthenticated,
    /// A client.
    #[default]
    Client,
    /// The primary that this server replicates from: no limits, no inline requests but empty lines.
    Primary,
}

/// What the sender of the input may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Who it is.
    pub peer: Peer,
    /// `proto-max-bulk-len`: largest size of an argument of a client, in bytes.
    pub bulk_size_max: u64,
}

impl Default for RequestLimits {
    /// An authenticated client's, with Redis's default of 512 MiB.
    fn default() -> Self {
        Self { peer: Peer::Client, bulk_size_max: 512 * 1024 * 1024 }
    }
}

/// What a call of [`Parser::parse`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Parsed {
    /// Bytes of complete requests at the front of the input, those that ask for nothing included.
    pub consumed: usize,
    /// If the input ends in an argument: how many bytes of it, with its line end, are still to come.
    pub need_hint: Option<usize>,
    /// What is wrong with the request behind those consumed. The connection ends after the requests before it.
    pub error: Option<ProtocolError>,
}

/// The state of an incomplete request. Clean when new, after a complete request and after an error.
#[derive(Debug, Default)]
pub struct Parser {
    /// The arguments of the incomplete request that have arrived, relative to its start.
    spans: Vec<Span>,
    progress: Progress,
}

/// How far a request has been read. Positions are relative to its start.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Arguments still to come; 0 as long as the first line has not been read.
    args_missing: u64,
    /// Where the next length line starts, or the argument if its length line has been read.
    resume_at: usize,
    /// The length of the argument at `resume_at`.
    bulk_len: Option<u64>,
    /// Bytes of the line at `resume_at` that hold no line end.
    line_scanned: usize,
}

/// The limits that hold for this peer.
#[derive(Clone, Copy)]
struct Bounds {
    count_max: u64,
    bulk_size_max: u64,
    /// The limit on arguments that holds after authentication too: going beyond it is told otherwise.
    lasting_bulk_size_max: u64,
}

impl Bounds {
    fn of(limits: &RequestLimits) -> Self {
        let lasting_bulk_size_max = match limits.peer {
            Peer::Unauthenticated | Peer::Client => limits.bulk_size_max,
            Peer::Primary => u64::MAX,
        };
        let (count_max, bulk_size_max) = match limits.peer {
            Peer::Unauthenticated => {
                (UNAUTHENTICATED_ARGUMENT_COUNT_MAX, UNAUTHENTICATED_BULK_SIZE_MAX.min(lasting_bulk_size_max))
            }
            Peer::Client | Peer::Primary => (ARGUMENT_COUNT_MAX as u64, lasting_bulk_size_max),
        };
        Self { count_max, bulk_size_max, lasting_bulk_size_max }
    }

    fn bulk_size_error(&self, size: u64) -> ProtocolError {
        if size > self.lasting_bulk_size_max {
            ProtocolError::InvalidLength
        } else {
            ProtocolError::UnauthenticatedLength
        }
    }
}

/// Where reading a request ended.
enum Step {
    /// It is complete and has so many bytes, with those behind it that are alike; unless it asked for nothing (an empty line, a count of 0), it is in the batch.
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

    /// Forgets the incomplete request.
    pub fn reset(&mut self) {
        self.spans.clear();
        self.progress = Progress::default();
    }

    /// Whether part of a request has arrived and been looked at.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.progress.args_missing > 0 || self.progress.line_scanned > 0
    }

    /// Where in the incomplete request the argument stands, with its line end, that was announced and has not arrived
    /// whole. `0..0` if there is none.
    #[must_use]
    pub fn announced(&self) -> Range<usize> {
        let start = self.progress.resume_at;
        // An end that is beyond what can be kept has been refused.
        self.progress.bulk_len.map_or(0..0, |len| start..start + len as usize + LINE_END.len())
    }

    /// Bytes at the front of the incomplete request that are read for good: its whole arguments, and length lines.
    #[must_use]
    pub fn read_size(&self) -> usize {
        self.progress.resume_at
    }

    /// Bytes of memory held, for accounting.
    #[must_use]
    pub fn allocated_size(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Appends the complete requests at the front of `bytes` to `batch`, up to `request_count_max` of them.
    ///
    /// `bytes` starts where the last call stopped consuming. What is in `batch` are positions in these `bytes`, so
    /// clear it before calling with others. At an error, the requests before it are in the batch.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
        batch: &mut Batch,
        request_count_max: usize,
    ) -> Parsed {
        let input = &bytes[..bytes.len().min(QUERY_BUFFER_SIZE_MAX)];
        let bounds = Bounds::of(limits);
        let request_count_max = match limits.peer {
            Peer::Unauthenticated => request_count_max.min(1),
            Peer::Client | Peer::Primary => request_count_max,
        };
        let mut parsed = Parsed::default();
        if request_count_max == 0 {
            return parsed;
        }
        let full_at = batch.len().saturating_add(request_count_max);
        if self.progress.args_missing > 0 {
            match self.resume(input, &bounds, batch) {
                Step::Complete(size) => parsed.consumed = size,
                step => return self.stop(input, step, parsed),
            }
        }
        let mut line_scanned = self.progress.line_scanned;
        self.progress = Progress::default();
        while parsed.consumed < input.len() && batch.len() < full_at {
            let start = parsed.consumed;
            let first_arg = batch.spans.len();
            let count_max = full_at - batch.len();
            match start_requests(input, start, line_scanned, limits.peer, &bounds, batch, count_max) {
                Step::Complete(size) => parsed.consumed += size,
                step => {
                    self.spans.extend(batch.spans.drain(first_arg..));
                    return self.stop(input, step, parsed);
                }
            }
            line_scanned = 0;
        }
        parsed
    }

    /// Goes on with the arguments of the incomplete request, which `input` starts with.
    #[inline(never)]
    fn resume(&mut self, input: &[u8], bounds: &Bounds, batch: &mut Batch) -> Step {
        // They are collected here, not in the batch: moving them there and back at each call would be quadratic.
        let progress = std::mem::take(&mut self.progress);
        let step = read_bulks(input, progress, bounds, &mut self.spans);
        if let Step::Complete(size) = step {
            let first_arg = batch.spans.len();
            batch.spans.append(&mut self.spans);
            self.spans.shrink_to(KEPT_SPAN_COUNT_MAX);
            batch.push_multibulk(first_arg, 0, size, 1);
        }
        step
    }

    /// Keeps what is known of the request at `parsed.consumed`, or reports what is wrong with it.
    #[cold]
    #[inline(never)]
    fn stop(&mut self, input: &[u8], step: Step, mut parsed: Parsed) -> Parsed {
        let error = match step {
            Step::Complete(_) => None,
            Step::Failed(error) => Some(error),
            Step::Incomplete(progress) => {
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

/// Reads the request at `start`, of whose first line `line_scanned` bytes hold no line end, and those behind it that are alike, up
/// to `count_max` in all.
#[inline(always)]
fn start_requests(
    input: &[u8],
    start: usize,
    line_scanned: usize,
    peer: Peer,
    bounds: &Bounds,
    batch: &mut Batch,
    count_max: usize,
) -> Step {
    let rest = &input[start..];
    if rest.first() != Some(&b'*') {
        return read_inline(input, start, line_scanned, peer, batch);
    }
    let (count, after) = match short_number_line(rest, b'*') {
        Some((count, after)) => (u64::from(count), after),
        None => match count_line(rest, line_scanned) {
            NumberLine::Read(count, after) => (count, after),
            NumberLine::Incomplete { line_scanned } => {
                return Step::Incomplete(Progress { line_scanned, ..Progress::default() });
            }
            NumberLine::Failed(error) => return Step::Failed(error),
        },
    };
    let resume_at = rest.len() - after.len();
    if count == 0 {
        return Step::Complete(resume_at);
    }
    if count > bounds.count_max {
        return Step::Failed(ProtocolError::UnauthenticatedCount);
    }
    let first_arg = batch.spans.len();
    let mut progress = Progress { args_missing: count, resume_at, bulk_len: None, line_scanned: 0 };
    let step = match read_plain_bulks(rest, progress, bounds, &mut batch.spans) {
        (0, size) => Step::Complete(size),
        (args_missing, resume_at) => {
            progress.args_missing = args_missing;
            progress.resume_at = resume_at;
            read_bulks(rest, progress, bounds, &mut batch.spans)
        }
    };
    let Step::Complete(size) = step else { return step };
    let count = count_alike(rest, size, &batch.spans[first_arg..], count_max);
    batch.push_multibulk(first_arg, start, size, count);
    Step::Complete(count * size)
}

/// Reads the arguments that are still missing of the request at the front of `request`, and appends their spans.
#[inline(never)]
fn read_bulks(request: &[u8], mut progress: Progress, bounds: &Bounds, spans: &mut Vec<Span>) -> Step {
    loop {
        match read_bulk(request, &mut progress, bounds) {
            Ok(Some(span)) => spans.push(span),
            Ok(None) => return Step::Incomplete(progress),
            Err(error) => return Step::Failed(error),
        }
        (progress.args_missing, progress.resume_at) = read_plain_bulks(request, progress, bounds, spans);
        if progress.args_missing == 0 {
            return Step::Complete(progress.resume_at);
        }
    }
}

/// Reads arguments as long as all of each is there and in order; gives the number still missing, and where they start.
#[inline(always)]
fn read_plain_bulks(
    request: &[u8],
    progress: Progress,
    bounds: &Bounds,
    spans: &mut Vec<Span>,
) -> (u64, usize) {
    let mut args_missing = progress.args_missing;
    // Each step starts at the line end before a length line, and thereby checks the end of the argument before it.
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
    // The end of the last argument may not be in order, or not be there: the argument is left to a closer look.
    let last = spans.pop().unwrap_or_default();
    let length_line_size = 1 + number::decimal_digit_count(u64::from(last.len)) + LINE_END.len();
    (args_missing + 1, last.start as usize - length_line_size)
}

/// Reads one argument, with every check; `None` if it has not arrived whole.
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
    let behind = usize::try_from(len).ok().and_then(|len| body.get(len..)).unwrap_or_default();
    match behind.split_first_chunk() {
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

/// Reads an inline request: a line that ends in `\n` or `\r\n`. As in Redis and Valkey, which look for the end in a C
/// string, a line with a NUL byte has none.
#[inline(never)]
fn read_inline(input: &[u8], start: usize, line_scanned: usize, peer: Peer, batch: &mut Batch) -> Step {
    let rest = &input[start..];
    let end = find_in_line(rest, line_scanned, |byte| matches!(byte, b'\n' | 0));
    let Some(line_feed) = end.filter(|&end| rest[end] == b'\n') else {
        if rest.len() > INLINE_SIZE_MAX {
            return Step::Failed(ProtocolError::InlineTooBig);
        }
        let line_scanned = end.unwrap_or(rest.len());
        return Step::Incomplete(Progress { line_scanned, ..Progress::default() });
    };
    let line = &rest[..line_feed];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if peer == Peer::Primary && !line.is_empty() {
        return Step::Failed(ProtocolError::InlineFromPrimary);
    }
    let size = line_feed + 1;
    let first_arg = batch.spans.len();
    let inline_size = batch.inline_bytes.len();
    if inline::split_words(line, &mut batch.inline_bytes, &mut batch.spans).is_err() {
        batch.inline_bytes.truncate(inline_size);
        batch.spans.truncate(first_arg);
        return Step::Failed(ProtocolError::UnbalancedQuotes);
    }
    if batch.spans.len() > first_arg {
        batch.push_inline(first_arg, start, size);
    }
    Step::Complete(size)
}
