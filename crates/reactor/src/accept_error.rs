//! What to make of errors of accept, on either backend.

use std::io;
use std::time::Duration;

/// How long a listener rests after a failure to accept, unless a connection closes before.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// A connection that went away in the queue, or a network error that accept(2) says to treat like that.
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
