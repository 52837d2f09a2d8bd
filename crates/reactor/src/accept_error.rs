//! Classification of accept errors, for both backends.

use std::io;
use std::time::Duration;

/// A listener's back-off after a failed accept, unless a connection closes earlier.
pub(crate) const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Whether the error concerns one connection only: a peer that disconnected in the queue, or a network error
/// that accept(2) says to treat alike.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EINTR
                | libc::EAGAIN
                | libc::ECONNABORTED
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}
