//! How a reactor is set up, and what may go wrong then.

use std::io;

/// Which kernel interface to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// io_uring if the kernel and the sandbox allow everything that is needed, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
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
    /// Most connections accepted from one listener in a turn, so that a storm of them leaves time for the others.
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

/// A reactor could not be made or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum ReactorError {
    /// io_uring was demanded and is not to be had.
    #[error("io_uring can't be used: {step}: {source}")]
    Uring {
        /// What was tried.
        step: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A system call failed that does not fail on a healthy system.
    #[error("{call} failed: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl ReactorError {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}
