//! One operation of a caller, from its submission to its end.

use zerohop_placement::Keyspace;
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId, Sequence, SessionId};

use crate::coalescing::{Coalescing, Collect};
use crate::error::AttemptFailure;
use crate::request_kind::RequestKind;
use crate::slots::Handle;
use zerohop_base::time::Time;

#[derive(Debug)]
pub(crate) struct OpenOperation<T> {
    pub(crate) owner: CompletionTarget<T>,
    pub(crate) request: RequestKind,
    pub(crate) collecting: Coalescing,
    /// The operation requests a read lock with a time limit, because it is part of a read of several records.
    pub(crate) wants_read_lock: bool,
    pub(crate) submitted: Time,
    pub(crate) deadline: Time,
    pub(crate) state: OperationState,
    /// The partition of its key, once a map is known: it stays the same until its keyspace is split.
    pub(crate) partition: Option<PartitionId>,
    /// The epoch of that partition in the map that routed the operation.
    pub(crate) epoch: PartitionEpoch,
    /// The sequence number of a write, assigned with its first frame.
    pub(crate) stamp: Option<AssignedSequence>,
    /// A frame with this write may have been executed, and no answer says whether.
    pub(crate) may_be_executed: bool,
    /// Number of frames sent.
    pub(crate) attempts: u32,
    pub(crate) redirects: u8,
    /// Number of pauses in a row.
    pub(crate) pauses: u32,
    pub(crate) last: Option<Box<AttemptFailure>>,
}

/// The receiver of an operation's result.
#[derive(Debug)]
pub(crate) enum CompletionTarget<T> {
    /// The caller, identified by the submitted token.
    Caller(T),
    /// The composite operation to which the operation belongs.
    Composite {
        /// Its handle.
        procedure: Handle,
        /// The index of the operation in it.
        slot: u32,
    },
}

/// The state of an operation. It is in one state at a time; queues that still name it in another state skip it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationState {
    /// No map says where the operation belongs.
    Unrouted,
    /// In the queue, or among the collected operations, of the connection at this position.
    Queued { connection: u32 },
    /// All connections that the session may have are in use.
    NoFreeConnection,
    /// A write that waits for a session.
    AwaitingSession,
    /// A write whose partition has a full sequence window.
    WindowFull,
    /// In this frame, which is overdue at `due`. From `look` on the session checks whether the partition has another primary.
    InFlight { in_flight: Handle, due: Time, look: Time },
    /// Waits until its next attempt.
    BackingOff { until: Time },
}

/// A write's number in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AssignedSequence {
    pub(crate) session: SessionId,
    pub(crate) sequence: Sequence,
    /// The lowest open number when this one was assigned; the write sends it once the partition's window has changed to another session.
    pub(crate) lowest: Sequence,
}

impl<T> OpenOperation<T> {
    /// When the session must look at the operation next.
    pub(crate) fn due(&self) -> Time {
        match self.state {
            OperationState::InFlight { due, look, .. } => due.min(look).min(self.deadline),
            OperationState::BackingOff { until } => until.min(self.deadline),
            _ => self.deadline,
        }
    }

    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.request.keyspace()
    }

    /// Whether a second execution, or an unknown outcome, would be wrong.
    pub(crate) fn changes(&self) -> bool {
        self.request.is_numbered() || self.is_admin()
    }

    /// Whether the operation may wait for others, and how long. An operation that was sent before has waited enough.
    pub(crate) fn collect_in(&self, keyspace: &Keyspace) -> Option<Collect> {
        let RequestKind::Record { item, wait: false, .. } = &self.request else { return None };
        if self.attempts > 0 {
            return None;
        }
        let collect = match self.collecting {
            Coalescing::Never => return None,
            Coalescing::Within(collect) => collect,
            Coalescing::AsKeyspace => {
                let config = keyspace.config();
                let (delay_us, bytes) = (config.batch_delay_us, config.batch_bytes);
                if delay_us == 0 {
                    return None;
                }
                Collect { delay_us, bytes }
            }
        };
        (item.len() < collect.bytes as usize).then_some(collect)
    }

    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.request, RequestKind::Record { wait: true, .. } | RequestKind::Changes { .. })
    }

    pub(crate) fn is_admin(&self) -> bool {
        matches!(self.request, RequestKind::Admin { .. })
    }

    pub(crate) fn is_in_frame(&self, frame: Handle) -> bool {
        matches!(self.state, OperationState::InFlight { in_flight, .. } if in_flight == frame)
    }
}
