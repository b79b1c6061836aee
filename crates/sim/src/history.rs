//! What clients asked for, and what came of it: all that the checkers look at.

use std::fmt;

use zerohop_base::time::Time;
use zerohop_session::{Reply, SessionError};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::snapshots::SnapshotHistory;
use crate::transacted::TransactionRecord;
use crate::workload::operation::RecordCall;
use crate::workload::tokens::shown;

/// One operation of a client, from its submission to its end.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose; audits after a restart belong to nobody and last no time.
    pub client: Option<usize>,
    /// On which keyspace.
    pub keyspace: KeyspaceId,
    /// On which slice of it: the smallest that splits may make, so that what is in one stays in one partition.
    pub partition: PartitionId,
    /// What was asked.
    pub operation: RecordCall,
    /// When.
    pub invoked: Time,
    /// How long its client tries, at most: its deadline.
    pub deadline: Time,
    /// When its client was told what came of it; nothing if the client was gone by then.
    pub returned: Option<Time>,
    /// What came of it.
    pub end: OperationEnd,
    /// Bounds of what the owner's clock may have shown, in milliseconds since 1970, while this was under way.
    pub clock_ms: (u64, u64),
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// It is under way, or its client went away.
    Open,
    /// It was done.
    Done(Reply),
    /// The record said no.
    Failed(Failure<'static>),
    /// The client was told that it may or may not have been done.
    Unknown,
    /// The client was told that it was not done.
    NotDone(SessionError),
}

impl OperationEnd {
    /// What the client was told.
    #[must_use]
    pub fn of(result: Result<Reply, SessionError>) -> Self {
        match result {
            Ok(reply) => Self::Done(reply),
            Err(SessionError::Unknown { .. }) => Self::Unknown,
            Err(SessionError::Answer { failure }) if is_outcome(&failure) => Self::Failed(failure),
            Err(error) => Self::NotDone(error),
        }
    }

    /// Whether the client knows what it did.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_))
    }
}

/// Whether a failure is what the record says, rather than that nobody looked at it.
pub(crate) fn is_outcome(failure: &Failure<'_>) -> bool {
    matches!(
        failure,
        Failure::NotFound
            | Failure::WrongType { .. }
            | Failure::ConditionFailed { .. }
            | Failure::CompareFailed { .. }
            | Failure::NotANumber
            | Failure::Overflow
            | Failure::TimedOut { .. }
    )
}

impl fmt::Display for OperationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Done(reply) => write!(f, "{}", ShownReply(reply)),
            Self::Failed(Failure::CompareFailed { version, seen: Some(seen) }) => {
                write!(f, "it is {} @{version}", shown(seen))
            }
            Self::Failed(failure) => write!(f, "{failure:?}"),
            Self::Unknown => f.write_str("unknown"),
            Self::NotDone(error) => write!(f, "not done: {error}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            Some(client) => write!(f, "c{client} ")?,
            None => f.write_str("audit ")?,
        }
        write!(f, "[{} .. ", self.invoked.0)?;
        match self.returned {
            Some(at) => write!(f, "{}]", at.0)?,
            None => f.write_str("]")?,
        }
        write!(f, " {}/{} {}: {}", self.keyspace, self.partition, self.operation, self.end)
    }
}

/// A reply with its bytes as text.
struct ShownReply<'r>(&'r Reply);

impl fmt::Display for ShownReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Done { version, number } => write!(f, "done {number} @{version}"),
            Reply::Counter { version, value } => write!(f, "counter {value} @{version}"),
            Reply::Value { version, length, bytes } => write!(f, "{} of {length} @{version}", shown(bytes)),
            Reply::List { version, length, first, values } => {
                let values: Vec<String> = values.iter().map(|value| shown(value)).collect();
                write!(f, "[{}] from {first} of {length} @{version}", values.join(" "))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// A client goes through all keys of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Whose.
    pub client: usize,
    /// Of which keyspace.
    pub keyspace: KeyspaceId,
    /// When its first page was asked for.
    pub begin: Time,
    /// When its last page came, if it went to the end.
    pub end: Option<Time>,
    /// In order.
    pub pages: Vec<ScanPage>,
}

