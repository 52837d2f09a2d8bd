//! What a connection has received and not executed, and whether more is received.

use wire::request::Parser;

use super::large_argument::LargeArgument;
use super::query_buffer::QueryBuffer;
use super::size_counted;

/// The smallest buffer for waiting input, the largest that is kept while nothing waits, and the size up
/// to which it is not trimmed, in bytes. These are the sizes that Valkey shows to clients and tests.
const QUERY_BUFFER_SIZE_MIN: usize = 16 << 10;
const QUERY_BUFFER_KEPT_MAX: usize = 512 << 10;
const QUERY_BUFFER_TRIMMED_MIN: usize = 32 << 10;

/// The largest query buffer that is kept while it is not needed, in bytes. With `maxmemory` it is smaller: the buffer
/// counts for the limit, and would evict keys.
#[must_use]
pub fn query_size_kept_max(maxmemory: u64) -> usize {
    if maxmemory == 0 { QUERY_BUFFER_KEPT_MAX } else { QUERY_BUFFER_TRIMMED_MIN }
}

/// See the module documentation.
#[derive(Default)]
pub struct Input {
    /// Input that is not executed yet. Begins with the first byte of a request.
    pub query: QueryBuffer,
    /// The peak of waiting input since the buffer was last trimmed, in bytes.
    query_peak: usize,
    /// Bytes of the buffer of waiting input that are counted as about to be freed.
    pub passing_size: usize,
    /// Bytes of large input that were executed as they arrived since it last gave others a turn.
    pub large_size: usize,
    /// Whether an event that was taken ahead ends within a request, or may do so: what follows can't be planned.
    pub is_within_request: bool,
    /// Whether nothing has arrived for a while.
    is_quiet: bool,
    /// Whether nothing more is received because much input waits.
    pub is_paused: bool,
    /// Whether complete requests remain. They wait for their turn (then the connection is among the
    /// worker's ready ones), or for output to be sent.
    pub has_more: bool,
    /// Whether the peer will send no more.
    pub at_eof: bool,
    /// Whether the peer has disconnected while receiving was paused; input that it sent before may remain.
    pub has_hung_up: bool,
}

impl Input {
    /// Whether the peer is known to be gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.at_eof || self.has_hung_up
    }

    /// Returns the unexecuted rest of the query buffer that was taken out. No input arrives meanwhile.
    pub fn take_query_back(&mut self, parser: &mut Parser, mut query: QueryBuffer, done: usize) {
        debug_assert!(self.query.is_empty());
        query.consume(done);
        if let Some(argument) = query.argument() {
            argument.continue_parsing(parser);
        }
        self.query = query;
    }

    /// Frees memory that the input does not need, if the query buffer is larger than `kept_max` bytes. To be called
    /// unless its requests are about to be executed.
    pub fn release_query(&mut self, kept_max: usize) {
        let (len, size) = (self.query.len(), self.query.capacity());
        if size <= kept_max || self.query.argument().is_some() {
            return;
        }
        if len == 0 {
            self.query = QueryBuffer::default();
        } else if size > 2 * len {
            self.query.shrink_to(len.max(QUERY_BUFFER_SIZE_MIN));
        }
    }

    /// Frees memory that a quiet connection does not need.
    pub fn shrink(&mut self) {
        self.is_quiet = true;
        self.query.shrink_to(0);
        self.query.shrink_argument();
    }

    /// Frees memory that the input has not needed since the last call.
    pub fn trim_query(&mut self) {
        let needed = std::mem::replace(&mut self.query_peak, self.query.len());
        if self.query.capacity() > QUERY_BUFFER_TRIMMED_MIN.max(2 * needed) {
            self.query.shrink_to(needed.max(QUERY_BUFFER_SIZE_MIN));
        }
    }

    /// Keeps input that can't be executed yet. The buffer grows by doubling, but not beyond the end of a
    /// large announced argument, and never by an announcement alone. `divides`: a large argument is received in a buffer of
    /// its own.
    pub fn keep(&mut self, parser: &mut Parser, data: &[u8], divides: bool) {
        self.is_quiet = false;
        if divides {
            self.query.begin_argument(parser.announced());
        }
        let data = self.query.fill_argument(data, parser);
        if data.is_empty() {
            return;
        }
        let needed = self.query.len() + data.len();
        self.query_peak = self.query_peak.max(needed);
        if needed > self.query.capacity() {
            let doubled = needed.max(2 * self.query.capacity()).max(QUERY_BUFFER_SIZE_MIN);
            let announced = parser.announced().end;
            let room =
                if announced < needed { doubled } else { doubled.min(announced.max(QUERY_BUFFER_SIZE_MIN)) };
            self.query.make_room(data.len(), room);
        } else {
            self.query.make_room(data.len(), 0);
        }
        self.query.push(data);
    }

    /// The capacity of its buffer in bytes. An announced argument counts in full, unless the
    /// connection is quiet: whether there is room for the argument is decided before it arrives.
    pub(super) fn capacity(&self, parser: &Parser) -> usize {
        if self.query.is_empty() {
            // No request is incomplete.
            return self.query.capacity();
        }
        let announced = if self.is_quiet { 0 } else { parser.announced().end };
        let argument_size = self.query.argument().map_or(0, LargeArgument::capacity);
        (self.query.capacity() + argument_size).max(announced)
    }

    /// Bytes of input, without those before a large argument that is arriving: these are parsed, and no longer count.
    pub(super) fn unparsed_size(&self, parser: &Parser) -> usize {
        let announced = parser.announced();
        let is_large = size_counted(announced.len()) > 0;
        let parsed = if is_large { announced.start.min(self.query.len()) } else { 0 };
        self.query.len() - parsed + self.query.argument().map_or(0, LargeArgument::arriving_size)
    }
}
