//! How a command ends: an exit code, and a message if it was not carried out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zerohop_client::Failure;
use zerohop_wire::Permission;
use zerohop_wire::admin::{
    REFUSED_EXISTS, REFUSED_FORBIDDEN, REFUSED_FORGOTTEN, REFUSED_UNDECIDED, REFUSED_UNFOLLOWED,
    REFUSED_UNKNOWN,
};
use zerohop_wire::ids::KeyspaceId;

use super::demo_error::DemoError;
use super::names;

/// The exit codes, for the help of every command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a negative result: not found, a condition or comparison failed,
       a wait found nothing, or a check found lost or wrong data
  2    the command line is wrong
  3    the command failed and changed nothing
  4    a write has an unknown outcome, or is done and its result could not be
       printed; a restore is done in part, or a drop or drain is
       still in progress
  130  interrupted";

/// The word for a missing permission.
pub(crate) const FORBIDDEN: &str = "forbidden";
/// The word for a missing keyspace.
pub(crate) const NO_KEYSPACE: &str = "no_keyspace";
/// The word for a name that is in use.
pub(crate) const EXISTS: &str = "exists";
/// The word for a scan that only an ordered keyspace can do.
pub(crate) const NOT_ORDERED: &str = "not_ordered";

const CODE_NO: u8 = 1;
const CODE_USAGE: u8 = 2;
const CODE_FAILED: u8 = 3;
const CODE_UNKNOWN: u8 = 4;
/// 128 plus the number of SIGINT, as in shells.
pub(crate) const CODE_INTERRUPTED: u8 = 130;

/// How a command ended that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnding {
    /// It was done.
    Done,
    /// The answer is negative. The reason was printed already.
    No,
    /// A signal stopped it, and it has cleaned up.
    Interrupted,
}

