//! Errors that stop the demo. Lost data is not such an error: the demo reports it.

use std::fmt;
use std::path::{Path, PathBuf};

use zerohop_client::Error;

use super::names;

#[derive(Debug)]
pub(crate) enum DemoError {
    /// DIR does not exist, or is a file.
    NotAFolder { path: PathBuf, reason: String },
    /// DIR has no file.
    NoFiles { path: PathBuf },
    /// There are more files than the demo keeps in memory.
    TooManyFiles { most: usize },
    /// The folder for the data is not empty.
    DataNotEmpty { path: PathBuf },
    /// The system refused something.
    System { operation: &'static str, path: PathBuf, reason: String },
    /// The cluster accepted no more, or did not answer.
    Cluster { doing: &'static str, error: Error },
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::NotAFolder { path, reason } => {
                write!(f, "{}: {reason}: name a folder whose files are to be stored", names::path(path))
            }
            DemoError::NoFiles { path } => {
                write!(f, "{}: has no files to store: name a folder that has some", names::path(path))
            }
            DemoError::TooManyFiles { most } => {
                write!(f, "there are more than {most} files: name a smaller folder")
            }
            DemoError::DataNotEmpty { path } => {
                write!(f, "{}: is not empty: name a new or an empty folder with --data", names::path(path))
            }
            DemoError::System { operation, path, reason } => {
                write!(f, "{}: {operation} failed: {reason}", names::path(path))
            }
            DemoError::Cluster { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for DemoError {}

impl DemoError {
    pub(crate) fn cluster(doing: &'static str) -> impl Fn(Error) -> DemoError {
        move |error| DemoError::Cluster { doing, error }
    }

    pub(crate) fn system(operation: &'static str, path: &Path, error: &std::io::Error) -> DemoError {
        DemoError::System { operation, path: path.to_owned(), reason: error.to_string() }
    }
}
