//! Errors of the append-only files.

use std::io;
use std::path::Path;

use crate::manifest::ManifestError;

/// Why the directory can't be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// An operation of the file system failed.
    #[error("can't {action}: {source}")]
    Disk {
        /// The operation: a verb and a file.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// The manifest is not valid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest lists this file, which does not exist.
    #[error("the AOF manifest lists {0} which can't be opened: No such file or directory")]
    Missing(String),
    /// Another process uses the directory.
    #[error("the append-only files in {directory} are {holder}, which has locked {path}")]
    Locked {
        /// The directory.
        directory: String,
        /// The lock file.
        path: String,
        /// "in use by process N".
        holder: String,
    },
    /// The directory has append-only files of another data set, which a move would overwrite.
    #[error("{0} has append-only files that are not this server's present ones: move or remove them")]
    Foreign(String),
    /// A write or sync has failed, and [`super::AppendOnlyFiles::rollback`] has not succeeded since.
    #[error("an earlier write of the append-only file has failed")]
    Failed,
    /// No file is being appended to, or no base being written: an earlier attempt to begin it has failed.
    #[error("the append-only file is not open")]
    Closed,
}

pub(super) fn doing(verb: &str, path: &Path, source: io::Error) -> FilesError {
    FilesError::Disk { action: format!("{verb} {}", path.display()), source }
}