/// A page of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    /// When it was asked for.
    pub asked: Time,
    /// When it came, if it did.
    pub told: Option<Time>,
    /// Its keys.
    pub keys: Vec<Box<[u8]>>,
}

impl fmt::Display for ScanPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} .. ", self.asked.0)?;
        match self.told {
            Some(at) => write!(f, "{}]", at.0)?,
            None => f.write_str("]")?,
        }
        self.keys.iter().try_for_each(|key| write!(f, " {}", shown(key)))
    }
}

/// A stop of the node, and its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it went down.
    pub down: Time,
    /// When it served again.
    pub up: Time,
    /// Whether it stopped in order: then nothing that reaches a disk may be missing.
    pub clean: bool,
    /// Up to when its disks were in order, and itself awake: entries from after that may be lost however long ago they
    /// were acknowledged, unless the keyspace was `sync`.
    pub sound_until: Time,
}

/// A partition of a cluster goes on after all who held everything have gone: the end of its log may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Of which keyspace.
    pub keyspace: KeyspaceId,
    /// Which of its partitions,
    pub partition: PartitionId,
    /// of so many.
    pub partitions: u32,
    /// From when on nothing was answered by those who had been there before.
    pub down: Time,
    /// When it was decided with which log to go on.
    pub up: Time,
    /// What was acknowledged before that is in it.
    pub survives_until: Time,
    /// Whoever goes on has the disk on which it has written down how high versions may be: whatever was lost, no version is given
    /// twice.
    pub keeps_ceiling: bool,
}

/// Everything that one run leaves behind for the checkers.
#[derive(Clone, Debug, Default)]
pub struct RunHistory {
    /// In the order of their submission, audits among them.
    pub calls: Vec<Call>,
    /// Of a cluster: transactions, and what is done to the records that these are about, in the order of their submission.
    pub transactions: Vec<TransactionRecord>,
    /// Of a cluster: snapshots of their keyspaces.
    pub snapshots: Vec<SnapshotHistory>,
    /// Of a cluster: scans of the other keyspaces, those too that did not go to the end.
    pub scans: Vec<Scan>,
    /// The keyspaces of transactions.
    pub transactional: Vec<KeyspaceId>,
    /// In order.
    pub outages: Vec<Outage>,
    /// Whether it is that of a cluster: its losses count, and outages of single nodes are none there.
    pub is_cluster: bool,
    /// Of a cluster, in order.
    pub losses: Vec<Loss>,
    /// How durable keyspaces were when.
    pub keyspaces: Vec<KeyspaceHistory>,
    /// Whether the time of day was set while the node ran, or in between.
    pub clocks_were_set: bool,
    /// When faults ended: from then on every operation must be done.
    pub healed: Option<Time>,
    /// Of a cluster: whose only copy that counts is corrupt, and was found so by a start. Nobody is served there
    /// (`docs/reliability.md`, Known gaps).
    pub corrupt: Vec<(KeyspaceId, PartitionId)>,
    /// When no operation may be open any more.
    pub ended: Time,
}

/// One keyspace, from its creation on.
#[derive(Clone, Debug)]
pub struct KeyspaceHistory {
    /// Which.
    pub id: KeyspaceId,
    /// Since when it had which durability, in order.
    pub durability: Vec<(Time, zerohop_placement::Durability)>,
    /// When it was dropped.
    pub dropped: Option<Time>,
}

impl RunHistory {
    /// A keyspace that was there at some time.
    #[must_use]
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&KeyspaceHistory> {
        self.keyspaces.iter().find(|keyspace| keyspace.id == id)
    }
}

impl KeyspaceHistory {
    /// Its durability at a time.
    #[must_use]
    pub fn durability_at(&self, at: Time) -> zerohop_placement::Durability {
        let earlier = self.durability.iter().rev().find(|(since, _)| *since <= at);
        earlier.or(self.durability.first()).map_or(zerohop_placement::Durability::Memory, |(_, what)| *what)
    }
}
