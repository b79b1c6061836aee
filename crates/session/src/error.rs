//! The errors with which operations end, and the causes behind them.

use std::fmt;
use std::io;
use std::sync::Arc;

use zerohop_placement::Division;
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, NodeId, PartitionId};
use zerohop_wire::plurals::UtcTime;
use zerohop_wire::{AbortReason, BrokenStream, Failure};

use crate::invalid_transaction::InvalidTransaction;

/// The error of an operation. All but [`SessionError::Unknown`] guarantee that the operation changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The server's failure; the same request would fail again.
    Answer {
        /// The failure.
        failure: Failure<'static>,
    },
    /// The deadline passed before the operation was done.
    Deadline {
        /// How long the session tried, in microseconds.
        waited_us: u64,
        /// What the operation waited for last.
        waiting: WaitReason,
        /// The last failure of an attempt, if there was one.
        last: Option<Box<AttemptFailure>>,
        /// The partition, if its primary could not be reached.
        unreached: Option<Box<UnreachedPartition>>,
    },
    /// The deadline passed, and according to the newest map no replica serves the partition. It stays so until a node that is down returns, or an
    /// operator declares the data lost.
    PartitionLost {
        /// The partition; other partitions are not affected.
        partition: PartitionId,
        /// How long the session tried, in microseconds.
        waited_us: u64,
    },
    /// A write was sent and its outcome is unknown: it was done once or not at all. It can no longer take effect once the partition has accepted a
    /// later write of this session.
    Unknown {
        /// The cause.
        why: Box<AttemptFailure>,
    },
    /// The newest map has no keyspace of this name.
    NoKeyspace {
        /// The name.
        name: Box<str>,
        /// The epoch of that map.
        epoch: MapEpoch,
    },
    /// The partition was split since the request was made.
    Split {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The present division of the keyspace.
        division: Division,
    },
    /// Servers redirected the client too often.
    NoOwner {
        /// The number of redirects.
        redirects: u8,
    },
    /// The transaction was not done and will not be done.
    Aborted {
        /// The reason.
        reason: AbortReason,
        /// The index of the operation that caused this, from zero, in the order of submission; `None` if no single operation did.
        item: Option<usize>,
    },
    /// Data that a transaction refers to could not be staged: nothing of the transaction was done.
    Unstaged {
        /// The cause.
        why: Box<AttemptFailure>,
    },
    /// Several reads ran as a transaction, and its result was lost.
    Unread {
        /// The cause.
        why: Box<AttemptFailure>,
    },
    /// The transaction is invalid on every server.
    InvalidTransaction(InvalidTransaction),
    /// A server refuses this client, or this client refuses the server.
    Refused {
        /// The server's address.
        address: Arc<str>,
        /// The reason.
        failure: Failure<'static>,
        /// If it is about a certificate that has expired, when it did, in seconds since 1970.
        expired_s: Option<u64>,
    },
    /// The session has the maximum number of pending operations.
    TooManyOperations {
        /// The maximum.
        limit: usize,
    },
    /// The session's pending operations have the maximum number of bytes.
    TooManyBytes {
        /// The maximum.
        limit: usize,
    },
    /// The session was shut down.
    Closed,
}

/// A partition with a primary that the session could not reach, as in the newest map that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedPartition {
    /// The partition.
    pub partition: PartitionId,
    /// The name of its keyspace.
    pub keyspace: Box<str>,
    /// The address of the primary.
    pub primary: Box<str>,
    /// The primary's node.
    pub node: NodeId,
    /// The epoch of the map.
    pub epoch: MapEpoch,
}

/// What an operation waits for. Each wait ends at the operation's deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A map that says which partition and instance the operation belongs to.
    Map,
    /// A connection to the primary of its partition.
    Connection {
        /// The primary's address.
        address: Arc<str>,
    },
    /// A free connection: all that the session may have are in use.
    FreeConnection,
    /// A slot among the frames in flight to the primary.
    FreeFrame {
        /// The primary's address.
        address: Arc<str>,
    },
    /// A session, which gives the write its number.
    Session,
    /// Answers to earlier writes of this session to the same partition.
    Window,
    /// The answer.
    Answer {
        /// The server's address.
        address: Arc<str>,
    },
    /// The pause before the next attempt.
    Pause,
}

/// The failure of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// A connection was lost, or could not be opened.
    ConnectionLost {
        /// The address.
        address: Arc<str>,
        /// The error of the operating system.
        kind: io::ErrorKind,
    },
    /// The server sent an invalid stream.
    Broken {
        /// The address.
        address: Arc<str>,
        /// What is invalid.
        broken: BrokenStream,
    },
    /// The server belongs to another cluster.
    OtherCluster {
        /// The address.
        address: Arc<str>,
    },
    /// The server sent no sign of life.
    Silent {
        /// The address.
        address: Arc<str>,
    },
    /// No answer arrived in time.
    Overdue,
    /// The answer was corrupt, or did not belong to this request.
    Damaged,
    /// The answer was not final, or does not say whether a write was done.
    Answered {
        /// The failure.
        failure: Failure<'static>,
    },
}

