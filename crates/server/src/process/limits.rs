//! The descriptors that the server needs besides those of its clients.

use config::Config;

/// Descriptors that the server needs besides those of its clients and workers: streams, listeners with their
/// second handles, signals and faults, and briefly open ones.
const OWN_DESCRIPTORS: u64 = 24;
/// Descriptors of a worker: its event loop's, its waker's, and the times of its thread.
const THREAD_DESCRIPTORS: u64 = 3;

/// Descriptors reserved for the server itself.
pub fn own_descriptors(config: &Config) -> u64 {
    OWN_DESCRIPTORS + THREAD_DESCRIPTORS * u64::from(config.io_threads.count())
}
