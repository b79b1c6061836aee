//! The encoding of the state, as a checkpoint of the engine carries it. `docs/formats/partition-state.md` has the layout.

use std::fmt;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BLOB_NAME_BYTES_MAX, KEY_BYTES_MAX};

use super::{Outcomes, PartitionState, ReplicatedTransactions, SessionRecord};
use crate::outcome::WriteOutcome;
use crate::session_fields::session_id;
use zerohop_base::bytes::Reader;

/// The encoding has the lowest version that can represent the state.
const VERSION: u32 = 1;
/// For a keyspace that was split, once the records of siblings are removed.
const VERSION_SPLIT_CLEANED: u32 = 2;
/// With transactions over several partitions, or outcomes of them.
const VERSION_TRANSACTED: u32 = 3;
/// With the names of blobs.
const VERSION_NAMES: u32 = 4;

/// Why bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// An unknown version.
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes end too soon, are too long, or contradict each other.
    Damaged,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Version { found } => write!(
                f,
                "partition state of version {found} is not known here (known: up to {VERSION_NAMES}); use a newer zerohop"
            ),
            StateError::Damaged => write!(f, "the partition state in the checkpoint is damaged"),
        }
    }
}

impl std::error::Error for StateError {}

impl PartitionState {
    /// Encodes the state.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(64 + self.sessions.bytes() + self.deadlines.bytes() + self.names.bytes());
        // The version is set at the end, when the contents are known.
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.sessions.len() as u32).to_le_bytes());
        for field in
            [self.applied, self.newest.0, self.sessions.session_mark().0, self.deadlines.len() as u64]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let mut has_ended = false;
        for (id, session) in self.sessions.iter() {
            for field in [id.issued.0, id.nonce, session.lowest, session.last_used_ms] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            out.extend_from_slice(&(session.outcomes.len() as u32).to_le_bytes());
            for (sequence, outcome) in session.outcomes.iter() {
                out.extend_from_slice(&sequence.to_le_bytes());
                outcome.encode(Timestamp::ZERO, &mut out);
                has_ended |= matches!(outcome, WriteOutcome::Transaction(_));
            }
        }
        for (key, deadline) in self.deadlines.iter() {
            out.extend_from_slice(&deadline.to_le_bytes());
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
        }
        let has_names = self.names.len() > 0;
        let version = match (&self.transacted, self.cleaned_splits) {
            _ if has_names => VERSION_NAMES,
            (None, 0) if !has_ended => VERSION,
            (None, _) if !has_ended => VERSION_SPLIT_CLEANED,
            _ => VERSION_TRANSACTED,
        };
        out[..4].copy_from_slice(&version.to_le_bytes());
        out.extend((version > VERSION).then_some(self.cleaned_splits));
        if version >= VERSION_TRANSACTED {
            match &self.transacted {
                Some(transacted) => transacted.encode(&mut out),
                None => out.extend_from_slice(&0u32.to_le_bytes()),
            }
        }
        if has_names {
            out.extend_from_slice(&(self.names.len() as u64).to_le_bytes());
        }
        for name in self.names.iter() {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name);
        }
        out
    }

    /// Decodes a state. Never panics, and allocates no more than a small multiple of its input.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn decode(bytes: &[u8]) -> Result<PartitionState, StateError> {
        let mut from = Reader::new(bytes);
        let version = match from.u32() {
            Some(version @ VERSION..=VERSION_NAMES) => version,
            Some(found) => return Err(StateError::Version { found }),
            None => return Err(StateError::Damaged),
        };
        let mut state = read(&mut from).ok_or(StateError::Damaged)?;
        if version > VERSION {
            let cleaned_splits =
                from.u8().filter(|cleaned_splits| *cleaned_splits > 0 || version >= VERSION_TRANSACTED);
            state.cleaned_splits = cleaned_splits.ok_or(StateError::Damaged)?;
        }
        if version >= VERSION_TRANSACTED {
            let transacted =
                ReplicatedTransactions::decode(&mut from, state.applied).ok_or(StateError::Damaged)?;
            state.transacted = Some(transacted).filter(|one| !one.is_empty()).map(Box::new);
        }
        if version == VERSION_NAMES {
            read_names(&mut from, &mut state).ok_or(StateError::Damaged)?;
        }
        if from.is_at_end() { Ok(state) } else { Err(StateError::Damaged) }
    }
}

