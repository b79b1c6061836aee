//! What can go wrong in a run, told so that one knows what to do.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::workload::Key;

/// Why a run, or all of them, did not happen or cannot be believed.
#[derive(Debug)]
pub enum Failure {
    /// A file, socket or process could not be used.
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A server answered, and wrongly: its figures are worth nothing.
    WrongAnswer {
        /// The key asked for.
        key: Key,
        /// What was wrong with the answer.
        what: String,
    },
    /// A server said something that its protocol does not allow, or that it refuses.
    Protocol(String),
    /// The run took longer than its limit and was ended.
    TimedOut(Duration),
    /// A child ended without a result, or before its time.
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
    /// For `map_err`: a [`Failure::Io`] that says what was being done, to which file.
    pub fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let doing = format!("{doing} {}", path.display());
        move |source| Failure::Io { doing, source }
    }

    /// For `map_err`: a [`Failure::Io`] that says what was being done.
    pub fn while_doing<E: Into<io::Error>, D: Into<String>>(doing: D) -> impl FnOnce(E) -> Failure {
        move |source| Failure::Io { doing: doing.into(), source: source.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io { doing, source } => write!(f, "{doing}: {source}"),
            Failure::WrongAnswer { key, what } => {
                write!(f, "wrong answer: record {} {what}", String::from_utf8_lossy(key))
            }
            Failure::Protocol(what) => write!(f, "the server said {what}"),
            Failure::TimedOut(limit) => write!(f, "ended after its limit of {} s", limit.as_secs()),
            Failure::Child { status, stderr } => write!(f, "{status}: {}", stderr.trim_end()),
            Failure::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}
