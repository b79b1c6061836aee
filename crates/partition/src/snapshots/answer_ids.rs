//! Ids of snapshots that are opened for one answer each.

use zerohop_wire::ids::SnapshotId;
use zerohop_wire::messages::Member;

/// The high 32 bits of the ids of snapshots that are opened for one answer each: they are counted apart from those of clients.
const ANSWER_MARK: u128 = 0x616e_7377;

/// The id of a snapshot for one answer of an instance: no other of its answers within an hour or so has the low half of this number.
#[must_use]
pub fn answer_snapshot(of: Member, number: u64) -> SnapshotId {
    // Incarnations are random; instances of one process may share theirs.
    let of = u128::from(of.incarnation.0 ^ u64::from(of.instance.0).rotate_left(32));
    SnapshotId(ANSWER_MARK << 96 | of << 32 | u128::from(number as u32))
}

/// Whether a snapshot is for one answer.
pub(crate) fn is_for_answer(id: SnapshotId) -> bool {
    id.0 >> 96 == ANSWER_MARK
}
