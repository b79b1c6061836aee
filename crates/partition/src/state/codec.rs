//! The encoding of the state, as a checkpoint of the engine carries it. `docs/formats/partition-state.md` has the layout.

use std::fmt;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BLOB_NAME_BYTES_MAX, CHUNKS_LISTED_FROM, KEY_BYTES_MAX};

use super::{ChunkTable, Outcomes, PartitionState, ReplicatedTransactions, SessionRecord};
use crate::outcome::WriteOutcome;
use crate::session_fields::session_id;
use zerohop_base::bytes::Reader;

/// Earlier programs wrote the lowest of the versions 1 to 4 that could represent the state.
const VERSION: u32 = 1;
/// For a keyspace that was split, once the records of siblings are removed.
const VERSION_SPLIT_CLEANED: u32 = 2;
/// With transactions over several partitions, or outcomes of them.
const VERSION_TRANSACTED: u32 = 3;
/// With the names of blobs.
const VERSION_NAMES: u32 = 4;
/// With all of these, and the table of chunks. In a state of an earlier version the table is incomplete.
const VERSION_CHUNKS: u32 = 5;

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
                "partition state of version {found} is not known here (known: up to {VERSION_CHUNKS}); use a newer zerohop"
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
        let tables = self.deadlines.bytes() + self.names.bytes() + self.chunks.bytes();
        let mut out = Vec::with_capacity(64 + self.sessions.bytes() + tables);
        out.extend_from_slice(&VERSION_CHUNKS.to_le_bytes());
        out.extend_from_slice(&(self.sessions.len() as u32).to_le_bytes());
        for field in
            [self.applied, self.newest.0, self.sessions.session_mark().0, self.deadlines.len() as u64]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for (id, session) in self.sessions.iter() {
            for field in [id.issued.0, id.nonce, session.lowest, session.last_used_ms] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            out.extend_from_slice(&(session.outcomes.len() as u32).to_le_bytes());
            for (sequence, outcome) in session.outcomes.iter() {
                out.extend_from_slice(&sequence.to_le_bytes());
                outcome.encode(Timestamp::ZERO, &mut out);
            }
        }
        for (key, deadline) in self.deadlines.iter() {
            out.extend_from_slice(&deadline.to_le_bytes());
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
        }
        out.push(self.cleaned_splits);
        match &self.transacted {
            Some(transacted) => transacted.encode(&mut out),
            None => out.extend_from_slice(&0u32.to_le_bytes()),
        }
        out.extend_from_slice(&(self.names.len() as u64).to_le_bytes());
        for name in self.names.iter() {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name);
        }
        self.encode_chunks(&mut out);
        out
    }

    fn encode_chunks(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.chunks.is_complete()));
        let blobs = self.chunks.iter();
        out.extend_from_slice(&(blobs.len() as u64).to_le_bytes());
        for (name, blocks) in blobs {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name);
            out.extend_from_slice(&(blocks.len() as u32).to_le_bytes());
            for (high, block) in blocks {
                out.extend_from_slice(&high.to_le_bytes());
                out.extend_from_slice(&(block.len() as u32).to_le_bytes());
                block.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
        }
    }

    /// Decodes a state. Never panics, and allocates no more than a small multiple of its input.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn decode(bytes: &[u8]) -> Result<PartitionState, StateError> {
        let mut from = Reader::new(bytes);
        let version = match from.u32() {
            Some(version @ VERSION..=VERSION_CHUNKS) => version,
            Some(found) => return Err(StateError::Version { found }),
            None => return Err(StateError::Damaged),
        };
        let mut state = read(&mut from).ok_or(StateError::Damaged)?;
        if version >= VERSION_SPLIT_CLEANED {
            let cleaned_splits =
                from.u8().filter(|cleaned_splits| *cleaned_splits > 0 || version >= VERSION_TRANSACTED);
            state.cleaned_splits = cleaned_splits.ok_or(StateError::Damaged)?;
        }
        if version >= VERSION_TRANSACTED {
            let transacted =
                ReplicatedTransactions::decode(&mut from, state.applied).ok_or(StateError::Damaged)?;
            state.transacted = Some(transacted).filter(|one| !one.is_empty()).map(Box::new);
        }
        if version >= VERSION_NAMES {
            let count = read_names(&mut from, &mut state).ok_or(StateError::Damaged)?;
            if count == 0 && version == VERSION_NAMES {
                return Err(StateError::Damaged);
            }
        }
        state.chunks = match version {
            VERSION_CHUNKS => read_chunks(&mut from).ok_or(StateError::Damaged)?,
            _ => ChunkTable::incomplete(),
        };
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

