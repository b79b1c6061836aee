//! Errors that say what happened, to which key, and what to do.

use std::fmt;
use std::time::Duration;

use zerohop_session::SessionError as Reason;
use zerohop_wire::contents::shown_name;
use zerohop_wire::{AbortReason, Advice, Failure};

/// Longest part of a key that an error repeats.
const KEY_BYTES_SHOWN: usize = 64;

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It was taken up, and ended otherwise than done.
    Operation {
        /// The beginning of the key, if it is about one.
        key: Option<Box<[u8]>>,
        /// How it ended. Only [`Reason::Unknown`] leaves open whether a write was done.
        reason: Box<Reason>,
    },
    /// A blob is not as it has to be for this.
    Blob {
        /// The beginning of its name.
        name: Box<[u8]>,
        /// What is in the way.
        why: BlobTrouble,
    },
    /// The endpoint is not an address.
    Endpoint {
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A blocking call from within an asynchronous runtime, which it would stop: use [`crate::Client`] there.
    InsideRuntime,
    /// The runtime of a blocking client could not be started.
    Runtime {
        /// What the system says.
        why: Box<str>,
    },
    /// The transaction has been committed or aborted.
    Ended,
    /// What a transaction has written cannot be read back before it is committed: what becomes of the record only its primary
    /// can tell.
    NotReadBack {
        /// The beginning of the key.
        key: Box<[u8]>,
    },
    /// A manager refused it.
    Refused {
        /// For programs: one of the `REFUSED_` constants of the wire.
        code: Box<str>,
        /// For people: what happened and what to do.
        reason: Box<str>,
    },
    /// A keyspace is being dropped, which nobody has to wait for: see [`crate::Client::drop_keyspace`].
    UnderWay {
        /// Its name.
        keyspace: Box<str>,
        /// For how long it was waited for.
        waited: Duration,
        /// What the drop waits for.
        reason: Box<str>,
    },
    /// The server's answer is not one to this operation: client and server do not fit together.
    Unexpected,
}

/// Why an operation on a blob was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobTrouble {
    /// There is none of this name: [`Error::failure`] says `NotFound`.
    Absent,
    /// More bytes than are written, or read, as one.
    TooLong {
        /// How many may be.
        limit: u64,
    },
    /// It would have more chunks than a blob has.
    Beyond {
        /// Most bytes of one with such chunks; if it is not known yet how large they are, with the largest.
        limit: u64,
    },
    /// Others cut, write or append to it so often that this did not get its turn; or, while it was being filled, at all.
    Contended,
    /// The attributes do not fit beside what the header of a blob that was replaced says itself.
    Attributes {
        /// How many bytes do.
        limit: u64,
    },
    /// It is being put, or was until its writer ended: it is not complete.
    Unfinished,
    /// It was written to or replaced while it was streamed out: what has come of it is not one version.
    ChangedMeanwhile,
}

impl fmt::Display for BlobTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no blob of this name"),
            Self::TooLong { limit } => write!(
                f,
                "more than the {limit} bytes that are written, replaced, cut or read as one: do it in several steps; what is \
                 new can be filled in at any length, and outside a transaction any length is cut or removed"
            ),
            Self::Beyond { limit } => write!(
                f,
                "it would end beyond {limit} bytes, and no blob of such chunks is longer: nothing was changed; one of larger \
                 chunks may be"
            ),
            Self::Attributes { limit } => write!(
                f,
                "more attributes than the {limit} bytes that fit beside the name of a blob that is replaced: nothing was changed"
            ),
            Self::Contended => f.write_str("others change it too often for this to get its turn: try again"),
            Self::Unfinished => f.write_str(
                "it is not finished: it is being put, or its writer ended before all of it was there; put it again, or remove it",
            ),
            Self::ChangedMeanwhile => f.write_str(
                "it was written to or replaced while it was read, so that what has come of it is not one version: read it again",
            ),
        }
    }
}

impl Error {
    pub(crate) fn blob(name: &[u8], why: BlobTrouble) -> Self {
        let name = shown_name(name);
        Self::Blob { name: name[..name.len().min(KEY_BYTES_SHOWN)].into(), why }
    }

    pub(crate) fn about(key: &[u8], reason: Reason) -> Self {
        let key = shown_name(key);
        let key = Some(key[..key.len().min(KEY_BYTES_SHOWN)].into());
        Self::Operation { key, reason: Box::new(reason) }
    }

