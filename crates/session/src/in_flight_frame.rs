//! Frames that have been sent and not yet answered.
//!
//! A request id names the frame and the position of the request in it: positions count from 1, and 0 means the frame itself.

use zerohop_wire::ids::RequestId;
use zerohop_wire::limits::COALESCED_MAX;

use crate::slots::Handle;
use zerohop_base::time::Time;

/// One frame in flight.
#[derive(Debug)]
pub(crate) struct InFlightFrame {
    /// The position of its connection.
    pub(crate) connection: u32,
    pub(crate) sent: Time,
    pub(crate) contents: FrameContents,
    /// An operation of the frame has been sent again since.
    pub(crate) overdue: bool,
}

/// The contents of a frame.
#[derive(Debug)]
pub(crate) enum FrameContents {
    Hello,
    Prove,
    Ping,
    Map,
    SessionOpen,
    One(Handle),
    /// Operations in the order of the batch.
    Batch(Vec<Handle>),
    /// Several of the two variants above, each with its own answer.
    Coalesced(Gather),
}

/// The requests of a coalesced frame.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Answered requests are `None`.
    requests: Vec<Option<FrameContents>>,
    unanswered: usize,
}

impl FrameContents {
    /// The operations that are not answered yet.
    pub(crate) fn into_operations(self) -> Vec<Handle> {
        match self {
            Self::One(operation) => vec![operation],
            Self::Batch(operations) => operations,
            Self::Coalesced(gather) => {
                gather.requests.into_iter().flatten().flat_map(Self::into_operations).collect()
            }
            Self::Hello | Self::Prove | Self::Ping | Self::Map | Self::SessionOpen => Vec::new(),
        }
    }
}

impl Gather {
    pub(crate) fn push(&mut self, request: FrameContents) {
        self.requests.push(Some(request));
        self.unanswered += 1;
    }

    /// Whether the frame accepts no more requests.
    pub(crate) fn is_full(&self) -> bool {
        self.requests.len() >= COALESCED_MAX as usize
    }

    /// Removes and returns the request at this position, which counts from 1.
    pub(crate) fn take(&mut self, place: u32) -> Option<FrameContents> {
        let contents = self.requests.get_mut((place as usize).checked_sub(1)?)?.take()?;
        self.unanswered -= 1;
        Some(contents)
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered == 0
    }
}

/// The request id of this position of a frame.
pub(crate) fn request_id(in_flight: Handle, place: u32) -> RequestId {
    RequestId(in_flight.pack(place))
}
