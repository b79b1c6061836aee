//! The requests of clients and their results: the input of all checkers.

use std::collections::BTreeMap;
use std::fmt;

use zerohop_base::time::Time;
use zerohop_session::{Reply, SessionError};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::plain_blobs::PlainBlobCall;
use crate::redis::RedisCall;
use crate::snapshots::SnapshotHistory;
use crate::transaction_results::TransactionRecord;
use crate::workload::operation::RecordCall;
use crate::workload::tokens::display_bytes;

/// One operation of a client, from its submission to its end.
#[derive(Clone, Debug)]
pub struct ClientCall {
    /// The client; final reads after a restart have none and take no time.
    pub client: Option<usize>,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The hash range: the smallest that splits may make, so that its records always stay in one
    /// partition.
    pub partition: PartitionId,
    /// The operation.
    pub operation: RecordCall,
    /// The time of its submission.
    pub invoked: Time,
    /// Its deadline.
    pub deadline: Time,
    /// When its client received the result; none if the client was gone by then.
    pub returned: Option<Time>,
    /// The result.
    pub end: OperationEnd,
    /// Bounds of what the owner's clock may have shown during the call, in milliseconds since 1970.
    pub clock_ms: (u64, u64),
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// It is in progress, or its client is gone.
    Open,
    /// It succeeded.
    Done(Reply),
    /// The record refused it.
    Failed(Failure<'static>),
    /// The client does not know whether it took effect.
    Unknown,
    /// The client knows that it did not take effect.
    NotDone(SessionError),
}

impl OperationEnd {
    /// The end that a client's result means.
    #[must_use]
    pub fn of(result: Result<Reply, SessionError>) -> Self {
        match result {
            Ok(reply) => Self::Done(reply),
            Err(SessionError::Unknown { .. }) => Self::Unknown,
            Err(SessionError::Answer { failure }) if is_outcome(&failure) => Self::Failed(failure),
            Err(error) => Self::NotDone(error),
        }
    }

    /// Whether the client knows the effect.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_))
    }
}

/// Whether a failure depends on the record, and is not a refusal before evaluation.
pub(crate) fn is_outcome(failure: &Failure<'_>) -> bool {
    matches!(
        failure,
        Failure::NotFound
            | Failure::WrongType { .. }
            | Failure::ConditionFailed { .. }
            | Failure::CompareFailed { .. }
            | Failure::NotANumber
            | Failure::ValueTooLong { .. }
            | Failure::TooMany { .. }
            | Failure::Overflow
            | Failure::TimedOut { .. }
    )
}

impl fmt::Display for OperationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Done(reply) => write!(f, "{}", ReplyText(reply)),
            Self::Failed(Failure::CompareFailed { version, seen: Some(seen) }) => {
                write!(f, "it is {} @{version}", display_bytes(seen))
            }
            Self::Failed(failure) => write!(f, "{failure:?}"),
            Self::Unknown => f.write_str("unknown"),
            Self::NotDone(error) => write!(f, "not done: {error}"),
        }
    }
}

impl fmt::Display for ClientCall {
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
struct ReplyText<'r>(&'r Reply);

impl fmt::Display for ReplyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Done { version, number } => write!(f, "done {number} @{version}"),
            Reply::Counter { version, value } => write!(f, "counter {value} @{version}"),
            Reply::Value { version, length, bytes } => {
                write!(f, "{} of {length} @{version}", display_bytes(bytes))
            }
            Reply::List { version, length, first, values } => {
                let values: Vec<String> = values.iter().map(|value| display_bytes(value)).collect();
                write!(f, "[{}] from {first} of {length} @{version}", values.join(" "))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// A scan of all keys of a keyspace by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The client.
    pub client: usize,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The part of the keyspace that it lists.
    pub range: ScannedRange,
    /// When its first page was requested.
    pub begin: Time,
    /// When its last page arrived, if it was completed.
    pub end: Option<Time>,
    /// Its pages, in order.
    pub pages: Vec<ScanPage>,
}

/// The part of a keyspace that a scan lists. The default is all of it, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScannedRange {
    /// The lowest key.
    pub from: Box<[u8]>,
    /// All keys are below this.
    pub to: Option<Box<[u8]>>,
    /// The keyspace is ordered.
    pub is_ordered: bool,
    /// From the highest key down.
    pub is_reverse: bool,
}

