//! Frames that have been sent and not been answered.
//!
//! The id of a request names its frame, and which of the requests gathered in it it is: from 1, and 0 for the frame itself.

use zerohop_wire::ids::RequestId;
use zerohop_wire::limits::GATHERED_MAX;

use crate::slots::Handle;
use crate::time::Time;

/// One frame under way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The place of its connection.
    pub(crate) connection: u32,
    pub(crate) sent: Time,
    pub(crate) cargo: Cargo,
    /// An operation in it has been sent again since.
    pub(crate) overdue: bool,
}

/// What the frame asks.
#[derive(Debug)]
pub(crate) enum Cargo {
    Hello,
    Prove,
    Ping,
    Map,
    SessionOpen,
    One(Handle),
    /// In the order of the batch.
    Batch(Vec<Handle>),
    /// Several of the two above, each answered by itself.
    Gather(Gather),
}

/// Requests gathered in one frame.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Those that have been answered are taken out.
    requests: Vec<Option<Cargo>>,
    unanswered: usize,
}

impl Cargo {
    /// The operations that it still carries.
    pub(crate) fn into_operations(self) -> Vec<Handle> {
        match self {
            Self::One(operation) => vec![operation],
            Self::Batch(operations) => operations,
            Self::Gather(gather) => {
                gather.requests.into_iter().flatten().flat_map(Self::into_operations).collect()
            }
            Self::Hello | Self::Prove | Self::Ping | Self::Map | Self::SessionOpen => Vec::new(),
        }
    }
}

impl Gather {
    pub(crate) fn push(&mut self, request: Cargo) {
        self.requests.push(Some(request));
        self.unanswered += 1;
    }

    /// Whether nothing more may be put in.
    pub(crate) fn is_full(&self) -> bool {
        self.requests.len() >= GATHERED_MAX as usize
    }

    /// Takes out what has been answered, by its place from 1.
    pub(crate) fn take(&mut self, place: u32) -> Option<Cargo> {
        let cargo = self.requests.get_mut((place as usize).checked_sub(1)?)?.take()?;
        self.unanswered -= 1;
        Some(cargo)
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered == 0
    }
}

/// The id of the request in this place of a frame.
pub(crate) fn request_id(flight: Handle, place: u32) -> RequestId {
    RequestId(flight.pack(place))
}
