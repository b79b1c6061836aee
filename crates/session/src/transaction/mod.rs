//! Operations that end together: transactions, and reads of several records as of one moment. Each is a small state
//! machine over single operations: it says which are to be sent, is told how they ended, and says what comes next. The
//! session numbers, routes and repeats them as it does all others.
//!
//! ```text
//!   Commit    plan by the map ──▶ stage pieces ──▶ stage lists that name them ──▶ transact ──▶ end
//!                   ▲                                                               │
//!                   └──────────── the map was older than a split ◀──────────────────┤
//!                                                                                   ▼
//!   Reading   look ──▶ confirm ──▶ end                                    aborted: told to the caller
//!             ▲  │        │        ▲
//!             │  └ held ──┼────────┘
//!             └─ changed ─┘  after two failures, or where something is absent: a transaction of shared reads
//! ```

mod commit;
mod counts;
mod item;
mod plan;
mod reading;
mod unfit;

pub(crate) use commit::Commit;
pub use counts::ReadCounts;
pub use item::CompositeItem;
pub(crate) use reading::ConsistentRead;
pub use unfit::InvalidTransaction;

use zerohop_placement::ClusterMap;

use crate::error::SessionError;
use crate::reply::Reply;
use crate::request::{Coalescing, RequestKind};
use crate::time::Time;

/// How one of the operations has ended, and until when nobody changes what it has read; `None`: anybody may.
pub(crate) type ItemResult = (Result<Reply, SessionError>, Option<Time>);

/// Several operations that end together.
#[derive(Clone, Debug)]
pub(crate) enum Composite {
    /// All are done, or none.
    Commit(Commit),
    /// All were true at one moment.
    Reading(ConsistentRead),
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum CompositeStep {
    /// Nothing before another of the operations has ended.
    Wait,
    /// These are to be sent, each with a number of its own.
    Send(Vec<ItemRequest>),
    /// A newer map is needed, then [`Composite::begin`].
    AwaitMap,
    /// It has ended.
    End(Result<Reply, SessionError>),
}

/// One operation to be sent.
#[derive(Debug)]
pub(crate) struct ItemRequest {
    pub(crate) slot: u32,
    pub(crate) ask: RequestKind,
    pub(crate) collecting: Coalescing,
    /// Nobody should change what it reads for a moment.
    pub(crate) hold: bool,
}

impl Composite {
    /// Begins, or begins again by another map. `is_newest`: that map was asked for since a newer one was found to be needed.
    pub(crate) fn begin(&mut self, map: &ClusterMap, is_newest: bool) -> CompositeStep {
        match self {
            Self::Commit(commit) => commit.begin(map, is_newest),
            Self::Reading(reading) => reading.begin(map, is_newest),
        }
    }

    /// One of the operations has ended.
    pub(crate) fn ended(&mut self, at: (&ClusterMap, Time), slot: u32, ended: ItemResult) -> CompositeStep {
        match self {
            Self::Commit(commit) => commit.ended(slot, ended.0),
            Self::Reading(reading) => reading.ended(at, slot, ended),
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit) => commit.bytes(),
            Self::Reading(reading) => reading.bytes(),
        }
    }
}