fn read(from: &mut Reader<'_>) -> Option<PartitionState> {
    let sessions = from.u32()?;
    let mut state =
        PartitionState { applied: from.u64()?, newest: Timestamp(from.u64()?), ..PartitionState::default() };
    state.sessions.evict(&[], Timestamp(from.u64()?));
    let deadlines = from.u64()?;
    for _ in 0..sessions {
        let id = session_id(from)?;
        let session = read_session(from)?;
        if !state.sessions.restore(id, session) {
            return None;
        }
    }
    for _ in 0..deadlines {
        let deadline = from.u64()?;
        let length = from.u32()? as usize;
        let key = from.bytes(length).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX)?;
        if state.deadlines.get(key).is_some() {
            return None;
        }
        state.deadlines.set(key, Some(deadline));
    }
    Some(state)
}

fn read_names(from: &mut Reader<'_>, state: &mut PartitionState) -> Option<()> {
    let count = from.u64()?;
    let mut last: &[u8] = &[];
    for _ in 0..count {
        let length = u16::from_le_bytes([from.u8()?, from.u8()?]) as usize;
        let name = from.bytes(length).filter(|name| length <= BLOB_NAME_BYTES_MAX && *name > last)?;
        state.names.add(name);
        last = name;
    }
    (count > 0).then_some(())
}