    pub(crate) fn general(reason: Reason) -> Self {
        Self::Operation { key: None, reason: Box::new(reason) }
    }

    /// How many partitions the keyspace has by now, if a scan counted by fewer.
    pub(crate) fn split_into(&self) -> Option<zerohop_placement::PartitionCount> {
        match self {
            Self::Operation { reason, .. } => match **reason {
                Reason::Split { partitions } => Some(partitions),
                _ => None,
            },
            _ => None,
        }
    }

    /// What the server answered, if that is the reason.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure<'static>> {
        match self {
            Self::Operation { reason, .. } => match &**reason {
                Reason::Answer { failure } => Some(failure),
                _ => None,
            },
            Self::Blob { why: BlobTrouble::Absent, .. } => Some(&Failure::NotFound),
            _ => None,
        }
    }

    /// Whether a transaction was in others' way, or they in its: nothing of it was done, and it may be begun again.
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

    /// Whether the same, begun again later, may well succeed: something is on its way, overloaded or out of reach. `false`: it would fail
    /// again, as a bound is passed, or what it asks for is not there. Not of an error that leaves open what was done
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
                | Reason::Lost { .. }
                | Reason::NoOwner { .. }
                | Reason::Unstaged { .. }
                | Reason::Unread { .. }
                | Reason::TooManyOperations { .. }
                | Reason::TooManyBytes { .. }
                | Reason::Split { .. } => true,
                Reason::Unknown { .. }
                | Reason::NoKeyspace { .. }
                | Reason::Unfit(_)
                | Reason::Refused { .. }
                | Reason::Closed => false,
            },
            Self::Blob { why: BlobTrouble::Contended | BlobTrouble::ChangedMeanwhile, .. } => true,
            Self::UnderWay { .. } => true,
            Self::Blob { .. }
            | Self::Endpoint { .. }
            | Self::InsideRuntime
            | Self::Runtime { .. }
            | Self::Ended
            | Self::NotReadBack { .. }
            | Self::Refused { .. }
            | Self::Unexpected => false,
        }
    }

    /// Whether the secret or the token does not permit it: it is wrong, unknown, revoked, or lacks a permission. Trying again does not help.
    #[must_use]
    pub fn is_access(&self) -> bool {
        let failure = match self.reason() {
            Some(Reason::Answer { failure } | Reason::Refused { failure, .. }) => failure,
            _ => return false,
        };
        matches!(failure, Failure::AuthRequired | Failure::AuthFailed { .. } | Failure::Forbidden { .. })
    }

    /// Whether a write may have been done all the same.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Operation { reason, .. } => matches!(**reason, Reason::Unknown { .. }),
            _ => false,
        }
    }

    /// Whether something that was read has changed since.
    pub(crate) fn is_changed_read(&self) -> bool {
        matches!(self.reason(), Some(Reason::Aborted { reason: AbortReason::ReadChanged, .. }))
    }

    /// How an operation ended.
    pub(crate) fn reason(&self) -> Option<&Reason> {
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
                write!(f, "key \"{}\": {reason}", key.escape_ascii())
            }
            Self::Operation { key: None, reason } => reason.fmt(f),
            Self::Blob { name, why } => write!(f, "blob \"{}\": {why}", name.escape_ascii()),
            Self::Endpoint { why } => f.write_str(why),
            Self::InsideRuntime => f.write_str(
                "a blocking call from within an asynchronous runtime: use the asynchronous client there",
            ),
            Self::Runtime { why } => write!(f, "the client's runtime could not be started: {why}"),
            Self::Ended => f.write_str("the transaction has ended: begin another"),
            Self::NotReadBack { key } => write!(
                f,
                "key \"{}\": what this transaction has written there cannot be read back before it is committed: read first",
                key.escape_ascii()
            ),
            Self::Refused { reason, .. } => f.write_str(reason),
            Self::UnderWay { keyspace, waited, reason } => write!(
                f,
                "after {waited:?} the drop of keyspace {keyspace} is still under way, and goes on by itself: it is done once there is \
                 no keyspace of this name any more, and whoever drops it again waits for that. {reason}"
            ),
            Self::Unexpected => f.write_str(
                "the server's answer is not one to this request: bring client and server up to date",
            ),
        }
    }
}
