//! The reasons why a backup could not be created, restored or verified.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use zerohop_wire::escaped::shown_path;

/// See the module.
#[derive(Debug)]
pub enum BackupError {
    /// The cluster has refused or failed an operation.
    Client(zerohop_client::Error),
    /// The system has refused a file operation.
    File {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// A backup is not complete or is corrupt: it is not used.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// The folder of the backup does not exist.
    Absent(PathBuf),
    /// Refused, because data would be lost or mixed.
    Refused(String),
}

impl BackupError {
    pub(crate) fn file(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::File { operation, path: path.to_owned(), reason: error.to_string() }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

impl From<zerohop_client::Error> for BackupError {
    fn from(error: zerohop_client::Error) -> Self {
        Self::Client(error)
    }
}

impl std::error::Error for BackupError {}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::File { operation, path, reason } => {
                write!(f, "{}: {operation} failed: {reason}", shown_path(path))
            }
            Self::Damaged { path, what } => {
                write!(f, "{}: {what}: this backup is incomplete", shown_path(path))
            }
            Self::Absent(folder) => write!(f, "{}: there is no such folder", shown_path(folder)),
            Self::Refused(why) => f.write_str(why),
        }
    }
}
