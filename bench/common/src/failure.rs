//! The errors of a run, with what the user can do.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::workload::Key;

/// Why a run failed, or why its figures are invalid.
#[derive(Debug)]
pub enum Failure {
    /// A file, socket or process could not be used.
    Io {
        /// The operation.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A server's answer is wrong: its figures are invalid.
    WrongAnswer {
        /// The requested key.
        key: Key,
        /// What is wrong with the answer.
        what: String,
    },
    /// A server has violated its protocol, or has refused a request.
    Protocol(String),
    /// The run took longer than its limit and was ended.
    TimedOut(Duration),
    /// A child ended without a result, or too early.
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
    pub fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let doing = format!("{doing} {}", path.display());
        move |source| Failure::Io { doing, source }
    }

    /// For `map_err`: a [`Failure::Io`] with the operation.
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
