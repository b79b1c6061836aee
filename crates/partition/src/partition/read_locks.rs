//! Read locks with a time limit: a record does not change for a moment, so that a reader of several records needs no confirming
//! round.
//!
//! ```text
//!   a read that requests it ──> quiet record? ──yes──> shared intent for READ_LOCK_MS ──> answer: locked for READ_LOCK_US
//!                                   └──no──> answered as usual; its client confirms it
//!   a writer of the record ──> waits for that intent, as for a transaction's; later read locks wait for the writer
//! ```
//!
//! `docs/decisions/0008-read-locks.md` explains why this is correct, and what it requires of clocks.

use zerohop_wire::Envelope;
use zerohop_wire::ids::Timestamp;

use super::Partition;
use super::transactions::PrimaryTransactions;
use crate::clock::Clock;
use crate::hash_range::HashRange;
use crate::limits::{READ_LOCK_MS, READ_LOCK_QUIET_MS, READ_LOCK_US};
use crate::overlay::Overlay;
use crate::planted::{Bug, is_planted};
use crate::state::PartitionState;

/// The read lock that a read requests.
#[derive(Clone, Debug)]
pub(super) struct ReadLockRequest {
    hash_range: HashRange,
    /// On the monotonic clock.
    until_ms: u64,
}

impl ReadLockRequest {
    /// Locks a record that was found at this version. Returns for how long its reader may rely on that; 0: it is not locked.
    pub(super) fn grant(
        &self,
        transacting: Option<&mut PrimaryTransactions>,
        (overlay, state, clock): (&Overlay, &PartitionState, &Clock),
        (key, version): (&[u8], Timestamp),
    ) -> u32 {
        // Often written records are not locked, since their writers would often wait. An absence is not confirmed either, and an
        // expiring record changes by itself.
        let quiet_ms = if is_planted(Bug::ReadLockIgnored) { 0 } else { READ_LOCK_QUIET_MS };
        let is_quiet = version != Timestamp::ZERO
            && clock.now_ms() >= version.millis() + quiet_ms
            && overlay.record(key).is_none()
            && state.deadlines.get(key).is_none();
        let Some(transacting) = transacting.filter(|_| is_quiet) else { return 0 };
        match transacting.add_read_lock(self.hash_range.lock_key(key), self.until_ms) {
            // Long enough that other writes come in between more often than once in some hundred seeds.
            true if is_planted(Bug::ReadLockIgnored) => 10 * READ_LOCK_US,
            true => READ_LOCK_US,
            false => 0,
        }
    }
}

impl Partition {
    /// The read lock that a request may be granted; `None`: none.
    pub(super) fn read_lock_for(&mut self, envelope: &Envelope) -> Option<ReadLockRequest> {
        if !envelope.read_lock {
            return None;
        }
        let is_open = self.transacting.is_some();
        let hash_range = self.hash_range().filter(|_| self.open_transactions())?;
        let until_ms = self.clock.elapsed_ms() + READ_LOCK_MS;
        self.read_locks_end_ms = until_ms;
        if let Some(transacting) = self.transacting.as_deref_mut().filter(|_| !is_open) {
            transacting.has_only_read_locks = true;
        }
        Some(ReadLockRequest { hash_range, until_ms })
    }

    /// When the last read lock that was granted here ends, on the monotonic clock.
    pub fn read_locks_end_ms(&self) -> u64 {
        self.read_locks_end_ms
    }

    /// Records that unknown read locks may last until then: those granted by the previous process, or by the parent of a split.
    pub fn await_read_locks(&mut self, until_ms: u64) {
        // A partition without data has granted no read lock.
        if self.log_writer.last() > 0 {
            self.read_locks_end_ms = self.read_locks_end_ms.max(until_ms);
            self.unknown_read_locks_end_ms = self.read_locks_end_ms;
        }
    }

    /// The read locks are forgotten. No record is changed until they have expired.
    pub(super) fn lose_read_locks(&mut self) {
        self.unknown_read_locks_end_ms = self.read_locks_end_ms;
    }

    /// Whether unknown read locks may exist. In that case no record is changed.
    #[inline]
    pub(super) fn has_unknown_read_locks(&self) -> bool {
        self.clock.elapsed_ms() < self.unknown_read_locks_end_ms
    }

    /// Whether any read lock may exist.
    pub(super) fn may_have_read_locks(&self) -> bool {
        self.clock.elapsed_ms() < self.read_locks_end_ms
    }

    /// Frees the memory of read locks, if nothing else needs it.
    pub(super) fn free_read_locks(&mut self) {
        let is_over = self.transacting.as_deref().is_some_and(PrimaryTransactions::is_over);
        if is_over && self.state.transacted.is_none() && !self.may_have_read_locks() {
            self.transacting = None;
        }
    }
}