impl ScannedRange {
    /// Whether a key is within the bounds.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &*self.from && self.to.as_ref().is_none_or(|to| key < &**to)
    }

    /// Whether a key may follow another.
    #[must_use]
    pub fn may_follow(&self, before: &[u8], key: &[u8]) -> bool {
        !self.is_ordered || if self.is_reverse { key < before } else { key > before }
    }
}

/// A page of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    /// When it was requested.
    pub requested_at: Time,
    /// When it arrived, if it did.
    pub answered_at: Option<Time>,
    /// Its keys.
    pub keys: Vec<Box<[u8]>>,
    /// The values that came with some of them.
    pub values: BTreeMap<Box<[u8]>, Vec<u8>>,
}

impl fmt::Display for ScanPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} .. ", self.requested_at.0)?;
        match self.answered_at {
            Some(at) => write!(f, "{}]", at.0)?,
            None => f.write_str("]")?,
        }
        self.keys.iter().try_for_each(|key| write!(f, " {}", display_bytes(key)))
    }
}

/// An end of the node's process, and the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it went down.
    pub down: Time,
    /// When it served again.
    pub up: Time,
    /// Whether it shut down cleanly: then nothing that reaches a disk may be missing.
    pub clean: bool,
    /// The last time at which its disks worked and it was not paused. Later entries may be lost
    /// however long ago they were acknowledged, unless the keyspace was `sync`.
    pub sound_until: Time,
}

/// A partition of a cluster goes on after all replicas with everything are gone: the end of its log
/// may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition.
    pub partition: PartitionId,
    /// The number of partitions of the keyspace.
    pub partitions: u32,
    /// From this time on the former members answer nothing.
    pub down: Time,
    /// When the log to go on with was chosen.
    pub up: Time,
    /// What was acknowledged before this time is in that log.
    pub survives_until: Time,
    /// The next primary has the disk with its timestamp bound, so it assigns no version twice,
    /// whatever was lost.
    pub keeps_timestamp_bound: bool,
}

/// The commands of Redis clients, and what their checker must know of the run.
#[derive(Clone, Debug, Default)]
pub struct RedisHistory {
    /// The commands, in the order in which they were sent.
    pub calls: Vec<RedisCall>,
    /// The names of the keys, by group.
    pub names: std::collections::BTreeMap<KeyspaceId, Vec<[String; 3]>>,
    /// Groups of Redis keys that a split may put into several partitions.
    pub apart: std::collections::BTreeSet<usize>,
    /// When Redis clients began to read everything once more: from then on each of their commands must succeed.
    pub last: Option<Time>,
}

/// The record of one run for the checkers.
#[derive(Clone, Debug, Default)]
pub struct RunHistory {
    /// In the order of their submission, with the reads after restarts.
    pub calls: Vec<ClientCall>,
    /// In a cluster: transactions, and single operations on their records, in the order of their
    /// submission.
    pub transactions: Vec<TransactionRecord>,
    /// In a cluster: snapshots of their keyspaces.
    pub snapshots: Vec<SnapshotHistory>,
    /// In a cluster: scans of the other keyspaces, also those that were not completed.
    pub scans: Vec<Scan>,
    /// In a cluster: the commands of Redis clients.
    pub redis: RedisHistory,
    /// The calls on the plain blob, by their begins.
    pub plain_blobs: Vec<PlainBlobCall>,
    /// The keyspaces of transactions.
    pub transactional: Vec<KeyspaceId>,
    /// Outages of the node, in order.
    pub outages: Vec<Outage>,
    /// Whether it is that of a cluster: then its losses count, and outages of single nodes do not.
    pub is_cluster: bool,
    /// In a cluster: losses, in order.
    pub losses: Vec<Loss>,
    /// All keyspaces, with their durability over time.
    pub keyspaces: Vec<KeyspaceHistory>,
    /// Whether the time of day was set while the node ran, or in between.
    pub clocks_were_set: bool,
    /// When faults ended: from then on every operation must succeed.
    pub healed: Option<Time>,
    /// In a cluster: partitions whose only copy that counts was found corrupt at a start. They
    /// serve no client (`docs/reliability.md`, Known gaps).
    pub corrupt: Vec<(KeyspaceId, PartitionId)>,
    /// When no operation may be open any more.
    pub ended: Time,
}

/// One keyspace, from its creation on.
#[derive(Clone, Debug)]
pub struct KeyspaceHistory {
    /// Its id.
    pub id: KeyspaceId,
    /// Its durability from each time on, in order.
    pub durability: Vec<(Time, zerohop_placement::Durability)>,
    /// When it was dropped.
    pub dropped: Option<Time>,
}

impl RunHistory {
    /// A keyspace that existed at some time.
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
