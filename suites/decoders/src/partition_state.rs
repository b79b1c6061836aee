//! Any bytes as the state in a checkpoint, with any bytes as log entries behind it: refused, or read and written back.
//!
//! The first byte is the length of the entry's payload, the second its kind and flags; the payload follows, and the rest
//! is the state.

use zerohop_engine::{EntryKind, EntryMeta, FLAG_LIST, FLAG_TRAILER};
use zerohop_partition::state::PartitionState;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let [length, what, rest @ ..] = bytes else { return };
    let (payload, encoded) = rest.split_at(usize::from(*length).min(rest.len()));
    let mut state = PartitionState::decode(encoded).unwrap_or_default();
    let kind = [EntryKind::Put, EntryKind::Remove, EntryKind::Append, EntryKind::Mark][usize::from(what & 3)];
    let flags = [0, FLAG_TRAILER, FLAG_LIST, FLAG_LIST | FLAG_TRAILER][usize::from(what >> 2 & 3)];
    let meta = EntryMeta { kind, flags, epoch: 1, index: 1, timestamp: 7 << 16 };
    let before = state.clone();
    if state.apply(&meta, b"key", payload).is_err() {
        assert_eq!(state, before, "a refused entry changes nothing");
    }
    assert_eq!(PartitionState::decode(&state.encode()), Ok(state));
}
