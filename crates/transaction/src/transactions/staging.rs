//! Staged data: bytes that are too long to be sent with their transaction, and are sent before it.
//!
//! A piece exists from its entry until the transaction that has pinned it is applied. Without a pin it exists until its
//! session releases it, or until [`STAGED_US_MAX`] after its session last staged data here. The entry that ends it also
//! releases its bytes. Therefore no transaction may pin a piece that is about to expire, and no two transactions may
//! pin one piece.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Transactions;
use crate::effect::TransactionEffect;
use crate::entry::TransactionEntry;
use crate::id::{Durability, StageId, TransactionId};
use crate::limits::{
    EXPIRED_PER_ENTRY_MAX, STAGED_BYTES_MAX, STAGED_HERE_BYTES_MAX, STAGED_PIECE_BYTES_MAX,
    STAGED_PIECES_MAX, STAGED_US_MAX,
};
use crate::reason::{Reason, Refusal};
use zerohop_base::time::Time;
use zerohop_wire::ids::{Sequence, SessionId};

impl Transactions {
    /// Stages a piece, at the durability of the partition's keyspace. It exists once the entry is committed, until it
    /// expires or its transaction has been applied. The session table recognizes repeated requests.
    ///
    /// # Errors
    /// `TooLong`, for the piece or for all that the session has staged here; `Overloaded`.
    pub fn stage(
        &mut self,
        (id, bytes): (StageId, Bytes),
        durability: Durability,
        effects: &mut Vec<TransactionEffect>,
    ) -> Result<(), Reason> {
        if bytes.len() > STAGED_PIECE_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        let (pieces, all) = self.state.staged();
        if pieces >= STAGED_PIECES_MAX || all + bytes.len() as u64 > STAGED_HERE_BYTES_MAX {
            return Err(Reason::Overloaded);
        }
        let own =
            self.state.staged.range(least_of(id)..).take_while(|(other, _)| other.session == id.session);
        let staged: u64 = own.map(|(_, staged)| staged.bytes).sum();
        if staged + bytes.len() as u64 > STAGED_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        effects.push(TransactionEffect::Append { entry: TransactionEntry::Stage { id, bytes }, durability });
        Ok(())
    }

    /// A piece is staged. This shows that its session still exists: the session's earlier pieces stay as long as this one.
    pub(super) fn is_staged(&mut self, now: Time, id: StageId) {
        let at = now.after_us(STAGED_US_MAX);
        self.expire_at.insert(id, at);
        let own =
            self.expire_at.range_mut(least_of(id)..).take_while(|(other, _)| other.session == id.session);
        own.for_each(|(_, expire_at)| *expire_at = at);
    }

    /// Ends pieces that their session needs no more. Pieces that a pending transaction depends on, and unknown ones, stay as
    /// they are.
    pub fn release_staged(
        &mut self,
        session: SessionId,
        pieces: &[Sequence],
        effects: &mut Vec<TransactionEffect>,
    ) {
        let used: BTreeSet<StageId> = self.pinned_by_others(None).collect();
        let is_free = |id: &StageId| {
            let staged = self.state.staged.get(id);
            staged.is_some_and(|staged| staged.pinned.is_none())
                && !used.contains(id)
                && !self.expiring.contains(id)
        };
        let ids = pieces.iter().map(|sequence| StageId { session, sequence: *sequence });
        let ids: BTreeSet<StageId> = ids.filter(is_free).take(EXPIRED_PER_ENTRY_MAX).collect();
        if ids.is_empty() {
            return;
        }
        self.expiring.extend(&ids);
        let entry = TransactionEntry::Expire { ids: ids.into_iter().collect() };
        effects.push(TransactionEffect::Append { entry, durability: Durability::Memory });
    }

    /// Whether a transaction may depend on these pieces: they exist, stay, and no other transaction depends on them.
    pub(super) fn may_pin(&self, id: TransactionId, pieces: &BTreeSet<StageId>) -> Result<(), Refusal> {
        if pieces.is_empty() {
            return Ok(());
        }
        let staged =
            |piece: &StageId| self.state.staged.get(piece).filter(|_| !self.expiring.contains(piece));
        if pieces.iter().any(|piece| staged(piece).is_none()) {
            return Err(Reason::StagedExpired.into());
        }
        // It may be an earlier transaction of the same client, which has failed and is not released yet.
        let is_pinned = |piece| staged(piece).and_then(|staged| staged.pinned).is_some_and(|by| by != id);
        if pieces.iter().any(is_pinned) || self.pinned_by_others(Some(id)).any(|one| pieces.contains(&one)) {
            return Err(Reason::Overloaded.into());
        }
        Ok(())
    }

    /// Pieces that pending transactions depend on, whether the log has the pin already or not.
    fn pinned_by_others(&self, but: Option<TransactionId>) -> impl Iterator<Item = StageId> {
        let pinned = self.prepared.iter().map(|(id, pinned)| (*id, &pinned.pinned[..]));
        // A coordinator's own part needs no pin in the log before the decision.
        let own = self.running.iter().map(|(id, one)| (*id, super::coordinator::pinned_by(&one.own)));
        pinned
            .chain(own)
            .filter(move |(id, _)| Some(*id) != but)
            .flat_map(|(_, pinned)| pinned.iter().copied())
    }

    /// Staged data without a pin expires.
    pub(super) fn tick_staged(&mut self, now: Time, effects: &mut Vec<TransactionEffect>) {
        let is_due = self.expire_at.values().any(|at| *at <= now);
        if !is_due {
            return;
        }
        let used: BTreeSet<StageId> = self.pinned_by_others(None).collect();
        let mut ids = Vec::new();
        for (id, at) in &mut self.expire_at {
            let Some(staged) = self.state.staged.get(id).filter(|_| *at <= now) else { continue };
            if staged.pinned.is_some() || used.contains(id) || self.expiring.contains(id) {
                *at = now.after_us(STAGED_US_MAX);
            } else if ids.len() < EXPIRED_PER_ENTRY_MAX {
                ids.push(*id);
            }
        }
        if !ids.is_empty() {
            self.expiring.extend(&ids);
            effects.push(TransactionEffect::Append {
                entry: TransactionEntry::Expire { ids },
                durability: Durability::Memory,
            });
        }
        let staged = &self.state.staged;
        self.expire_at.retain(|id, _| staged.contains_key(id));
    }
}

/// The lowest id that a piece of the same session could have.
fn least_of(id: StageId) -> StageId {
    StageId { sequence: Default::default(), ..id }
}
