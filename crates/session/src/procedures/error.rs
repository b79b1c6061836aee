//! Errors of the client: each says what happened, to which key, and what the user can do.

use std::fmt;
use std::time::Duration;

use crate::SessionError as Reason;
use zerohop_placement::Division;
use zerohop_wire::admin::leaves_outcome_open;
use zerohop_wire::contents::blob_name_of;
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::{AbortReason, Advice, Failure};

/// Maximum number of bytes of a key that an error shows.
const KEY_BYTES_SHOWN: usize = 64;

/// The reason why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The client accepted the operation, and it failed.
    Operation {
        /// The first bytes of the key, if the operation has one.
        key: Option<Box<[u8]>>,
        /// How the operation ended. Only [`Reason::Unknown`] leaves open whether a write was done.
        reason: Box<Reason>,
    },
    /// The state of a blob does not allow the operation.
    Blob {
        /// The first bytes of the blob's name.
        name: Box<[u8]>,
        /// The reason.
        why: BlobError,
    },
    /// The endpoint is not an address.
    Endpoint {
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A blocking call inside an asynchronous runtime, which the call would block: use the asynchronous client there.
    InsideRuntime,
    /// The runtime of a blocking client could not be started.
    Runtime {
        /// The message of the operating system.
        why: Box<str>,
    },
    /// The transaction has already been committed or aborted.
    Ended,
    /// The transaction cannot read this record before it commits: it has written the record, and the read is not of the whole record, or the
    /// record is longer than a page.
    NotReadBack {
        /// The first bytes of the key.
        key: Box<[u8]>,
    },
    /// The cursor of a watch is of another keyspace, perhaps an earlier one of this name.
    OtherKeyspace,
    /// A manager refused the request. [`Error::is_unknown`] says whether it may have been done nevertheless.
    Refused {
        /// For programs: one of the `REFUSED_` constants of `zerohop-wire`.
        code: Box<str>,
        /// For people: what happened and what the user can do.
        reason: Box<str>,
    },
    /// The drop of a keyspace is still in progress and continues by itself: see [`ClusterHandle::drop_keyspace`](super::ClusterHandle::drop_keyspace).
    UnderWay {
        /// Its name.
        keyspace: Box<str>,
        /// How long the client waited.
        waited: Duration,
        /// What the drop waits for.
        reason: Box<str>,
    },
    /// The server's reply does not belong to this operation: the versions of client and server are not compatible.
    Unexpected,
}

/// The reason why an operation on a blob was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobError {
    /// There is no blob of this name: [`Error::failure`] returns `NotFound`.
    Absent,
    /// The call reads or writes more bytes than one call may.
    TooLong {
        /// Maximum number of bytes.
        limit: u64,
    },
    /// The blob would have more chunks than a blob may have.
    ExceedsMaximumSize {
        /// Maximum length in bytes of a blob with chunks of this size; if the chunk size is not known yet, with the largest chunks.
        limit: u64,
    },
    /// Other clients truncated, wrote or extended the blob so often that this operation did not get its turn. During a staged extension, any such
    /// change by another client has this result.
    Contended,
    /// The attributes do not fit into the header of a blob that was replaced, beside the header's own fields.
    Attributes {
        /// Maximum number of bytes of the attributes.
        limit: u64,
    },
    /// A put of the blob is in progress, or its writer ended before the end: the blob is not complete.
    Unfinished,
    /// Another client wrote to the blob or replaced it while the stream read it: the bytes read are not one version.
    ChangedMeanwhile,
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no blob of this name"),
            Self::TooLong { limit } => write!(
                f,
                "one operation may write, replace, truncate or read at most {limit} bytes. Use several steps, or a staged extension; outside \
                 a transaction a truncation or removal may have any length"
            ),
            Self::ExceedsMaximumSize { limit } => write!(
                f,
                "it would end beyond {limit} bytes, and no blob of such chunks is longer: nothing was changed; one of larger \
                 chunks may be"
            ),
            Self::Attributes { limit } => write!(
                f,
                "more attributes than the {limit} bytes that fit beside the name of a blob that is replaced: nothing was changed"
            ),
            Self::Contended => f.write_str("other clients change it too often: try again"),
            Self::Unfinished => f.write_str(
                "it is not finished: it is being put, or its writer ended before all of it was there; put it again, or remove it",
            ),
            Self::ChangedMeanwhile => f.write_str(
                "it was changed or replaced while it was read, so the bytes are not one version: read it again",
            ),
        }
    }
}

impl Error {
    pub(crate) fn blob(name: &[u8], why: BlobError) -> Self {
        let name = blob_name_of(name);
        Self::Blob { name: name[..name.len().min(KEY_BYTES_SHOWN)].into(), why }
    }

    pub(crate) fn about(key: &[u8], reason: Reason) -> Self {
        let key = blob_name_of(key);
        let key = Some(key[..key.len().min(KEY_BYTES_SHOWN)].into());
        Self::Operation { key, reason: Box::new(reason) }
    }

    pub(crate) fn general(reason: Reason) -> Self {
        Self::Operation { key: None, reason: Box::new(reason) }
    }

    /// The error of an operation on this key or blob, if it does not name its own.
    pub(crate) fn naming(self, key: &[u8]) -> Self {
        match self {
            Self::Operation { key: None, reason } => Self::about(key, *reason),
            other => other,
        }
    }

