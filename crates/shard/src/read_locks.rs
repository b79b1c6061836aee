//! The instance's part in read locks with a time limit, which [`zerohop_partition::Partition`] grants. The time that accompanies a request
//! must not be from before its arrival, and newly opened partitions must know of read locks granted by others.

use zerohop_engine::disk::Disk;
use zerohop_wire::Envelope;

use super::Instance;
use crate::limits::TIMELY_MS;
use zerohop_partition::limits::READ_LOCK_MS;

/// The state of read locks; see the module. Times are on the monotonic clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadLocks {
    /// When all read locks have ended that were granted by former partitions here and by the previous process.
    pub(super) ends_ms: u64,
    /// From when, and until when, the owner reads its clock for everything that arrives.
    timely_ms: (u64, u64),
}

impl ReadLocks {
    /// The state of a process that has just started.
    pub(super) fn begun_at(now_ms: u64) -> ReadLocks {
        ReadLocks { ends_ms: now_ms + READ_LOCK_MS, ..ReadLocks::default() }
    }
}

impl<D: Disk> Instance<D> {
    /// Whether the time that accompanies an event must not be earlier than its arrival.
    #[must_use]
    pub fn time_matters(&self) -> bool {
        self.shares() || self.clock.elapsed_ms() < self.holding.timely_ms.1
    }

    /// The request's envelope, without the request for a read lock while its time may be from before it was sent. Such a read lock
    /// would be shorter than the client believes.
    pub(super) fn timely(&mut self, envelope: &Envelope) -> Envelope {
        if !envelope.read_lock {
            return *envelope;
        }
        let now_ms = self.clock.elapsed_ms();
        let (since_ms, until_ms) = self.holding.timely_ms;
        let since_ms = if now_ms < until_ms { since_ms } else { now_ms };
        self.holding.timely_ms = (since_ms, now_ms + TIMELY_MS);
        // A read of this very millisecond may have arrived before the owner knew.
        Envelope { read_lock: self.shares() || now_ms > since_ms, ..*envelope }
    }
}
