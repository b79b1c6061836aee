//! One operation of a caller, from its submission to its end.

use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId, Sequence, SessionId};

use crate::error::AttemptFailure;
use crate::request::{Coalescing, RequestKind};
use crate::slots::Handle;
use crate::time::Time;

#[derive(Debug)]
pub(crate) struct OpenOperation<T> {
    pub(crate) owner: CompletionTarget<T>,
    pub(crate) ask: RequestKind,
    pub(crate) collecting: Coalescing,
    /// What it reads is to be held, as it is read with others.
    pub(crate) hold: bool,
    pub(crate) submitted: Time,
    pub(crate) deadline: Time,
    pub(crate) state: OperationState,
    /// Where its key lies, once a map has said so: the same until its keyspace is split.
    pub(crate) partition: Option<PartitionId>,
    /// The epoch of that partition in the map by which it was routed.
    pub(crate) epoch: PartitionEpoch,
    /// The number of a write, from its first frame on.
    pub(crate) stamp: Option<AssignedSequence>,
    /// A frame with this write may have been taken up, and no answer says whether.
    pub(crate) doubt: bool,
    /// Frames sent.
    pub(crate) attempts: u32,
    pub(crate) redirects: u8,
    /// Rests in a row.
    pub(crate) rests: u32,
    pub(crate) last: Option<Box<AttemptFailure>>,
}

/// Whom the end of an operation is told.
#[derive(Debug)]
pub(crate) enum CompletionTarget<T> {
    /// The caller, by what came with it.
    Caller(T),
    /// Those that end together, of which it is one.
    Together {
        /// Which.
        procedure: Handle,
        /// Which of its own.
        slot: u32,
    },
}

/// Where an operation is. It is in one place at a time; queues that still name it elsewhere pass over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationState {
    /// No map says where it belongs.
    Unrouted,
    /// In the queue, or among those collected, of the connection in this place.
    Queued { connection: u32 },
    /// All connections that the session may have are in use.
    Starved,
    /// A write without a session.
    AwaitingSession,
    /// A write whose partition's window is full.
    Parked,
    /// In this frame, which is overdue from `due` on; from `look` on it is time to see whether its owner is another by now.
    Flying { flight: Handle, due: Time, look: Time },
    /// Until its next attempt.
    Resting { until: Time },
}

/// A write's place in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AssignedSequence {
    pub(crate) session: SessionId,
    pub(crate) sequence: Sequence,
    /// The lowest open number when this one was taken: what to say once the partition has gone on to another session.
    pub(crate) lowest: Sequence,
}

impl<T> OpenOperation<T> {
    /// When it must be looked at.
    pub(crate) fn due(&self) -> Time {
        match self.state {
            OperationState::Flying { due, look, .. } => due.min(look).min(self.deadline),
            OperationState::Resting { until } => until.min(self.deadline),
            _ => self.deadline,
        }
    }

    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.ask.keyspace()
    }

    /// Whether doing it twice, or not knowing whether it was done, would be wrong.
    pub(crate) fn changes(&self) -> bool {
        self.ask.is_numbered() || self.is_admin()
    }

    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.ask, RequestKind::Record { wait: true, .. })
    }

    pub(crate) fn is_admin(&self) -> bool {
        matches!(self.ask, RequestKind::Admin { .. })
    }

    pub(crate) fn flies_in(&self, frame: Handle) -> bool {
        matches!(self.state, OperationState::Flying { flight, .. } if flight == frame)
    }
}
