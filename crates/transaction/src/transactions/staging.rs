//! Bytes that are too long to travel with their transaction, and come before it.

use bytes::Bytes;

use super::Transactions;
use crate::effect::Effect;
use crate::entry::Entry;
use crate::id::{Durability, StageId};
use crate::limits::{STAGED_BYTES_MAX, STAGED_PIECE_BYTES_MAX, STAGED_PIECES_MAX};
use crate::reason::Reason;

impl Transactions {
    /// Stages a piece, at the durability of the partition's keyspace. It is there once the entry is committed, and until it
    /// expires or its transaction has been applied. The session table recognises repeated requests.
    ///
    /// # Errors
    /// `TooLong`, for the piece or for all that the session has staged here; `Overloaded`.
    pub fn stage(
        &mut self,
        (id, bytes): (StageId, Bytes),
        durability: Durability,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Reason> {
        if bytes.len() > STAGED_PIECE_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        if self.state.staged.len() >= STAGED_PIECES_MAX {
            return Err(Reason::Overloaded);
        }
        let least = StageId { sequence: Default::default(), ..id };
        let own = self.state.staged.range(least..).take_while(|(other, _)| other.session == id.session);
        let staged: u64 = own.map(|(_, staged)| staged.bytes).sum();
        if staged + bytes.len() as u64 > STAGED_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        effects.push(Effect::Append { entry: Entry::Stage { id, bytes }, durability });
        Ok(())
    }
}
