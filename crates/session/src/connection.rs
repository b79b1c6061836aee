//! One connection of the cache, from the request for it to its end.

use std::collections::VecDeque;
use std::sync::Arc;

use zerohop_wire::auth::Caller;
use zerohop_wire::messages::HelloAck;
use zerohop_wire::{Decoder, Encoder};

use crate::error::AttemptFailure;
use crate::slots::Handle;
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
    pub(crate) collected: Vec<Handle>,
    pub(crate) collected_bytes: usize,
    /// The time at which the collected operations must be sent, and the number of bytes from which they are sent earlier.
    pub(crate) collect_due: Time,
    pub(crate) collect_bytes: usize,
    /// Number of frames in flight.
    pub(crate) frames_in_flight: u32,
    /// Number of these frames whose operations have been sent again, or have ended.
    pub(crate) overdue: u32,
    /// Number of failed openings in a row.
    pub(crate) failures: u32,
    pub(crate) encoder: Encoder,
    pub(crate) decoder: Decoder,
    /// Frames that the session passes to the shell at the end of the turn.
    pub(crate) out: Vec<u8>,
    /// The server accepts coalesced frames.
    pub(crate) accepts_coalesced: bool,
    /// The server supports read locks with a time limit and reports them.
    pub(crate) supports_read_locks: bool,
    /// The frame at the end of `out` to which the session still adds requests.
    pub(crate) open: Option<OpenFrame>,
    /// The connection is in the list of those to visit in this turn.
    pub(crate) dirty: bool,
    /// The connection accepts no more operations. The session closes it when its queue is sent and answered, because another connection needs its
    /// place.
    pub(crate) draining: bool,
    /// The session opens the connection to request the map, even if no operation waits for it.
    pub(crate) for_map: bool,
    /// The time when bytes last arrived, or when the first frame after an idle time was sent.
    pub(crate) quiet_since: Time,
    pub(crate) pinged: bool,
    /// When an operation was last added to the queue.
    pub(crate) used: Time,
    pub(crate) last: Option<AttemptFailure>,
    /// The state of a handshake that has offered a proof, until it is answered.
    pub(crate) caller: Option<Caller>,
    /// The server's reply to the greeting, until the server has accepted the proof.
    pub(crate) proving: Option<Box<HelloAck>>,
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
    Resting { until: Time },
}

impl Connection {
    pub(crate) fn new(address: Arc<str>, now: Time) -> Self {
        Self {
            address,
            serial: 0,
            phase: ConnectionPhase::Resting { until: now },
            queue: VecDeque::new(),
            collected: Vec::new(),
            collected_bytes: 0,
            collect_due: Time::NEVER,
            collect_bytes: usize::MAX,
            frames_in_flight: 0,
            overdue: 0,
            failures: 0,
            encoder: Encoder::default(),
            decoder: Decoder::before_hello(),
            out: Vec::new(),
            accepts_coalesced: false,
            supports_read_locks: false,
            open: None,
            dirty: false,
            draining: false,
            for_map: false,
            quiet_since: now,
            pinged: false,
            used: now,
            last: None,
            caller: None,
            proving: None,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == ConnectionPhase::Ready && !self.draining
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.frames_in_flight == 0 && self.queue.is_empty() && self.collected.is_empty()
    }

    /// Whether the collected operations must be sent now.
    pub(crate) fn collected_is_due(&self, now: Time) -> bool {
        !self.collected.is_empty() && (now >= self.collect_due || self.collected_bytes >= self.collect_bytes)
    }

    /// When the session must visit the connection next.
    pub(crate) fn due(&self, quiet_us: u64) -> Time {
        match self.phase {
            ConnectionPhase::Connecting { due } | ConnectionPhase::Greeting { due } => due,
            ConnectionPhase::Resting { until } => until,
            ConnectionPhase::Ready => {
                // Operations that are already due wait for an answer to free a slot, not for a time.
                let quiet = match (self.frames_in_flight, self.pinged) {
                    (0, _) => Time::NEVER,
                    (_, false) => self.quiet_since.after_us(quiet_us),
                    (_, true) => self.quiet_since.after_us(quiet_us.saturating_mul(2)),
                };
                quiet.min(self.collect_due)
            }
        }
    }

    /// Removes and returns all operations that wait to be sent.
    pub(crate) fn take_waiting(&mut self) -> Vec<Handle> {
        self.collected_bytes = 0;
        self.collect_due = Time::NEVER;
        self.collect_bytes = usize::MAX;
        let mut waiting: Vec<Handle> = self.queue.drain(..).collect();
        waiting.append(&mut self.collected);
        waiting
    }
}
