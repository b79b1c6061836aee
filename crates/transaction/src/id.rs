//! Identifiers of transactions, of their attempts, and of participants.

use std::fmt;
use std::ops::RangeInclusive;

use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

/// The owner of this point of this keyspace: of a hash, or of a point of a region. Transactions name a partition so because the
/// partition may move, and be split, between a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingKey {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// A point of the partition.
    pub point: u64,
}

/// A slice of the points of a keyspace: the part that one partition owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyspaceRange {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The first point.
    pub first: u64,
    /// The last point.
    pub last: u64,
}

impl KeyspaceRange {
    /// Whether a place is in it.
    #[must_use]
    pub fn has(&self, place: RoutingKey) -> bool {
        self.keyspace == place.keyspace && self.contains_lock_key(place.point)
    }

    /// Whether both have a place in common.
    pub(crate) fn meets(&self, other: KeyspaceRange) -> bool {
        self.keyspace == other.keyspace && self.first <= other.last && other.first <= self.last
    }

    /// The ids of all transactions that may be decided in it: the coordinator's place comes first in their order.
    pub(crate) fn decides(&self) -> RangeInclusive<TransactionId> {
        let at = |point, session, sequence| TransactionId {
            coordinator: RoutingKey { keyspace: self.keyspace, point },
            session,
            sequence: Sequence(sequence),
        };
        let last = SessionId { issued: Timestamp(u64::MAX), nonce: u64::MAX };
        at(self.first, SessionId { issued: Timestamp(0), nonce: 0 }, 0)..=at(self.last, last, u64::MAX)
    }

    /// Whether a hash is in it.
    pub(crate) fn contains_lock_key(&self, lock_key: u64) -> bool {
        self.first <= lock_key && lock_key <= self.last
    }

    /// A slice of one hash: for a participant whose slice is not known.
    pub(crate) fn of_one(place: RoutingKey) -> KeyspaceRange {
        KeyspaceRange { keyspace: place.keyspace, first: place.point, last: place.point }
    }

    /// The default routing key of the slice.
    pub(crate) fn default_routing_key(&self) -> RoutingKey {
        RoutingKey { keyspace: self.keyspace, point: self.first }
    }
}

/// A transaction: the request of a session, and the place of its decision. Sequences count per session and partition, so the
/// coordinator's place belongs to the id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The place of the decision, fixed when the request was first sent.
    pub coordinator: RoutingKey,
    /// The session.
    pub session: SessionId,
    /// The sequence number of the session's request to the coordinator.
    pub sequence: Sequence,
}

/// An attempt to prepare a transaction. A coordinator numbers all its attempts in one series, and a new primary's are above
/// all of its predecessors', so no number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The epoch of the coordinator's partition.
    pub epoch: PartitionEpoch,
    /// The number of the attempt in that epoch, from 1.
    pub counter: u64,
}

/// Identifies staged bytes by the request that staged them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId {
    /// The session.
    pub session: SessionId,
    /// The sequence number of the session's request to the partition that stores them.
    pub sequence: Sequence,
}

/// A coordinator's floor, part of all its messages. Every decision in these places below this index of its log is finished,
/// so participants may forget what they remember of those decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionFloor {
    /// The coordinator's slice.
    pub hash_range: KeyspaceRange,
    /// The index of the oldest unfinished decision, or above all decisions.
    pub index: LogIndex,
}

/// The durability of a keyspace, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// In memory only.
    #[default]
    Memory,
    /// Flushed at intervals.
    Interval,
    /// On disk before it is acknowledged.
    Sync,
}

impl fmt::Display for RoutingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.keyspace, self.point)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.session, self.sequence, self.coordinator)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}