/// Why a command was not carried out.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The arguments contradict each other.
    Usage(String),
    /// The client returned an error.
    Client(zerohop_client::Error),
    /// The same for an operation on a blob, of which the error has the name.
    Blob(zerohop_client::Error),
    /// The same, with what a manager says about the cluster that did not serve it.
    Unserved { error: Box<CommandError>, why: String },
    /// No process listens at the endpoints of the cluster; which endpoints and why.
    NoCluster(String),
    /// Nothing answers, because `zerohop up` is about to start this node again.
    Restarting { node: u32, error: Box<CommandError> },
    /// No cluster could be reached.
    Unreachable(zerohop_client::Error),
    /// A process listens at this endpoint, and no cluster has answered in time.
    Silent { endpoint: String, error: zerohop_client::Error },
    /// The named file contains no valid secret.
    Secret(zerohop_client::SecretFileError),
    /// A manager refused it.
    Refused(String),
    /// A manager refused it, or something is missing; the word for programs, and the sentence.
    RefusedAs { word: &'static str, reason: String },
    /// A control command may or may not be done.
    InDoubt(String),
    /// Something was changed, but the result could not be printed.
    Unprinted { what: &'static str, reason: String },
    /// A signal has ended it: after it has sent this change, or before it has sent any; what is left of a copy or output.
    Interrupted { sent: Option<&'static str>, is_done: bool, rest: Option<String> },
    /// A signal has ended it half-way; what is left, and how to complete it.
    InterruptedPartly(String),
    /// It has begun, and continues although the command no longer waits for it.
    UnderWay(String),
    /// Some of it is done, and some is not.
    Partly(String),
    /// The answer is of a kind that this program does not know.
    Unexpected,
    /// The system refused something.
    System { operation: &'static str, path: PathBuf, reason: String },
    /// A node of a local cluster failed.
    Node(String),
    /// The demo failed.
    Demo(DemoError),
    /// It was reported already, as an event of a log.
    Logged(Box<CommandError>),
    /// The reader of the output is gone (`zerohop … | head`), so nothing is left to do.
    OutputClosed,
}

impl CommandError {
    pub(crate) fn system(operation: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::System { operation, path: path.to_owned(), reason: error.to_string() }
    }

    /// The error for the refusal of a control request with this code.
    pub(crate) fn refused(code: &str, reason: String) -> Self {
        let word = match code {
            REFUSED_UNKNOWN => NO_KEYSPACE,
            REFUSED_FORBIDDEN => FORBIDDEN,
            REFUSED_EXISTS => EXISTS,
            REFUSED_UNDECIDED | REFUSED_FORGOTTEN => return Self::InDoubt(reason),
            REFUSED_UNFOLLOWED => return Self::UnderWay(reason),
            _ => return Self::Refused(reason),
        };
        Self::RefusedAs { word, reason }
    }

    /// Whether no node has answered.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(
            self,
            Self::NoCluster(_) | Self::Restarting { .. } | Self::Unreachable(_) | Self::Silent { .. }
        )
    }

    /// Whether it may or may not be done, or is done in part.
    pub(crate) fn is_unknown(&self) -> bool {
        match self {
            Self::Client(error) | Self::Blob(error) => error.is_unknown(),
            Self::UnderWay(_) | Self::Partly(_) | Self::InDoubt(_) | Self::InterruptedPartly(_) => true,
            Self::Interrupted { sent, is_done, .. } => sent.is_some() && !is_done,
            Self::Logged(error) | Self::Unserved { error, .. } => error.is_unknown(),
            _ => false,
        }
    }

    fn code(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Usage(_) => ExitCode::from(CODE_USAGE),
            Self::Logged(error) => error.code(),
            Self::Unprinted { .. } => ExitCode::from(CODE_UNKNOWN),
            Self::Interrupted { .. } | Self::InterruptedPartly(_) => ExitCode::from(CODE_INTERRUPTED),
            error if error.is_unknown() => ExitCode::from(CODE_UNKNOWN),
            _ => ExitCode::from(CODE_FAILED),
        }
    }

    /// The error of an operation on a blob.
    pub(crate) fn of_blob(self) -> Self {
        match self {
            Self::Client(error) => Self::Blob(error),
            Self::Unserved { error, why } => Self::Unserved { error: Box::new(error.of_blob()), why },
            Self::Refused(reason) => Self::Refused(of_blob(&reason)),
            Self::RefusedAs { word, reason } => Self::RefusedAs { word, reason: of_blob(&reason) },
            other => other,
        }
    }

    /// The error of a layer whose store has refused with this text: nothing was changed.
    pub(crate) fn refused_by_store(reason: String) -> Self {
        match missing_permission(&reason) {
            Some(_) => Self::RefusedAs { word: FORBIDDEN, reason },
            None => Self::Refused(reason),
        }
    }

    /// Names the keyspace in the error if a token lacks a permission there and the name is known.
    pub(crate) fn naming<'n>(self, name: impl FnOnce(KeyspaceId) -> Option<&'n str>) -> Self {
        let named = match &self {
            Self::Client(error) => lacking(error, name),
            Self::RefusedAs { word: FORBIDDEN, reason } => missing_permission(reason)
                .and_then(|(before, failure)| with_keyspace_name(before, &failure, name)),
            _ => None,
        };
        named.map_or(self, |reason| Self::RefusedAs { word: FORBIDDEN, reason })
    }

    /// The keyspace in which a token lacks a permission, if that is the error.
    pub(crate) fn forbidden_in(&self) -> Option<KeyspaceId> {
        let of = |failure: &Failure<'_>| match failure {
            Failure::Forbidden { keyspace, .. } if *keyspace != KeyspaceId::NONE => Some(*keyspace),
            _ => None,
        };
        match self {
            Self::Client(error) => of(error.failure()?),
            Self::RefusedAs { word: FORBIDDEN, reason } => of(&missing_permission(reason)?.1),
            _ => None,
        }
    }
}

/// The error text about a blob, where the client's error calls the name a key.
pub(crate) fn of_blob(text: &str) -> String {
    match text.strip_prefix("key \"") {
        Some(rest) => format!("blob \"{rest}"),
        None => text.to_owned(),
    }
}

