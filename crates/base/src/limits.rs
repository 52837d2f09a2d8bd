//! All fixed limits of the server, with assertions of the relations between them.
//!
//! Limits that an operator may change are in the `config` crate.

/// Number of slots of the keyspace, as in Redis Cluster.
pub const SLOT_COUNT: usize = 16_384;

/// Number of top hash bits that select a slot outside cluster mode.
pub const SLOT_BITS: u32 = 14;

/// Largest number of workers.
pub const THREAD_COUNT_MAX: usize = 256;

/// The number of the thread that replays an append-only file. It follows the numbers of the workers.
pub const REPLAY_THREAD: usize = THREAD_COUNT_MAX;

/// Largest number of threads that decode an RDB file. Their numbers follow [`REPLAY_THREAD`].
pub const DECODER_COUNT_MAX: usize = 16;

/// Number of threads that may change data: the workers, the replay and the decoders.
pub const WRITER_COUNT_MAX: usize = REPLAY_THREAD + 1 + DECODER_COUNT_MAX;

/// Largest number of requests planned, prefetched and executed as one batch.
pub const BATCH_REQUEST_COUNT_MAX: usize = 128;

/// Largest query buffer, in bytes: positions in it have 32 bits.
pub const QUERY_BUFFER_SIZE_MAX: usize = u32::MAX as usize;

/// Highest offset at which a replication stream may begin: above it, there is no room for the bytes that follow.
pub const STREAM_OFFSET_MAX: u64 = 1 << 62;

/// Longest inline request, or length line of a multibulk request, in bytes.
pub const INLINE_SIZE_MAX: usize = 64 * 1024;

/// Largest number of arguments of one request: the maximum of a C `int`, as in Redis.
pub const ARGUMENT_COUNT_MAX: usize = i32::MAX as usize;

const _: () = assert!(1 << SLOT_BITS == SLOT_COUNT);
const _: () = assert!(THREAD_COUNT_MAX <= u16::MAX as usize);
