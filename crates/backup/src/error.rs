//! Why a backup could not be taken, restored or believed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub enum BackupError {
    /// The cluster could not do it.
    Client(zerohop_client::Error),
    /// The system refused something.
    File {
        /// What was done.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A backup is not whole: it is not used.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It is not done, because something would be lost or mixed up.
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
                write!(f, "{}: {operation} failed: {reason}", path.display())
            }
            Self::Damaged { path, what } => write!(f, "{}: {what}: this backup is not whole", path.display()),
            Self::Refused(why) => f.write_str(why),
        }
    }
}
