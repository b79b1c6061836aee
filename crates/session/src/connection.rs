//! One connection of the cache, from the request for it to its end.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::collected_operations::CollectedOperations;
use crate::connection_protocol::ConnectionProtocol;
use crate::error::AttemptFailure;
use crate::slots::Handle;
use crate::unanswered_frames::UnansweredFrames;
use zerohop_base::time::Time;

/// Identifies one opening of a connection: a later one to the same address has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl ConnectionId {
    /// A small number that no other open connection of this session has.
    #[must_use]
    pub fn slot(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: Arc<str>,
    /// The serial number of the current opening.
    pub(crate) serial: u32,
    pub(crate) phase: ConnectionPhase,
    /// Operations to send, in order, each in a request of its own.
    pub(crate) queue: VecDeque<Handle>,
    /// Operations that wait for others, to be sent together.
    pub(crate) collected: CollectedOperations,
    pub(crate) unanswered: UnansweredFrames,
    /// Number of failed openings in a row.
    pub(crate) failures: u32,
    pub(crate) protocol: ConnectionProtocol,
    /// Frames that the session passes to the shell at the end of the turn.
    pub(crate) out: Vec<u8>,
    /// The frame at the end of `out` to which the session still adds requests.
    pub(crate) open: Option<OpenFrame>,
    /// The connection is in the list of those to visit in this turn.
    pub(crate) dirty: bool,
    /// The connection accepts no more operations. The session closes it when its queue is sent and answered, because another connection needs its
    /// place.
    pub(crate) draining: bool,
    /// The session opens the connection to request the map, even if no operation waits for it.
    pub(crate) for_map: bool,
    /// When an operation was last added to the queue.
    pub(crate) used: Time,
    pub(crate) last: Option<AttemptFailure>,
}

/// A coalesced frame that is still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFrame {
    /// Its offset in `out`.
    pub(crate) start: usize,
    pub(crate) frame: Handle,
    /// The longest time-out of its requests.
    pub(crate) time_out_ms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The shell is opening the connection.
    Connecting { due: Time },
    /// `Hello` has been sent, and possibly the proof that follows it.
    Greeting { due: Time },
    /// The connection accepts requests.
    Ready,
    /// The connection is lost. The session opens it again at `until` if it is still needed.
    BackingOff { until: Time },
}

impl Connection {
    pub(crate) fn new(address: Arc<str>, now: Time) -> Self {
        Self {
            address,
            serial: 0,
            phase: ConnectionPhase::BackingOff { until: now },
            queue: VecDeque::new(),
            collected: CollectedOperations::new(),
            unanswered: UnansweredFrames::new(now),
            failures: 0,
            protocol: ConnectionProtocol::before_hello(),
            out: Vec::new(),
            open: None,
            dirty: false,
            draining: false,
            for_map: false,
            used: now,
            last: None,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == ConnectionPhase::Ready && !self.draining
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.count() == 0 && self.queue.is_empty() && self.collected.is_empty()
    }

    /// When the session must visit the connection next.
    pub(crate) fn due(&self, quiet_us: u64) -> Time {
        match self.phase {
            ConnectionPhase::Connecting { due } | ConnectionPhase::Greeting { due } => due,
            ConnectionPhase::BackingOff { until } => until,
            ConnectionPhase::Ready => {
                // Operations that are already due wait for an answer to free a slot, not for a time.
                self.unanswered.due(quiet_us).min(self.collected.due())
            }
        }
    }

    /// Removes and returns all operations that wait to be sent.
    pub(crate) fn take_waiting(&mut self) -> Vec<Handle> {
        let mut waiting: Vec<Handle> = self.queue.drain(..).collect();
        waiting.append(&mut self.collected.take().0);
        waiting
    }
}