/// The error text with the keyspace's name, if a token lacks a permission there and the name is
/// known.
pub(crate) fn lacking<'n>(
    error: &zerohop_client::Error,
    name: impl FnOnce(KeyspaceId) -> Option<&'n str>,
) -> Option<String> {
    let failure @ Failure::Forbidden { .. } = error.failure()? else { return None };
    let whole = error.to_string();
    // The text before it is the key, which may contain the same words.
    let key = whole.strip_suffix(&failure.to_string()).unwrap_or_default();
    with_keyspace_name(key, failure, name)
}

/// The failure at the end of an error text, and the text before it, if a token lacks a permission.
fn missing_permission(text: &str) -> Option<(&str, Failure<'static>)> {
    let id = text.rsplit_once(" in keyspace ").and_then(|(_, rest)| rest.split_once(';'));
    let keyspace = id.and_then(|(id, _)| id.parse().ok()).map_or(KeyspaceId::NONE, KeyspaceId);
    let permissions = [Permission::Read, Permission::Write, Permission::Admin];
    permissions.into_iter().find_map(|permission| {
        let failure = Failure::Forbidden { permission, keyspace };
        text.strip_suffix(&failure.to_string()).map(|before| (before, failure))
    })
}

/// A text and the failure behind it, with the keyspace's name.
fn with_keyspace_name<'n>(
    before: &str,
    failure: &Failure<'_>,
    name: impl FnOnce(KeyspaceId) -> Option<&'n str>,
) -> Option<String> {
    let Failure::Forbidden { keyspace, .. } = failure else { return None };
    let name = name(*keyspace)?;
    Some(format!(
        "{before}{}",
        failure.to_string().replace(
            &format!("keyspace {keyspace};"),
            &format!("keyspace {};", names::quoted(name.as_bytes()))
        )
    ))
}

impl From<zerohop_client::Error> for CommandError {
    fn from(error: zerohop_client::Error) -> Self {
        match error {
            zerohop_client::Error::Refused { code, reason } => Self::refused(&code, reason.into()),
            zerohop_client::Error::UnderWay { .. } => Self::UnderWay(error.to_string()),
            error => Self::Client(error),
        }
    }
}

impl From<DemoError> for CommandError {
    fn from(error: DemoError) -> Self {
        Self::Demo(error)
    }
}

/// The exit code of the program.
pub(crate) fn exit_code(outcome: &Result<CommandEnding, CommandError>) -> ExitCode {
    match outcome {
        Ok(CommandEnding::Done) => ExitCode::SUCCESS,
        Ok(CommandEnding::No) => ExitCode::from(CODE_NO),
        Ok(CommandEnding::Interrupted) => ExitCode::from(CODE_INTERRUPTED),
        Err(error) => error.code(),
    }
}

