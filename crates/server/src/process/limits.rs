//! The descriptors that the server needs besides those of its clients.

use config::Config;

/// Descriptors that the server needs besides those of its clients and workers: streams, listeners with their
/// second handles, signals and faults, and briefly open ones.
const OWN_DESCRIPTORS: u64 = 24;
/// Descriptors of a worker: its event loop's, its waker's, and the times of its thread.
const THREAD_DESCRIPTORS: u64 = 3;

/// Descriptors of the admin port besides those of its connections: its listeners, its event loop and its waker.
const ADMIN_DESCRIPTORS: u64 = 20;

/// Descriptors reserved for the server itself.
pub fn own_descriptors(config: &Config) -> u64 {
    let of_admin_port = match config.admin_port {
        0 => 0,
        _ => ADMIN_DESCRIPTORS + dashboard::CONNECTION_COUNT_MAX as u64,
    };
    OWN_DESCRIPTORS + of_admin_port + THREAD_DESCRIPTORS * u64::from(config.io_threads.count())
}