    /// The keyspace of a partition that was split since the request for it was made, and the present division.
    pub(crate) fn split_into(&self) -> Option<(KeyspaceId, &Division)> {
        match self {
            Self::Operation { reason, .. } => match &**reason {
                Reason::Split { keyspace, division } => Some((*keyspace, division)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The failure that the server reported, if that is the reason.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure<'static>> {
        match self {
            Self::Operation { reason, .. } => match &**reason {
                Reason::Answer { failure } => Some(failure),
                _ => None,
            },
            Self::Blob { why: BlobError::Absent, .. } => Some(&Failure::NotFound),
            _ => None,
        }
    }

    /// Whether a transaction conflicted with others: nothing of it was done, and the caller may begin it again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Operation { reason, .. } => match **reason {
                Reason::Aborted { reason, .. } => reason == AbortReason::ReadChanged || reason.is_passing(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the same call may succeed later, because a part of the cluster is moving, overloaded or unreachable. `false`: it would fail again,
    /// because it exceeds a limit or because its object does not exist. Also `false` for an error that leaves open what was done
    /// ([`Error::is_unknown`]).
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Operation { reason, .. } => match &**reason {
                Reason::Answer { failure } => {
                    matches!(failure.advice(), Advice::AgainAfterMs(_) | Advice::Reroute)
                }
                Reason::Aborted { .. } => self.is_conflict(),
                Reason::Deadline { .. }
                | Reason::PartitionLost { .. }
                | Reason::NoOwner { .. }
                | Reason::Unstaged { .. }
                | Reason::Unread { .. }
                | Reason::TooManyOperations { .. }
                | Reason::TooManyBytes { .. }
                | Reason::Split { .. } => true,
                Reason::Unknown { .. }
                | Reason::NoKeyspace { .. }
                | Reason::InvalidTransaction(_)
                | Reason::Refused { .. }
                | Reason::Closed => false,
            },
            Self::Blob { why: BlobError::Contended | BlobError::ChangedMeanwhile, .. } => true,
            Self::UnderWay { .. } => true,
            Self::Blob { .. }
            | Self::Endpoint { .. }
            | Self::InsideRuntime
            | Self::OtherKeyspace
            | Self::Runtime { .. }
            | Self::Ended
            | Self::NotReadBack { .. }
            | Self::Refused { .. }
            | Self::Unexpected => false,
        }
    }

    /// Whether the secret or the token does not permit the operation: it is wrong, unknown, revoked, or lacks a permission. A retry does not help.
    #[must_use]
    pub fn is_access(&self) -> bool {
        let failure = match self.reason() {
            Some(Reason::Answer { failure } | Reason::Refused { failure, .. }) => failure,
            _ => return false,
        };
        matches!(failure, Failure::AuthRequired | Failure::AuthFailed { .. } | Failure::Forbidden { .. })
    }

    /// Whether a write, or a command of the control group, may have been done despite the error.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Operation { reason, .. } => matches!(**reason, Reason::Unknown { .. }),
            Self::Refused { code, .. } => leaves_outcome_open(code),
            _ => false,
        }
    }

    /// Whether a record that was read has changed since.
    pub(crate) fn is_changed_read(&self) -> bool {
        matches!(self.reason(), Some(Reason::Aborted { reason: AbortReason::ReadChanged, .. }))
    }

    /// How an operation ended; `None` if the error is not one of an operation.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Operation { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation { key: Some(key), reason } => {
                write!(f, "key {}: {reason}", quoted(key))
            }
            Self::Operation { key: None, reason } => reason.fmt(f),
            Self::Blob { name, why } => write!(f, "blob {}: {why}", quoted(name)),
            Self::Endpoint { why } => f.write_str(why),
            Self::OtherKeyspace => f.write_str(
                "the cursor is a position in another keyspace, perhaps in one of this name that was dropped: read the records again, and watch \
                 without a cursor",
            ),
            Self::InsideRuntime => f.write_str(
                "a blocking call from within an asynchronous runtime: use the asynchronous client there",
            ),
            Self::Runtime { why } => write!(f, "the client's runtime could not be started: {why}"),
            Self::Ended => f.write_str("the transaction has ended: begin another"),
            Self::NotReadBack { key } => write!(
                f,
                "key {}: what this transaction has written there can be read back only as a whole, and up to one page: read it first",
                quoted(key)
            ),
            Self::Refused { reason, .. } => f.write_str(reason),
            Self::UnderWay { keyspace, waited, reason } => write!(
                f,
                "after {waited:?} the drop of keyspace {keyspace} is still in progress and continues by itself. It is complete when no keyspace has \
                 this name any more; another drop of the keyspace waits for that. {reason}"
            ),
            Self::Unexpected => f.write_str(
                "the server's answer is not one to this request: bring client and server up to date",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::admin::{
        REFUSED_DECIDED, REFUSED_FAILED, REFUSED_FORGOTTEN, REFUSED_UNDECIDED, REFUSED_UNFOLLOWED,
    };

    use super::*;

    #[test]
    fn refusal_of_a_command_that_may_be_done_is_unknown() {
        let is_unknown = |code: &str| Error::Refused { code: code.into(), reason: "".into() }.is_unknown();
        let codes =
            [REFUSED_UNDECIDED, REFUSED_FORGOTTEN, REFUSED_UNFOLLOWED, REFUSED_DECIDED, REFUSED_FAILED];
        assert_eq!(codes.map(is_unknown), [true, true, true, false, false]);
    }
}
