//! The names of transactions, of their attempts, and of those who take part.

use std::fmt;
use std::ops::RangeInclusive;

use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

/// Whoever holds this point of the hash space of this keyspace: so is a partition named in transactions, since it may
/// move, and be split, between a question and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingKey {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// A hash of the partition's slice.
    pub point: u64,
}

/// A slice of a keyspace's hash space: what one partition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyspaceSlice {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The first hash.
    pub first: u64,
    /// The last hash.
    pub last: u64,
}

impl KeyspaceSlice {
    /// Whether a place lies in it.
    #[must_use]
    pub fn has(&self, place: RoutingKey) -> bool {
        self.keyspace == place.keyspace && self.has_cell(place.point)
    }

    /// The names of all transactions that may be decided in it: the coordinator's place comes first in their order.
    pub(crate) fn decides(&self) -> RangeInclusive<TransactionId> {
        let at = |point, session, sequence| TransactionId {
            coordinator: RoutingKey { keyspace: self.keyspace, point },
            session,
            sequence: Sequence(sequence),
        };
        let last = SessionId { issued: Timestamp(u64::MAX), nonce: u64::MAX };
        at(self.first, SessionId { issued: Timestamp(0), nonce: 0 }, 0)..=at(self.last, last, u64::MAX)
    }

    /// Whether a hash lies in it.
    pub(crate) fn has_cell(&self, cell: u64) -> bool {
        self.first <= cell && cell <= self.last
    }

    /// One hash alone: what is known of a participant whose slice was not told.
    pub(crate) fn of_one(place: RoutingKey) -> KeyspaceSlice {
        KeyspaceSlice { keyspace: place.keyspace, first: place.point, last: place.point }
    }

    /// The place by which it is named where no other is given.
    pub(crate) fn place(&self) -> RoutingKey {
        RoutingKey { keyspace: self.keyspace, point: self.first }
    }
}

/// A transaction: the request of a session, and where it is decided. Sequences count per session and partition, so the
/// coordinator's place belongs to the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// Where it is decided, fixed when it was first sent.
    pub coordinator: RoutingKey,
    /// Whose it is.
    pub session: SessionId,
    /// Which of the session's requests to the coordinator.
    pub sequence: Sequence,
}

/// An attempt to have a transaction prepared. A coordinator numbers all its attempts in one row, and a new primary's are
/// above all of its predecessors', so no number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Under which epoch of the coordinator's partition.
    pub epoch: PartitionEpoch,
    /// Which of that epoch's, from 1.
    pub counter: u64,
}

/// Bytes that were staged: the request that brought them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId {
    /// Whose.
    pub session: SessionId,
    /// Which of the session's requests to the partition that holds them.
    pub sequence: Sequence,
}

/// What a coordinator tells about itself in every message: below this index of its log, every decision in these places is
/// finished, so whatever is remembered of them may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The coordinator's slice.
    pub span: KeyspaceSlice,
    /// The index of the oldest unfinished decision, or above all decisions.
    pub index: LogIndex,
}

/// How durable a keyspace is, in the order in which one asks for more than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// In memory only.
    #[default]
    Memory,
    /// Flushed every so often.
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
