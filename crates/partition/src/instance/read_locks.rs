//! Holds for readers of several records ([`crate::Partition`] gives them), as far as the instance has to see to them: that the time which
//! comes with a request is not from before it came, and that partitions which are opened know of what others have held.

use zerohop_engine::disk::Disk;
use zerohop_wire::Envelope;

use super::Instance;
use crate::limits::{HOLD_MS, TIMELY_MS};

/// See the module. Times are of the clock that nobody sets, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadLocks {
    /// When all is over that was held by partitions which are no more, and by the process before this one.
    pub(super) ends_ms: u64,
    /// From when, and until when, the owner looks at its clock for everything that comes.
    timely_ms: (u64, u64),
}

impl ReadLocks {
    /// Of a process that has just begun.
    pub(super) fn begun_at(now_ms: u64) -> ReadLocks {
        ReadLocks { ends_ms: now_ms + HOLD_MS, ..ReadLocks::default() }
    }
}

impl<D: Disk> Instance<D> {
    /// Whether the time that comes with something must not be earlier than when that came.
    #[must_use]
    pub fn time_matters(&self) -> bool {
        self.shares() || self.clock.elapsed_ms() < self.holding.timely_ms.1
    }

    /// What a request asks, without what cannot be granted as long as the time may be from before it was sent: it would be held for
    /// less than its asker believes.
    pub(super) fn timely(&mut self, envelope: &Envelope) -> Envelope {
        if !envelope.hold {
            return *envelope;
        }
        let now_ms = self.clock.elapsed_ms();
        let (since_ms, until_ms) = self.holding.timely_ms;
        let since_ms = if now_ms < until_ms { since_ms } else { now_ms };
        self.holding.timely_ms = (since_ms, now_ms + TIMELY_MS);
        // What was read in this very millisecond may have been read before the owner knew.
        Envelope { hold: self.shares() || now_ms > since_ms, ..*envelope }
    }
}