impl std::error::Error for SessionError {}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { failure } => failure.fmt(f),
            Self::Deadline { waited_us, waiting, last, unreached } => {
                if let Some(unreached) = unreached {
                    write!(f, "{unreached}: ")?;
                }
                write!(f, "not done after {} ms of waiting for {waiting}", waited_us / 1000)?;
                if let Some(last) = last {
                    write!(f, " ({last})")?;
                }
                f.write_str("; nothing was changed: ")?;
                f.write_str(match unreached {
                    Some(_) => "try again once another copy has taken over or the node is back; `zerohop status` says which nodes answer",
                    None => "try again, or allow more time",
                })
            }
            Self::PartitionLost { partition, waited_us } => write!(
                f,
                "partition {partition} is lost: all nodes with an in-sync copy are down, and none has returned in {} ms. Nothing \
                 was changed: start one of them again, or see `zerohop recover`",
                waited_us / 1000
            ),
            Self::Unknown { why } => {
                write!(f, "the write may or may not be done ({why}): look the record up before you repeat it")
            }
            Self::NoKeyspace { name, epoch: MapEpoch(0) } => write!(
                f,
                "the node that answered has not joined a cluster yet, and so knows no keyspace {}: it waits for other nodes, or has not \
                 read its data; `zerohop status` and its /health over HTTP say which. Nothing was changed",
                quoted(name.as_bytes())
            ),
            Self::NoKeyspace { name, epoch } => write!(
                f,
                "the cluster's map of epoch {epoch} has no keyspace {}: create it with `zerohop keyspace create`",
                quoted(name.as_bytes())
            ),
            Self::Split { division, .. } => write!(
                f,
                "the keyspace was split and has {} partitions: the cursor leads on in each that this one became",
                division.count()
            ),
            Self::NoOwner { redirects } => write!(
                f,
                "{redirects} servers in a row named another as the partition's owner: the cluster has not settled, try \
                 again later"
            ),
            Self::Aborted { reason, item: None } => write!(f, "the transaction was not done: {reason}"),
            Self::Aborted { reason, item: Some(item) } => {
                write!(f, "the transaction was not done, for its operation {item} (from 0): {reason}")
            }
            Self::Unstaged { why } => write!(
                f,
                "what the transaction refers to could not be brought to its partition ({why}); nothing was changed: try again"
            ),
            Self::Unread { why } => {
                write!(f, "what was read is not known ({why}); nothing was changed: read again")
            }
            Self::InvalidTransaction(invalid) => invalid.fmt(f),
            Self::Refused { address, failure, expired_s } => {
                write!(f, "the server at {address} cannot be used: {failure}")?;
                match expired_s {
                    Some(expired_s) => write!(f, " (it has expired on {})", UtcTime(*expired_s)),
                    None => Ok(()),
                }
            }
            Self::TooManyOperations { limit } => {
                write!(f, "{limit} operations are under way already: await some of them first")
            }
            Self::TooManyBytes { limit } => {
                write!(f, "operations under way hold {limit} bytes already: await some of them first")
            }
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

impl fmt::Display for UnreachedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, keyspace, primary, node, epoch } = self;
        write!(
            f,
            "partition {partition} of keyspace {} has no reachable primary (the map of epoch {epoch} has node {node} at {primary})",
            quoted(keyspace.as_bytes())
        )
    }
}

impl AttemptFailure {
    /// Whether the server could not be reached, or gave no sign of life. A server that only does not answer a request may be busy.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::ConnectionLost { .. } | Self::Silent { .. })
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map => f.write_str("the cluster's map"),
            Self::Connection { address } => write!(f, "a connection to {address}"),
            Self::FreeConnection => f.write_str("one of its connections to become free"),
            Self::FreeFrame { address } => write!(f, "a place among the requests in flight to {address}"),
            Self::Session => f.write_str("a session"),
            Self::Window => f.write_str("answers to earlier writes to the same partition"),
            Self::Answer { address } => write!(f, "the answer of {address}"),
            Self::Pause => f.write_str("the next attempt"),
        }
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionLost { address, kind } => write!(f, "no connection to {address}: {kind}"),
            Self::Broken { address, broken } => write!(f, "{address}: {broken}"),
            Self::OtherCluster { address } => write!(f, "{address} belongs to another cluster"),
            Self::Silent { address } => write!(f, "{address} gives no sign of life"),
            Self::Overdue => f.write_str("no answer came in time"),
            Self::Damaged => f.write_str("the answer could not be read"),
            Self::Answered { failure } => failure.fmt(f),
        }
    }
}
