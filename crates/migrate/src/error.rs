//! Errors of a move by origin.

use std::io;
use std::time::Duration;

use tool::interrupt::Interrupted;
use tool::{Failure, ToolError};

/// The reason why a move ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Invalid options or arguments.
    #[error("{0}")]
    Usage(String),
    /// A server replied with an error, or with something unexpected.
    #[error("{server}: {reason}")]
    Server {
        /// Role and address, as in `the source 10.0.0.5:6379`.
        server: String,
        /// The error.
        reason: String,
    },
    /// A connection to a server failed.
    #[error("{server}: {source}")]
    Connection {
        /// Role and address.
        server: String,
        /// The underlying error.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("{doing}: {source}")]
    File {
        /// The attempted operation.
        doing: String,
        /// The underlying error.
        source: io::Error,
    },
    /// A condition of the requested step is not met; nothing was changed by the step.
    #[error("{0}")]
    Refused(String),
    /// Ctrl-C was pressed.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl ToolError for MigrateError {
    fn failure(&self) -> Failure {
        match self {
            Self::Usage(_) => Failure::Usage,
            Self::Interrupted(_) => Failure::Interrupted,
            Self::Server { .. } | Self::Connection { .. } | Self::File { .. } | Self::Refused(_) => {
                Failure::Other
            }
        }
    }
}

impl MigrateError {
    /// Creates a [`MigrateError::Usage`].
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Creates a [`MigrateError::Refused`].
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    /// Creates a [`MigrateError::Server`].
    pub fn server(server: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Server { server: server.into(), reason: reason.into() }
    }

    /// Wraps an error of a file with the attempted operation, for `map_err`.
    pub fn file(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::File { doing, source }
    }
}

/// A time in messages, such as `0.8 s`.
pub fn in_seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
