//! Every fixed limit of the server, in one file, with the relations between them asserted.
//!
//! Limits that an operator may change live in the `config` crate; these are the ones that the code is built on.

/// Number of slots the keyspace is divided into, as in Redis Cluster.
pub const SLOT_COUNT: usize = 16_384;

/// Number of hash bits that name a slot outside cluster mode: the top ones.
pub const SLOT_BITS: u32 = 14;

/// Largest number of server threads.
pub const THREAD_COUNT_MAX: usize = 256;

/// Largest number of requests planned, prefetched and executed as one batch.
pub const BATCH_REQUEST_COUNT_MAX: usize = 128;

/// Largest query buffer, in bytes: positions inside it are 32-bit.
pub const QUERY_BUFFER_SIZE_MAX: usize = u32::MAX as usize;

/// Longest inline request, or length line of a multibulk request, in bytes.
pub const INLINE_SIZE_MAX: usize = 64 * 1024;

/// Largest number of arguments of one request: what a C `int` holds, as in Redis.
pub const ARGUMENT_COUNT_MAX: usize = i32::MAX as usize;

const _: () = assert!(1 << SLOT_BITS == SLOT_COUNT);
const _: () = assert!(THREAD_COUNT_MAX <= u16::MAX as usize);
