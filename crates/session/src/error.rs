//! How an operation can end other than done, and what stood in its way.

use std::fmt;
use std::io;
use std::sync::Arc;

use zerohop_placement::PartitionCount;
use zerohop_wire::ids::{MapEpoch, PartitionId};
use zerohop_wire::{AbortReason, BrokenStream, Failure};

use crate::transaction::InvalidTransaction;

/// How an operation ended, if not with a reply. All but [`SessionError::Unknown`] promise that it changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The server's answer; the same request would fail again.
    Answer {
        /// What it says.
        failure: Failure<'static>,
    },
    /// The time was up before the operation was done.
    Deadline {
        /// How long it was tried, in microseconds.
        waited_us: u64,
        /// What it waited for last.
        waiting: WaitReason,
        /// What had gone wrong before, if anything had.
        last: Option<Box<AttemptFailure>>,
    },
    /// The time was up, and the newest map says that nobody serves the partition, nor will before a node that is down returns,
    /// or an operator gives it up.
    Lost {
        /// The partition; other partitions are served as ever.
        partition: PartitionId,
        /// How long it was tried, in microseconds.
        waited_us: u64,
    },
    /// A write was sent and its outcome cannot be had: it was done once, or not at all, and will not be done any more
    /// once the partition has taken up a later write of this session.
    Unknown {
        /// What made it so.
        why: Box<AttemptFailure>,
    },
    /// The newest map has no keyspace of this name.
    NoKeyspace {
        /// The name.
        name: Box<str>,
        /// The epoch of that map.
        epoch: MapEpoch,
    },
    /// The keyspace has more partitions than the scan counted by.
    Split {
        /// How many there are now.
        partitions: PartitionCount,
    },
    /// Servers sent the client from one to another again and again.
    NoOwner {
        /// How often.
        redirects: u8,
    },
    /// The transaction was not done, nor will be.
    Aborted {
        /// Why not.
        reason: AbortReason,
        /// Which of its operations that was about, from zero, in the order in which they were given; if it was one.
        item: Option<usize>,
    },
    /// What a transaction refers to could not be brought where it is needed: nothing of it was done.
    Unstaged {
        /// What stood in the way.
        why: Box<AttemptFailure>,
    },
    /// Several reads ran as a transaction, and what they brought was lost.
    Unread {
        /// What made it so.
        why: Box<AttemptFailure>,
    },
    /// It is no transaction that could be done, here or anywhere.
    Unfit(InvalidTransaction),
    /// A server does not talk to this client at all, or this client not to it.
    Refused {
        /// Which server.
        address: Arc<str>,
        /// Why not.
        failure: Failure<'static>,
    },
    /// More operations at once than the session holds.
    TooManyOperations {
        /// How many it holds.
        limit: usize,
    },
    /// More bytes in operations at once than the session holds.
    TooManyBytes {
        /// How many it holds.
        limit: usize,
    },
    /// The session was shut down.
    Closed,
}

/// What an operation waits for. Each wait ends at the operation's deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A map that says where it belongs.
    Map,
    /// A connection to its partition's owner.
    Connection {
        /// The owner.
        address: Arc<str>,
    },
    /// One of the connections that the session may have, which are all in use for others.
    Room,
    /// A place among the frames in flight to the owner.
    Turn {
        /// The owner.
        address: Arc<str>,
    },
    /// A session, under which the write would be numbered.
    Session,
    /// Answers to earlier writes of this session to the same partition.
    Window,
    /// The answer.
    Answer {
        /// Of whom.
        address: Arc<str>,
    },
    /// The next attempt.
    Rest,
}

/// What went wrong with one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// A connection was lost, or could not be had.
    Lost {
        /// To whom.
        address: Arc<str>,
        /// What the system says.
        kind: io::ErrorKind,
    },
    /// The other side sent what cannot be read.
    Broken {
        /// Who.
        address: Arc<str>,
        /// What.
        broken: BrokenStream,
    },
    /// The other side belongs to another cluster.
    OtherCluster {
        /// Who.
        address: Arc<str>,
    },
    /// No sign of life came.
    Silent {
        /// From whom.
        address: Arc<str>,
    },
    /// No answer came in time.
    Overdue,
    /// The answer was damaged, or not one to this request.
    Damaged,
    /// The answer was not final, or does not say whether a write was done.
    Answered {
        /// What it says.
        failure: Failure<'static>,
    },
}

impl std::error::Error for SessionError {}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { failure } => failure.fmt(f),
            Self::Deadline { waited_us, waiting, last } => {
                write!(f, "not done after {} ms of waiting for {waiting}", waited_us / 1000)?;
                if let Some(last) = last {
                    write!(f, " ({last})")?;
                }
                f.write_str("; nothing was changed: try again, or allow more time")
            }
            Self::Lost { partition, waited_us } => write!(
                f,
                "partition {partition} is lost: all nodes that hold it in sync are down, and none has returned in {} ms. Nothing \
                 was changed: start one of them again, or see `zerohop recover`",
                waited_us / 1000
            ),
            Self::Unknown { why } => {
                write!(f, "the write may or may not be done ({why}): look the record up before you repeat it")
            }
            Self::NoKeyspace { name, epoch: MapEpoch(0) } => write!(
                f,
                "the node that answered is of no cluster yet, and so knows no keyspace {name:?}: it waits for other nodes, or has not \
                 read its data; `zerohop status` and its /health over HTTP say which. Nothing was changed"
            ),
            Self::NoKeyspace { name, epoch } => write!(
                f,
                "the cluster's map of epoch {epoch} has no keyspace {name:?}: create it with `zerohop keyspace create`"
            ),
            Self::Split { partitions } => write!(
                f,
                "the keyspace was split and has {partitions} partitions: the cursor leads on in each that this one became"
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
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::Refused { address, failure } => {
                write!(f, "the server at {address} cannot be used: {failure}")
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

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map => f.write_str("the cluster's map"),
            Self::Connection { address } => write!(f, "a connection to {address}"),
            Self::Room => f.write_str("one of its connections to become free"),
            Self::Turn { address } => write!(f, "a place among the requests in flight to {address}"),
            Self::Session => f.write_str("a session"),
            Self::Window => f.write_str("answers to earlier writes to the same partition"),
            Self::Answer { address } => write!(f, "the answer of {address}"),
            Self::Rest => f.write_str("the next attempt"),
        }
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { address, kind } => write!(f, "no connection to {address}: {kind}"),
            Self::Broken { address, broken } => write!(f, "{address}: {broken}"),
            Self::OtherCluster { address } => write!(f, "{address} belongs to another cluster"),
            Self::Silent { address } => write!(f, "{address} gives no sign of life"),
            Self::Overdue => f.write_str("no answer came in time"),
            Self::Damaged => f.write_str("the answer could not be read"),
            Self::Answered { failure } => failure.fmt(f),
        }
    }
}
