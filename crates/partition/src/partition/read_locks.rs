//! Records that nobody changes for a moment, so that whoever reads several of them need not ask whether they are still so.
//!
//! ```text
//!   a read that asks for it ──> quiet record? ──yes──> shared intent that lapses after HOLD_MS ──> the answer says: held for HELD_US
//!                                   └──no──> answered as ever, and confirmed by its client
//!   whoever would change it ──> waits for that intent, as for a transaction's, and is before any hold to come
//! ```
//!
//! Why it is right, and what it needs of clocks: `docs/decisions/0008-held-reads.md`.

use zerohop_wire::Envelope;
use zerohop_wire::ids::Timestamp;

use super::Partition;
use super::transactions::PrimaryTransactions;
use crate::clock::Clock;
use crate::hash_range::Slice;
use crate::limits::{HELD_US, HOLD_MS, HOLD_QUIET_MS};
use crate::overlay::Overlay;
use crate::planted::{Bug, is_planted};
use crate::state::PartitionState;

/// What a read asks for that is to be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLockRequest {
    slice: Slice,
    /// On the clock that nobody sets.
    until_ms: u64,
}

impl ReadLockRequest {
    /// Has a record held that was found at this version. For how long its reader may count on that; 0: it is not held.
    pub(super) fn grant(
        self,
        transacting: Option<&mut PrimaryTransactions>,
        (overlay, state, clock): (&Overlay, &PartitionState, &Clock),
        (key, version): (&[u8], Timestamp),
    ) -> u32 {
        // Writers of what is written often would wait often; an absence is not confirmed either; what expires changes by itself.
        let quiet_ms = if is_planted(Bug::HoldIgnored) { 0 } else { HOLD_QUIET_MS };
        let is_quiet = version != Timestamp::ZERO
            && clock.now_ms() >= version.millis() + quiet_ms
            && overlay.record(key).is_none()
            && state.deadlines.get(key).is_none();
        let Some(transacting) = transacting.filter(|_| is_quiet) else { return 0 };
        match transacting.hold(self.slice.hash(key), self.until_ms) {
            // So long that others come in between more often than once in some hundred seeds.
            true if is_planted(Bug::HoldIgnored) => 10 * HELD_US,
            true => HELD_US,
            false => 0,
        }
    }
}

impl Partition {
    /// What a request may be granted that asks to be held; `None`: nothing.
    pub(super) fn wish(&mut self, envelope: &Envelope) -> Option<ReadLockRequest> {
        if !envelope.hold {
            return None;
        }
        let is_open = self.transacting.is_some();
        let slice = self.slice().filter(|_| self.open_transactions())?;
        let until_ms = self.clock.elapsed_ms() + HOLD_MS;
        self.holds_end_ms = until_ms;
        if let Some(transacting) = self.transacting.as_deref_mut().filter(|_| !is_open) {
            transacting.has_holds_alone = true;
        }
        Some(ReadLockRequest { slice, until_ms })
    }

    /// On the clock that nobody sets, when all that was ever held here may be changed.
    pub(crate) fn holds_end_ms(&self) -> u64 {
        self.holds_end_ms
    }

    /// Something may be held until then of which this partition knows nothing: by the process before this one, or by what this
    /// was split off from.
    pub(crate) fn await_holds(&mut self, until_ms: u64) {
        // Whoever has nothing has held nothing.
        if self.group.last() > 0 {
            self.holds_end_ms = self.holds_end_ms.max(until_ms);
            self.unknown_holds_end_ms = self.holds_end_ms;
        }
    }

    /// What is held is forgotten: nothing is changed until that has lapsed.
    pub(super) fn lose_holds(&mut self) {
        self.unknown_holds_end_ms = self.holds_end_ms;
    }

    /// Whether something may be held, and nobody knows what: nothing is changed then.
    #[inline]
    pub(super) fn has_unknown_holds(&self) -> bool {
        self.clock.elapsed_ms() < self.unknown_holds_end_ms
    }

    /// Whether anything may be held.
    pub(super) fn may_hold(&self) -> bool {
        self.clock.elapsed_ms() < self.holds_end_ms
    }

    /// Lets go of what holds have needed, if that is all there was.
    pub(super) fn forget_holds(&mut self) {
        let is_over = self.transacting.as_deref().is_some_and(PrimaryTransactions::is_over);
        if is_over && self.state.transacted.is_none() && !self.may_hold() {
            self.transacting = None;
        }
    }
}
