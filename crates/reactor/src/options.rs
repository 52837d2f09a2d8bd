//! The settings of a reactor, and the errors of its creation.

use std::io;

/// The choice of kernel interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// io_uring if the kernel and the sandbox allow all required operations, else epoll.
    #[default]
    Auto,
    /// io_uring; an error if unavailable.
    Uring,
    /// epoll.
    Epoll,
}

/// Sizes of a reactor. The defaults suit a server thread.
#[derive(Clone, Copy, Debug)]
pub struct ReactorOptions {
    /// Submission queue entries of io_uring, rounded up to a power of two. Not a limit on connections: a full
    /// queue is submitted early.
    pub entries: u32,
    /// Size of a provided receive buffer of io_uring.
    pub recv_buffer_size: u32,
    /// Number of provided receive buffers of io_uring, rounded up to a power of two, at most 32,768.
    pub recv_buffer_count: u16,
    /// Size of the receive buffer of epoll, of which a thread normally has one.
    pub shared_buffer_size: u32,
    /// Maximum number of connections accepted from one listener per turn, so that a burst does not delay other
    /// connections.
    pub accept_count_max: u32,
}

impl Default for ReactorOptions {
    fn default() -> Self {
        Self {
            entries: 1024,
            recv_buffer_size: 16 * 1024,
            recv_buffer_count: 128,
            shared_buffer_size: 64 * 1024,
            accept_count_max: 128,
        }
    }
}

/// An error that prevents a reactor from starting or continuing.
#[derive(Debug, thiserror::Error)]
pub enum ReactorError {
    /// io_uring was requested and is unavailable.
    #[error("io_uring can't be used: {step}: {source}")]
    Uring {
        /// The operation that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A system call failed that does not fail on a healthy system.
    #[error("{call} failed: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl ReactorError {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}