fn read_session(from: &mut Reader<'_>) -> Option<SessionRecord> {
    let (lowest, last_used_ms) = (from.u64()?, from.u64()?);
    // An outcome takes nine bytes at least.
    let count = from.count(9, usize::MAX)?;
    let (mut outcomes, mut before) = (Outcomes::default(), None);
    for _ in 0..count {
        let sequence = from.u64()?;
        if sequence < lowest || before.is_some_and(|before| before >= sequence) {
            return None;
        }
        outcomes.add(sequence, WriteOutcome::decode(from, Timestamp::ZERO)?);
        before = Some(sequence);
    }
    Some(SessionRecord { lowest, last_used_ms, outcomes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry_metadata::SessionNote;
    use zerohop_wire::ids::SessionId;

    fn state(writes: &[(u64, u64)], keys: &[(Vec<u8>, u64)]) -> PartitionState {
        let mut state = PartitionState { applied: 9, newest: Timestamp(8), ..PartitionState::default() };
        state.sessions.evict(&[], Timestamp(7));
        for &(nonce, sequence) in writes {
            let session = SessionId { issued: Timestamp(100), nonce };
            let outcome = WriteOutcome::Done { version: Timestamp(sequence), number: nonce };
            state.sessions.record(SessionNote { session, sequence, lowest: 1, outcome }, 3);
        }
        for (key, deadline) in keys {
            state.deadlines.set(key, Some(*deadline));
        }
        state
    }

    proptest! {
        #[test]
        fn partition_state_roundtrips_and_every_prefix_is_refused(
            writes in prop::collection::vec((0..4u64, 1..50u64), 0..20),
            keys in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..9), 1..99u64), 0..20),
        ) {
            let state = state(&writes, &keys);
            let bytes = state.encode();
            prop_assert_eq!(PartitionState::decode(&bytes), Ok(state));
            for length in 0..bytes.len() {
                prop_assert_eq!(PartitionState::decode(&bytes[..length]), Err(StateError::Damaged));
            }
        }

        #[test]
        fn any_bytes_are_a_state_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PartitionState::decode(&bytes);
            bytes.splice(0..0, VERSION.to_le_bytes());
            if let Ok(state) = PartitionState::decode(&bytes) {
                prop_assert_eq!(PartitionState::decode(&state.encode()), Ok(state));
            }
        }

        #[test]
        fn a_state_with_flipped_bits_never_panics(at in 0..10_000usize, mask in 1..=255u8) {
            let mut bytes = state(&[(1, 1), (1, 2), (2, 1)], &[(b"key".to_vec(), 5)]).encode();
            let at = at % bytes.len();
            bytes[at] ^= mask;
            let _ = PartitionState::decode(&bytes);
        }
    }

    #[test]
    fn a_later_version_is_refused_by_name() {
        let mut bytes = PartitionState::default().encode();
        bytes[0] = 5;
        assert_eq!(PartitionState::decode(&bytes), Err(StateError::Version { found: 5 }));
    }

    #[test]
    fn names_of_blobs_are_in_version_4_in_order_and_once() {
        let mut state = PartitionState { cleaned_splits: 1, ..PartitionState::default() };
        for name in [&b"b"[..], b"a/film", b"c"] {
            state.names.add(name);
        }
        let bytes = state.encode();
        assert_eq!(bytes[0], 4);
        assert_eq!(PartitionState::decode(&bytes), Ok(state));
        let mut twice = bytes.clone();
        let last = twice.len() - 1;
        twice[last] = b'b';
        assert_eq!(PartitionState::decode(&twice), Err(StateError::Damaged), "a name comes twice");
        assert_eq!(PartitionState::decode(&bytes[..last]), Err(StateError::Damaged));
    }

    #[test]
    fn split_cleanup_state_is_in_version_2_only() {
        let state = PartitionState { cleaned_splits: 2, ..PartitionState::default() };
        let bytes = state.encode();
        assert_eq!((bytes[0], PartitionState::decode(&bytes)), (2, Ok(state)));
        let mut zero = bytes.clone();
        *zero.last_mut().expect("has bytes") = 0;
        assert_eq!(PartitionState::decode(&zero), Err(StateError::Damaged), "one value, one form");
        assert_eq!(PartitionState::decode(&bytes[..bytes.len() - 1]), Err(StateError::Damaged));
        assert_eq!(PartitionState::default().encode()[0], 1);
    }

    #[test]
    fn transactions_and_their_outcomes_are_in_version_3_and_read_back() {
        use bytes::Bytes;
        use zerohop_transaction::{StageId, TransactionEntry, TransactionId, TransactionOutcome};
        use zerohop_wire::ids::{LogIndex, Sequence};

        let session = SessionId { issued: Timestamp(100), nonce: 1 };
        let id = TransactionId { session, sequence: Sequence(3), ..TransactionId::default() };
        let piece = StageId { session, sequence: Sequence(2) };
        let mut transacted = ReplicatedTransactions::default();
        transacted.apply(3, &TransactionEntry::Stage { id: piece, bytes: Bytes::from_static(b"piece") });
        let prepare = TransactionEntry::Prepare {
            id,
            attempt: Default::default(),
            routing_key: Default::default(),
            durability: Default::default(),
            proposal: Timestamp(8),
            locks: vec![(7, zerohop_transaction::Access::Write)],
            pinned: vec![piece],
            effect: Bytes::from_static(b"effect"),
            result: Bytes::from_static(b"result"),
        };
        transacted.apply(9, &prepare);
        // The decoder sets it to the last applied entry.
        let mut state = PartitionState { applied: 9, ..PartitionState::default() };
        let outcome = WriteOutcome::Transaction(Box::new(TransactionOutcome::Committed {
            timestamp: Timestamp(5),
            results: Vec::new(),
        }));
        let note = SessionNote { session, sequence: 1, lowest: 1, outcome };
        state.sessions.record(note, 3);
        let with_outcome = state.encode();
        assert_eq!((with_outcome[0], PartitionState::decode(&with_outcome)), (3, Ok(state.clone())));
        state.transacted = Some(Box::new(transacted));
        let bytes = state.encode();
        let read = PartitionState::decode(&bytes).expect("reads back");
        assert_eq!((bytes[0], &read), (3, &state));
        let transacted = read.transacted.expect("is there");
        assert_eq!(transacted.state.effect_of(&id, LogIndex(9)).as_deref(), Some(&b"effect"[..]));
        assert_eq!(transacted.staged(&piece).as_deref(), Some(&b"piece"[..]));
        for length in 0..bytes.len() {
            assert_eq!(PartitionState::decode(&bytes[..length]), Err(StateError::Damaged));
        }
    }

    #[test]
    fn version_1_bytes_decode() {
        let hex = "01000000010000000900000000000000080000000000000007000000000000000100000000000000\
                   64000000000000000200000000000000010000000000000003000000000000000100000003000000000000000\
                   3030000000000000002000000000000000500000000000000030000006b6579";
        let hex: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = hex
            .chunks(2)
            .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("is hex"))
            .collect();
        assert_eq!(PartitionState::decode(&bytes), Ok(state(&[(2, 3)], &[(b"key".to_vec(), 5)])));
    }
}