impl std::error::Error for CommandError {}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Node(what) => f.write_str(what),
            Self::Client(error) => error.fmt(f),
            Self::Blob(error) => f.write_str(&of_blob(&error.to_string())),
            Self::Unserved { error, why } => write!(f, "{error}. {why}"),
            Self::NoCluster(why) => write!(
                f,
                "{why}. Start a cluster with `zerohop up` unless one runs, which starts an ended node again, or name another node or \
                 cluster with --endpoint or ZEROHOP_ENDPOINT"
            ),
            Self::Restarting { node, error } => {
                let why = match &**error {
                    Self::NoCluster(why) => why.clone(),
                    Self::Unreachable(error) => error.to_string(),
                    other => other.to_string(),
                };
                write!(
                    f,
                    "{why}. Node {node} has ended, and `zerohop up` is about to start it again: repeat the command when it serves. \
                     `zerohop status --wait served` waits for that"
                )
            }
            Self::Unreachable(error) => write!(
                f,
                "no cluster answers: {error}. Start one with `zerohop up`, or name one with --endpoint or \
                 ZEROHOP_ENDPOINT"
            ),
            Self::Silent { endpoint, error } => write!(
                f,
                "a process listens at {endpoint} and does not answer: {error}. It is stopped, overloaded or another program: \
                 `ss -ltnp` names it"
            ),
            Self::Secret(error) => error.fmt(f),
            Self::Refused(reason)
            | Self::RefusedAs { reason, .. }
            | Self::InDoubt(reason)
            | Self::UnderWay(reason)
            | Self::Partly(reason) => f.write_str(reason),
            Self::Unprinted { what, reason } => write!(
                f,
                "{what} is done, but its result could not be printed: writing to standard output failed: {reason}. Do \
                 not repeat it without a look at what is there"
            ),
            Self::Interrupted { sent: None, rest: None, .. } => {
                f.write_str("interrupted; nothing was changed")
            }
            Self::Interrupted { sent: None, rest: Some(rest), .. } => {
                write!(f, "interrupted; nothing was changed in the cluster, and {rest}")
            }
            Self::Interrupted { sent: Some(what), is_done: true, .. } => {
                write!(f, "interrupted; {what} is done")
            }
            Self::Interrupted { sent: Some(what), is_done: false, .. } => write!(
                f,
                "interrupted; the outcome of {what} is unknown, and a part of it may be done. Check what is there before you \
                 repeat it"
            ),
            Self::InterruptedPartly(left) => write!(f, "interrupted; {left}"),
            Self::Unexpected => {
                f.write_str("the manager's answer is none that this program knows: bring both up to date")
            }
            Self::System { operation, path, reason } => {
                write!(f, "{}: {operation} failed: {reason}", names::path(path))
            }
            Self::Demo(error) => error.fmt(f),
            Self::Logged(error) => error.fmt(f),
            Self::OutputClosed => f.write_str("the reader of the output has closed it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_client::Reason;

    use super::*;

    #[test]
    fn refusal_that_leaves_the_outcome_open_is_unknown() {
        let open = [REFUSED_UNDECIDED, REFUSED_FORGOTTEN, REFUSED_UNFOLLOWED].map(|code| (code, true));
        for (code, is_unknown) in open.into_iter().chain([(REFUSED_EXISTS, false)]) {
            let error = zerohop_client::Error::Refused { code: code.into(), reason: "why".into() };
            let error = CommandError::from(error);
            assert_eq!((error.is_unknown(), &*error.to_string()), (is_unknown, "why"), "{code}");
        }
    }

    #[test]
    fn missing_permission_error_names_keyspace_if_known() {
        let lacks = |keyspace| {
            let failure = Failure::Forbidden { permission: Permission::Write, keyspace };
            let reason = Box::new(Reason::Answer { failure });
            CommandError::Client(zerohop_client::Error::Operation {
                key: Some(b"keyspace 7;"[..].into()),
                reason,
            })
        };
        let name = |id| (id == KeyspaceId(7)).then_some("papers");
        let message = lacks(KeyspaceId(7)).naming(name).to_string();
        assert!(message.starts_with("key \"keyspace 7;\": the token does not"), "{message}");
        assert!(message.contains("needs `write` in keyspace \"papers\"; ask"), "{message}");
        let message = lacks(KeyspaceId::NONE).naming(name).to_string();
        assert!(message.contains("in all keyspaces"), "{message}");
        assert_eq!(CommandError::Unexpected.naming(name).to_string(), CommandError::Unexpected.to_string());
    }

    #[test]
    fn missing_permission_is_found_in_the_text_of_a_layer() {
        let text = |keyspace| {
            let failure = Failure::Forbidden { permission: Permission::Write, keyspace };
            format!("key \"in keyspace 9;\": {failure}")
        };
        let error = CommandError::refused_by_store(text(KeyspaceId(7)));
        assert_eq!(error.forbidden_in(), Some(KeyspaceId(7)));
        assert_eq!(crate::common::failure::reason(&error), FORBIDDEN);
        let message = error.naming(|id| (id == KeyspaceId(7)).then_some("papers")).to_string();
        assert!(message.starts_with("key \"in keyspace 9;\": the token does not"), "{message}");
        assert!(message.contains("needs `write` in keyspace \"papers\"; ask"), "{message}");
        let of_all = CommandError::refused_by_store(text(KeyspaceId::NONE));
        assert_eq!((of_all.forbidden_in(), crate::common::failure::reason(&of_all)), (None, FORBIDDEN));
        let other = CommandError::refused_by_store("the keyspace is gone".to_owned());
        assert!(matches!(other, CommandError::Refused(_)), "{other:?}");
    }
}
