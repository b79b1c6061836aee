//! Composite operations: transactions, and consistent reads of several records. Each is a small state machine over single operations. It says which
//! operations to send, receives their results, and says what comes next. The session numbers, routes and repeats these operations like all others.
//!
//! ```text
//!   Commit    plan by the map ──▶ stage pieces ──▶ stage lists that name them ──▶ transact ──▶ end
//!                   ▲                                                               │
//!                   └──────────── the map was older than a split ◀──────────────────┤
//!                                                                                   ▼
//!   Reading   look ──▶ confirm ──▶ end                                    aborted: reported to the caller
//!             ▲  │        │        ▲
//!             │  └ lock ──┼────────┘
//!             └─ changed ─┘  after two failures, or if a record is absent: a transaction of shared reads
//! ```

mod commit;
mod consistent_read;
mod counts;
mod item;
mod plan;

pub(crate) use commit::Commit;
pub(crate) use consistent_read::ConsistentRead;
pub use counts::ReadCounts;
pub use item::CompositeItem;

use zerohop_placement::ClusterMap;

use crate::coalescing::Coalescing;
use crate::error::SessionError;
use crate::reply::Reply;
use crate::request_kind::RequestKind;
use zerohop_base::time::Time;

/// The result of one of the operations, and the time until which a read lock protects what it has read; `None`: no lock.
pub(crate) type ItemResult = (Result<Reply, SessionError>, Option<Time>);

/// Several operations that end together.
#[derive(Clone, Debug)]
pub(crate) enum Composite {
    /// All are applied, or none.
    Commit(Commit),
    /// All results were true at one moment.
    Reading(ConsistentRead),
}

/// The next step.
#[derive(Debug)]
pub(crate) enum CompositeStep {
    /// Wait until another of the operations has ended.
    Wait,
    /// Send these operations, each with its own sequence number.
    Send(Vec<ItemRequest>),
    /// Wait for a newer map, then call [`Composite::begin`].
    AwaitMap,
    /// The composite operation has ended.
    End(Result<Reply, SessionError>),
}

/// One operation to send.
#[derive(Debug)]
pub(crate) struct ItemRequest {
    pub(crate) slot: u32,
    pub(crate) operation: RequestKind,
    pub(crate) collecting: Coalescing,
    /// The operation requests a read lock with a time limit.
    pub(crate) wants_read_lock: bool,
}

impl Composite {
    /// Starts, or starts again with another map. `is_newest`: the map was requested after the session had learned that it needs a newer one.
    pub(crate) fn begin(&mut self, map: &ClusterMap, is_newest: bool) -> CompositeStep {
        match self {
            Self::Commit(commit) => commit.begin(map, is_newest),
            Self::Reading(reading) => reading.begin(map, is_newest),
        }
    }

    /// Receives the result of one of the operations.
    pub(crate) fn ended(&mut self, at: (&ClusterMap, Time), slot: u32, ended: ItemResult) -> CompositeStep {
        match self {
            Self::Commit(commit) => commit.ended(slot, ended.0),
            Self::Reading(reading) => reading.ended(at, slot, ended),
        }
    }

    /// Requests that end what the session has staged for it in vain: see [`Commit::releases`].
    pub(crate) fn releases(&mut self, has_failed: bool) -> Vec<ItemRequest> {
        match self {
            Self::Commit(commit) => commit.releases(has_failed),
            Self::Reading(reading) => reading.releases(has_failed),
        }
    }

    /// Bytes that it occupies.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit) => commit.bytes(),
            Self::Reading(reading) => reading.bytes(),
        }
    }
}
