//! The partition as a whole: which requests wait, which are recognised as repeated, what survives a crash.

mod batches;
mod blobs;
mod changes;
mod chunk_lists;
mod model;
mod random;
mod requests;
mod retries;
mod snapshots;
mod split_cleanup;
mod survival;
mod units;
mod update_locks;
mod waiting;

use zerohop_wire::ids::{Sequence, SessionId, Timestamp};
use zerohop_wire::messages::Stamp;

/// A session that was issued long before.
pub(super) const SESSION: SessionId = SessionId { issued: Timestamp::from_millis(500), nonce: 1 };

pub(super) fn stamp(sequence: u64, lowest: u64) -> Stamp {
    let (sequence, lowest_unanswered) = (Sequence(sequence), Sequence(lowest));
    Stamp { session: SESSION, sequence, lowest_unanswered, seen: Timestamp::ZERO }
}
