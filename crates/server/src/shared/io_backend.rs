//! The I/O backend of event loops, as configured.

use config::{Config, IoBackend};
use reactor::BackendChoice;

/// The backend that `io-backend` names.
#[must_use]
pub fn chosen(config: &Config) -> BackendChoice {
    match config.io_backend {
        IoBackend::Auto => BackendChoice::Auto,
        IoBackend::IoUring => BackendChoice::Uring,
        IoBackend::Epoll => BackendChoice::Epoll,
    }
}
