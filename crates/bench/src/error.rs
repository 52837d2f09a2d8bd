//! Benchmark errors by origin.

use std::io;

use tool::interrupt::Interrupted;
use tool::{Failure, ToolError};

/// Why a benchmark ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Invalid options or arguments.
    #[error("{0}")]
    Usage(String),
    /// A server did not start, closed a connection, or sent an invalid reply.
    #[error("server {name}: {reason}")]
    Server {
        /// The server's name as the user gave it.
        name: String,
        /// The observed failure.
        reason: String,
    },
    /// The echo server failed.
    #[error("echo: {0}")]
    Echo(#[from] reactor::ReactorError),
    /// An operation of the environment failed.
    #[error("{doing}: {source}")]
    Environment {
        /// The attempted operation.
        doing: String,
        /// The underlying error.
        source: io::Error,
    },
    /// All measurements are complete, but servers sent error replies.
    #[error("{0} error replies (see the remarks; --allow-errors makes this a success)")]
    ErrorReplies(u64),
    /// Some of the requested measurements failed.
    #[error("{0} measurements failed (see the remarks)")]
    Incomplete(usize),
    /// Ctrl-C was pressed.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl ToolError for BenchError {
    fn failure(&self) -> Failure {
        match self {
            Self::Usage(_) => Failure::Usage,
            Self::Interrupted(_) => Failure::Interrupted,
            Self::Server { .. }
            | Self::Echo(_)
            | Self::Environment { .. }
            | Self::Incomplete(_)
            | Self::ErrorReplies(_) => Failure::Other,
        }
    }
}

impl BenchError {
    /// Creates a [`BenchError::Usage`] with this text.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Creates a [`BenchError::Server`].
    pub fn server(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Server { name: name.into(), reason: reason.into() }
    }

    /// Wraps an I/O error with the attempted operation, for `map_err`.
    pub fn environment(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Environment { doing, source }
    }
}
