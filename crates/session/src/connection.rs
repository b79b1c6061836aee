//! One connection of the cache, from the wish for it to its end.

use std::collections::VecDeque;
use std::sync::Arc;

use zerohop_wire::auth::Caller;
use zerohop_wire::messages::HelloAck;
use zerohop_wire::{Decoder, Encoder};

use crate::error::AttemptFailure;
use crate::slots::Handle;
use crate::time::Time;

/// Names one opening of a connection: a later one to the same address has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl ConnectionId {
    /// A small number that no other open connection of this session has.
    #[must_use]
    pub fn place(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: Arc<str>,
    /// Of the present opening.
    pub(crate) serial: u32,
    pub(crate) phase: ConnectionPhase,
    /// To be sent, in order, each in a frame of its own.
    pub(crate) queue: VecDeque<Handle>,
    /// To be sent together with what still comes.
    pub(crate) collected: Vec<Handle>,
    pub(crate) collected_bytes: usize,
    /// When the collected must go, and from how many bytes on.
    pub(crate) collect_due: Time,
    pub(crate) collect_bytes: usize,
    /// Frames under way.
    pub(crate) flights: u32,
    /// Those of them whose operations have been sent again, or have ended.
    pub(crate) overdue: u32,
    /// Openings in a row that came to nothing.
    pub(crate) failures: u32,
    pub(crate) encoder: Encoder,
    pub(crate) decoder: Decoder,
    /// Frames to be handed to the shell at the end of the turn.
    pub(crate) out: Vec<u8>,
    /// The other side takes several requests in one frame.
    pub(crate) gathers: bool,
    /// The other side holds what is read, and says so.
    pub(crate) holds: bool,
    /// The frame at the end of `out` to which requests are still added.
    pub(crate) open: Option<OpenFrame>,
    /// In the list of those to look at in this turn.
    pub(crate) dirty: bool,
    /// Takes nothing more, and is closed once it has sent what waits there and has the answers: others need its place.
    pub(crate) draining: bool,
    /// To be opened even if no operation waits for it.
    pub(crate) for_map: bool,
    /// When something last came, or the first frame was sent after a rest.
    pub(crate) quiet_since: Time,
    pub(crate) pinged: bool,
    /// When an operation was last put into its queue.
    pub(crate) used: Time,
    pub(crate) last: Option<AttemptFailure>,
    /// A greeting that has offered a proof, until it is answered.
    pub(crate) caller: Option<Caller>,
    /// What the server said when it was greeted, until it has taken the proof.
    pub(crate) proving: Option<Box<HelloAck>>,
}

/// A frame that is not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFrame {
    /// Where it begins.
    pub(crate) start: usize,
    pub(crate) flight: Handle,
    /// The longest of its requests.
    pub(crate) time_out_ms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The shell opens it.
    Connecting { due: Time },
    /// `Hello` has been sent, and perhaps the proof that follows it.
    Greeting { due: Time },
    /// Takes requests.
    Ready,
    /// Lost; opened again then, if it is still needed.
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
            flights: 0,
            overdue: 0,
            failures: 0,
            encoder: Encoder::default(),
            decoder: Decoder::before_hello(),
            out: Vec::new(),
            gathers: false,
            holds: false,
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
        self.flights == 0 && self.queue.is_empty() && self.collected.is_empty()
    }

    /// Whether the collected must go now.
    pub(crate) fn collected_is_due(&self, now: Time) -> bool {
        !self.collected.is_empty() && (now >= self.collect_due || self.collected_bytes >= self.collect_bytes)
    }

    /// When it must be looked at.
    pub(crate) fn due(&self, quiet_us: u64) -> Time {
        match self.phase {
            ConnectionPhase::Connecting { due } | ConnectionPhase::Greeting { due } => due,
            ConnectionPhase::Resting { until } => until,
            ConnectionPhase::Ready => {
                // What is due already waits for an answer to make room, not for the time.
                let quiet = match (self.flights, self.pinged) {
                    (0, _) => Time::NEVER,
                    (_, false) => self.quiet_since.after_us(quiet_us),
                    (_, true) => self.quiet_since.after_us(quiet_us.saturating_mul(2)),
                };
                quiet.min(self.collect_due)
            }
        }
    }

    /// Takes out all that waits to be sent.
    pub(crate) fn take_waiting(&mut self) -> Vec<Handle> {
        self.collected_bytes = 0;
        self.collect_due = Time::NEVER;
        self.collect_bytes = usize::MAX;
        let mut waiting: Vec<Handle> = self.queue.drain(..).collect();
        waiting.append(&mut self.collected);
        waiting
    }
}
