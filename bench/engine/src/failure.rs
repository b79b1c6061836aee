//! What can go wrong in a run, told so that one knows what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a run, or all of them, did not happen or cannot be believed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A file, folder or process could not be used.
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The store itself refused.
    Store(String),
    /// The store answered, and wrongly: its figures are worth nothing.
    WrongAnswer {
        /// The record asked for.
        index: u64,
        /// What was wrong with the answer.
        what: &'static str,
    },
    /// The disk is too small for the run.
    TooLittleSpace {
        /// Where the stores would go.
        folder: PathBuf,
        /// Bytes free there.
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
    /// The command line asks for something that is not there.
    Usage(String),
}

impl Failure {
    /// For `map_err`: an [`Failure::Io`] that says what was being done, to which file.
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
