//! The errors of a run, with what the user can do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a run failed, or why its figures are invalid.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A file, folder or process could not be used.
    Io {
        /// The operation.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The store returned an error.
    Store(String),
    /// A store's answer is wrong: its figures are invalid.
    WrongAnswer {
        /// The requested record.
        index: u64,
        /// What is wrong with the answer.
        what: &'static str,
    },
    /// The disk is too small for the run.
    TooLittleSpace {
        /// The folder of the stores.
        folder: PathBuf,
        /// Free bytes there.
        free: u64,
        /// Bytes that a subject may need.
        needed: u64,
    },
    /// The run took longer than its limit and was ended.
    TimedOut(Duration),
    /// The child ended without a result.
    Child {
        /// How it ended.
        status: String,
        /// The end of what it printed to standard error.
        stderr: String,
    },
    /// The command line refers to something that does not exist.
    Usage(String),
}

impl Failure {
    /// For `map_err`: a [`Failure::Io`] with the operation and the file.
    pub(crate) fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let doing = format!("{doing} {}", path.display());
        move |source| Failure::Io { doing, source }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io { doing, source } => write!(f, "{doing}: {source}"),
            Failure::Store(what) => write!(f, "the store refused: {what}"),
            Failure::WrongAnswer { index, what } => write!(f, "wrong answer: record {index} {what}"),
            Failure::TooLittleSpace { folder, free, needed } => write!(
                f,
                "{} has {} MiB free and a run may need {} MiB: make room, or ask for fewer --records",
                folder.display(),
                free >> 20,
                needed >> 20
            ),
            Failure::TimedOut(limit) => write!(f, "ended after its limit of {} s", limit.as_secs()),
            Failure::Child { status, stderr } => write!(f, "{status}: {}", stderr.trim_end()),
            Failure::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}