fn read_names(from: &mut Reader<'_>, state: &mut PartitionState) -> Option<u64> {
    let count = from.u64()?;
    let mut last: &[u8] = &[];
    for _ in 0..count {
        let length = u16::from_le_bytes([from.u8()?, from.u8()?]) as usize;
        let name = from.bytes(length).filter(|name| length <= BLOB_NAME_BYTES_MAX && *name > last)?;
        state.names.add(name);
        last = name;
    }
    Some(count)
}

fn read_chunks(from: &mut Reader<'_>) -> Option<ChunkTable> {
    let mut table = match from.u8()? {
        0 => ChunkTable::incomplete(),
        1 => ChunkTable::default(),
        _ => return None,
    };
    let u16_of = |from: &mut Reader<'_>| Some(u16::from_le_bytes([from.u8()?, from.u8()?]));
    let blobs = from.u64()?;
    let mut last_name: &[u8] = &[];
    for _ in 0..blobs {
        let length = u16_of(from)? as usize;
        let name = from.bytes(length).filter(|name| length <= BLOB_NAME_BYTES_MAX && *name > last_name)?;
        last_name = name;
        let mut last = None;
        let blocks = from.u32().filter(|blocks| *blocks > 0)?;
        for _ in 0..blocks {
            let high = from.u64().filter(|high| high >> 48 == 0)?;
            let count = from.u32().filter(|count| *count > 0)?;
            for _ in 0..count {
                let number = high << 16 | u64::from(u16_of(from)?);
                if number < CHUNKS_LISTED_FROM || last.is_some_and(|last| last >= number) {
                    return None;
                }
                last = Some(number);
                table.add(name, number);
            }
        }
    }
    (table.is_complete() || blobs == 0).then_some(table)
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
    use crate::entry_metadata::SessionOutcome;
    use zerohop_wire::ids::SessionId;

    /// The state as an earlier program wrote it, in the version that its contents need. It has no table of chunks.
    fn earlier(state: &PartitionState) -> Vec<u8> {
        let mut bytes = state.encode();
        let table = PartitionState { chunks: ChunkTable::default(), ..PartitionState::default() };
        let empty_table = 1 + size_of::<u64>();
        assert!(bytes.ends_with(&table.encode()[table.encode().len() - empty_table..]));
        bytes.truncate(bytes.len() - empty_table);
        let has_outcomes = state.sessions.iter().any(|(_, session)| {
            session.outcomes.iter().any(|(_, outcome)| matches!(outcome, WriteOutcome::Transaction(_)))
        });
        let (version, left_out) = match (&state.transacted, state.cleaned_splits) {
            _ if state.names.len() > 0 => (VERSION_NAMES, 0),
            (None, 0) if !has_outcomes => (VERSION, 13),
            (None, _) if !has_outcomes => (VERSION_SPLIT_CLEANED, 12),
            _ => (VERSION_TRANSACTED, 8),
        };
        bytes.truncate(bytes.len() - left_out);
        bytes[..4].copy_from_slice(&version.to_le_bytes());
        bytes
    }

    /// The state that is read from the bytes of an earlier program.
    fn without_table(state: PartitionState) -> Result<PartitionState, StateError> {
        Ok(PartitionState { chunks: ChunkTable::incomplete(), ..state })
    }

    fn state(writes: &[(u64, u64)], keys: &[(Vec<u8>, u64)]) -> PartitionState {
        let mut state = PartitionState { applied: 9, newest: Timestamp(8), ..PartitionState::default() };
        state.sessions.evict(&[], Timestamp(7));
        for &(nonce, sequence) in writes {
            let session = SessionId { issued: Timestamp(100), nonce };
            let outcome = WriteOutcome::Done { version: Timestamp(sequence), number: nonce };
            state.sessions.record(SessionOutcome { session, sequence, lowest: 1, outcome }, 3);
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
            chunks in prop::collection::vec((0..3u8, 4096..200_000u64), 0..20),
            is_complete: bool,
        ) {
            let mut state = state(&writes, &keys);
            chunks.iter().for_each(|(name, number)| state.chunks.add(&[*name], *number));
            if !is_complete {
                state.chunks = ChunkTable::incomplete();
            }
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
        bytes[0] = 6;
        assert_eq!(PartitionState::decode(&bytes), Err(StateError::Version { found: 6 }));
    }

    #[test]
    fn names_of_blobs_are_in_version_4_in_order_and_once() {
        let mut state = PartitionState { cleaned_splits: 1, ..PartitionState::default() };
        for name in [&b"b"[..], b"a/film", b"c"] {
            state.names.add(name);
        }
        let bytes = earlier(&state);
        assert_eq!(bytes[0], 4);
        assert_eq!(PartitionState::decode(&bytes), without_table(state));
        let mut twice = bytes.clone();
        let last = twice.len() - 1;
        twice[last] = b'b';
        assert_eq!(PartitionState::decode(&twice), Err(StateError::Damaged), "a name comes twice");
        assert_eq!(PartitionState::decode(&bytes[..last]), Err(StateError::Damaged));
    }

    #[test]
    fn split_cleanup_state_is_in_version_2_only() {
        let state = PartitionState { cleaned_splits: 2, ..PartitionState::default() };
        let bytes = earlier(&state);
        assert_eq!((bytes[0], PartitionState::decode(&bytes)), (2, without_table(state)));
        let mut zero = bytes.clone();
        *zero.last_mut().expect("has bytes") = 0;
        assert_eq!(PartitionState::decode(&zero), Err(StateError::Damaged), "one value, one form");
        assert_eq!(PartitionState::decode(&bytes[..bytes.len() - 1]), Err(StateError::Damaged));
        assert_eq!(earlier(&PartitionState::default())[0], 1);
    }

    #[test]
    fn chunk_that_no_table_lists_is_refused_in_a_state() {
        let mut state = PartitionState::default();
        state.chunks.add(b"a", CHUNKS_LISTED_FROM);
        state.chunks.add(b"a", CHUNKS_LISTED_FROM + 1);
        let bytes = state.encode();
        assert_eq!((bytes[0], PartitionState::decode(&bytes)), (5, Ok(state)));
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            let at = bytes.len() - at;
            bytes[at] = byte;
            PartitionState::decode(&bytes)
        };
        assert_eq!(changed(2, 0), Err(StateError::Damaged), "a chunk comes twice");
        assert_eq!(changed(3, 0x0F), Err(StateError::Damaged), "a number below those in tables");
        assert_eq!(PartitionState::decode(&bytes[..bytes.len() - 2]), Err(StateError::Damaged));
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
        let note = SessionOutcome { session, sequence: 1, lowest: 1, outcome };
        state.sessions.record(note, 3);
        let with_outcome = earlier(&state);
        assert_eq!(
            (with_outcome[0], PartitionState::decode(&with_outcome)),
            (3, without_table(state.clone()))
        );
        state.transacted = Some(Box::new(transacted));
        let bytes = earlier(&state);
        let read = PartitionState::decode(&bytes).expect("reads back");
        assert_eq!((bytes[0], Ok(read.clone())), (3, without_table(state)));
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
        let state = state(&[(2, 3)], &[(b"key".to_vec(), 5)]);
        assert_eq!(earlier(&state), bytes);
        assert_eq!(PartitionState::decode(&bytes), without_table(state));
    }
}
