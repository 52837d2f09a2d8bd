//! What can go wrong in a benchmark, by whose fault it is.

use std::io;

/// Why a benchmark ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The user asked for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A server did not start, broke off, or spoke nonsense.
    #[error("server {name}: {reason}")]
    Server {
        /// The server's name as the user gave it.
        name: String,
        /// What was seen of it.
        reason: String,
    },
    /// The echo server failed.
    #[error("echo: {0}")]
    Echo(#[from] reactor::ReactorError),
    /// The environment failed.
    #[error("{doing}: {source}")]
    Environment {
        /// What was tried.
        doing: String,
        /// How it failed.
        source: io::Error,
    },
    /// Everything was measured, and servers have replied with errors.
    #[error("{0} error replies (see the remarks; --allow-errors takes them for success)")]
    ErrorReplies(u64),
    /// Something was measured, but not everything that was asked for.
    #[error("{0} measurements broke off (see the remarks)")]
    Incomplete(usize),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// A [`BenchError::Usage`] with this text.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// A [`BenchError::Server`].
    pub fn server(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Server { name: name.into(), reason: reason.into() }
    }

    /// Wraps an I/O error with what was tried, for `map_err`.
    pub fn environment(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Environment { doing, source }
    }
}
