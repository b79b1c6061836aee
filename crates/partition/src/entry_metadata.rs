//! Entry metadata: the data that a partition writes into a log entry beside the change of the record. It is the deadline of the
//! record, and the session and outcome of the request. Both are in the same entry, so that change and outcome survive together or
//! not at all.
//!
//! A note is the trailer of an entry that changes a record ([`zerohop_engine::FLAG_TRAILER`]). If the entry changes nothing in
//! the engine, the note is the payload of a mark:
//!
//! | mark | contents |
//! | --- | --- |
//! | 1 note | 1 (1), the note; its deadline is that of the entry's key, and 0 takes a deadline away |
//! | 2 eviction | 2 (1), session mark (8), then the sessions that are forgotten: issued (8), nonce (8) each |
//! | 16 epoch | 16 (1): a new primary begins here; everything before is committed with it; then the ids (16 each) of the snapshots that it keeps: others are kept no more |
//! | 18 cleaned up | 18 (1), splits (1): no record of another partition is here, as of so many splits of the keyspace |
//! | 19 transaction | 19 (1), lowest unanswered sequence of the session whose outcome it is, else 0 (8), an entry of `zerohop_transaction` |
//! | 20 snapshot | 20 (1), then 1 (1), id (16), lease in ms (4), when it goes in any case in ms since 1970 (8): kept from the entry's timestamp on; or 2 (1), the ids (16 each) of those that are kept no more |
//! | 17 filler | 17 (1): stands where the sender of a snapshot install had no entry any more; the state is not in the log |
//!
//! | bytes of a note | field |
//! | ---: | --- |
//! | 1 | flags: 1 a deadline, 2 a session |
//! | 8 | deadline in ms since 1970 |
//! | 16 | session: issued (8), nonce (8) |
//! | 8 | sequence |
//! | 2 | sequence less the lowest unanswered one |
//! | | outcome, see [`crate::outcome`] |

use zerohop_engine::{EntryKind, EntryMeta};
use zerohop_transaction::{TransactionEntry, TransactionOutcome};
use zerohop_wire::ids::{SessionId, SnapshotId, Timestamp};
use zerohop_wire::messages::LogEntry;

use crate::outcome::WriteOutcome;
use crate::session_fields::session_id;
use zerohop_base::bytes::Reader;

const HAS_DEADLINE: u8 = 1;
const HAS_SESSION: u8 = 2;
const MARK_NOTE: u8 = 1;
const MARK_EVICTION: u8 = 2;
pub(crate) const MARK_EPOCH: u8 = 16;
const MARK_FILLER: u8 = 17;
const MARK_SPLIT_CLEANED: u8 = 18;
pub(crate) const MARK_TRANSACTION: u8 = 19;
/// The bytes before the entry in a transaction mark: the kind of mark, and the lowest unanswered sequence.
pub(crate) const MARK_HEAD_BYTES: usize = 9;
pub(crate) const MARK_SNAPSHOT: u8 = 20;
const SNAPSHOT_OPEN: u8 = 1;
const SNAPSHOT_END: u8 = 2;

/// The session of a write, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionOutcome {
    pub(crate) session: SessionId,
    pub(crate) sequence: u64,
    pub(crate) lowest: u64,
    pub(crate) outcome: WriteOutcome,
}

/// The metadata of one entry; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    /// In milliseconds since 1970; 0, in a mark only, clears the deadline.
    pub(crate) deadline: Option<u64>,
    pub(crate) session: Option<SessionOutcome>,
}

/// How a note has its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomeForm {
    /// Without contents that the entry before the trailer has.
    InTrailer,
    /// With everything.
    Complete,
}

/// The contents of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Note(EntryMetadata),
    Eviction { mark: Timestamp, sessions: Vec<SessionId> },
    Epoch { snapshots: Vec<SnapshotId> },
    Filler,
    SplitCleanedUp { splits: u8 },
    Transaction { lowest: u64, entry: TransactionEntry },
    Snapshot(SnapshotMark),
}

/// The transaction entry in a log entry, for observers of the messages between replicas.
#[must_use]
pub fn transaction_entry(logged: &LogEntry<'_>) -> Option<TransactionEntry> {
    if logged.kind != EntryKind::Mark as u8 || logged.payload.first() != Some(&MARK_TRANSACTION) {
        return None;
    }
    match Mark::decode(logged.payload, logged.timestamp)? {
        Mark::Transaction { entry, .. } => Some(entry),
        _ => None,
    }
}

/// Whether a log entry is the marker with which a primary begins an epoch.
pub(crate) fn is_epoch_marker(meta: &EntryMeta, payload: &[u8]) -> bool {
    meta.kind == EntryKind::Mark && payload.first() == Some(&MARK_EPOCH)
}

/// The payload of a filler: a mark in the place of an entry that is lost.
pub const FILLER: &[u8] = &[MARK_FILLER];

/// Whether the payload of a mark is a filler's.
#[must_use]
pub fn is_filler(payload: &[u8]) -> bool {
    payload == FILLER
}

/// The contents of a snapshot mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotMark {
    /// Versions from the entry's timestamp on are kept.
    Open { id: SnapshotId, lease_ms: u32, ends_ms: u64 },
    /// These snapshots are closed.
    End { ids: Vec<SnapshotId> },
}

impl SnapshotMark {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SnapshotMark::Open { id, lease_ms, ends_ms } => {
                out.push(SNAPSHOT_OPEN);
                out.extend_from_slice(&id.0.to_le_bytes());
                out.extend_from_slice(&lease_ms.to_le_bytes());
                out.extend_from_slice(&ends_ms.to_le_bytes());
            }
            SnapshotMark::End { ids } => {
                out.push(SNAPSHOT_END);
                push_ids(ids, out);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<SnapshotMark> {
        let (&kind, rest) = bytes.split_first()?;
        match kind {
            SNAPSHOT_OPEN => {
                let (id, rest) = rest.split_first_chunk::<16>()?;
                let (lease_ms, rest) = rest.split_first_chunk::<4>()?;
                let ends_ms: &[u8; 8] = rest.try_into().ok()?;
                let (id, lease_ms) = (SnapshotId(u128::from_le_bytes(*id)), u32::from_le_bytes(*lease_ms));
                Some(SnapshotMark::Open { id, lease_ms, ends_ms: u64::from_le_bytes(*ends_ms) })
            }
            SNAPSHOT_END => {
                let ids = ids_of(rest).filter(|ids| !ids.is_empty())?;
                Some(SnapshotMark::End { ids })
            }
            _ => None,
        }
    }
}

fn push_ids(ids: &[SnapshotId], out: &mut Vec<u8>) {
    ids.iter().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
}

fn ids_of(bytes: &[u8]) -> Option<Vec<SnapshotId>> {
    let (ids, rest) = bytes.as_chunks::<16>();
    rest.is_empty().then(|| ids.iter().map(|id| SnapshotId(u128::from_le_bytes(*id))).collect())
}

impl SessionOutcome {
    /// The outcome that an entry has for the client of its transaction. The client has reported this lowest unanswered sequence.
    pub(crate) fn of_transaction(entry: &TransactionEntry, lowest: u64) -> Option<SessionOutcome> {
        let (id, outcome) = match entry {
            TransactionEntry::Commit { id, timestamp, results, .. } => {
                (id, TransactionOutcome::Committed { timestamp: *timestamp, results: results.clone() })
            }
            TransactionEntry::Abort { id, by, refusal } => {
                (id, TransactionOutcome::Aborted { by: *by, refusal: *refusal })
            }
            TransactionEntry::Stage { id, .. } | TransactionEntry::StagePiece { id, .. } => {
                let (session, sequence) = (id.session, id.sequence.0);
                let outcome = WriteOutcome::Done { version: Timestamp::ZERO, number: 0 };
                return Some(SessionOutcome { session, sequence, lowest: lowest.min(sequence), outcome });
            }
            _ => return None,
        };
        let (sequence, outcome) = (id.sequence.0, WriteOutcome::Transaction(Box::new(outcome)));
        Some(SessionOutcome { session: id.session, sequence, lowest: lowest.min(sequence), outcome })
    }
}

impl EntryMetadata {
    pub(crate) fn is_empty(&self) -> bool {
        self.deadline.is_none() && self.session.is_none()
    }

    /// Appends the note to a payload as its trailer. `at` is the entry's timestamp.
    pub(crate) fn push_trailer(&self, at: Timestamp, payload: &mut Vec<u8>) {
        let begin = payload.len();
        self.encode(at, OutcomeForm::InTrailer, payload);
        let bytes = payload.len() - begin + 1;
        assert!(bytes <= crate::limits::TRAILER_BYTES_MAX, "only what succeeded stands in a trailer");
        payload.push(bytes as u8);
    }

    /// Appends the note to a payload as a mark of its own.
    pub(crate) fn push_mark(&self, at: Timestamp, payload: &mut Vec<u8>) {
        payload.push(MARK_NOTE);
        self.encode(at, OutcomeForm::Complete, payload);
    }

    /// Reads the note of an entry that changes a record. An entry without a trailer has an empty note.
    pub(crate) fn of_trailer(meta: &EntryMeta, trailer: &[u8]) -> Option<EntryMetadata> {
        if trailer.is_empty() {
            return Some(EntryMetadata::default());
        }
        EntryMetadata::decode(trailer, Timestamp(meta.timestamp))
    }

    fn encode(&self, at: Timestamp, form: OutcomeForm, out: &mut Vec<u8>) {
        let has = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(has(self.deadline.is_some(), HAS_DEADLINE) | has(self.session.is_some(), HAS_SESSION));
        if let Some(deadline) = self.deadline {
            out.extend_from_slice(&deadline.to_le_bytes());
        }
        if let Some(SessionOutcome { session, sequence, lowest, outcome }) = &self.session {
            out.extend_from_slice(&session.issued.0.to_le_bytes());
            out.extend_from_slice(&session.nonce.to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
            // The wire bounds the window, and `limits` checks that it fits.
            let distance = u16::try_from(sequence - lowest).unwrap_or(u16::MAX);
            out.extend_from_slice(&distance.to_le_bytes());
            match form {
                OutcomeForm::InTrailer => outcome.encode_trailer(at, out),
                OutcomeForm::Complete => outcome.encode(at, out),
            }
        }
    }

    fn decode(bytes: &[u8], at: Timestamp) -> Option<EntryMetadata> {
        let mut from = Reader::new(bytes);
        let flags = from.u8()?;
        let mut note = EntryMetadata::default();
        if flags & HAS_DEADLINE != 0 {
            note.deadline = Some(from.u64()?);
        }
        if flags & HAS_SESSION != 0 {
            let session = session_id(&mut from)?;
            let sequence = from.u64()?;
            let lowest = sequence.checked_sub(u64::from(from.u16()?))?;
            let outcome = WriteOutcome::decode(&mut from, at)?;
            note.session = Some(SessionOutcome { session, sequence, lowest, outcome });
        }
        (from.is_at_end() && flags & !(HAS_DEADLINE | HAS_SESSION) == 0).then_some(note)
    }
}

impl Mark {
    /// Appends the payload of the mark to `out`.
    pub(crate) fn encode(&self, at: Timestamp, out: &mut Vec<u8>) {
        match self {
            Mark::Note(note) => note.push_mark(at, out),
            Mark::Epoch { snapshots } => {
                out.push(MARK_EPOCH);
                push_ids(snapshots, out);
            }
            Mark::Filler => out.push(MARK_FILLER),
            Mark::Snapshot(mark) => {
                out.push(MARK_SNAPSHOT);
                mark.encode(out);
            }
            Mark::SplitCleanedUp { splits } => out.extend_from_slice(&[MARK_SPLIT_CLEANED, *splits]),
            Mark::Transaction { lowest, entry } => {
                out.push(MARK_TRANSACTION);
                out.extend_from_slice(&lowest.to_le_bytes());
                entry.encode_into(out);
            }
            Mark::Eviction { mark, sessions } => {
                out.push(MARK_EVICTION);
                out.extend_from_slice(&mark.0.to_le_bytes());
                for session in sessions {
                    out.extend_from_slice(&session.issued.0.to_le_bytes());
                    out.extend_from_slice(&session.nonce.to_le_bytes());
                }
            }
        }
    }

    /// Reads the payload of a mark; `None` if it is not one.
    pub(crate) fn decode(payload: &[u8], at: Timestamp) -> Option<Mark> {
        let (&kind, rest) = payload.split_first()?;
        match kind {
            MARK_NOTE => EntryMetadata::decode(rest, at).map(Mark::Note),
            MARK_SNAPSHOT => SnapshotMark::decode(rest).map(Mark::Snapshot),
            MARK_EPOCH => ids_of(rest).map(|snapshots| Mark::Epoch { snapshots }),
            MARK_FILLER => rest.is_empty().then_some(Mark::Filler),
            MARK_SPLIT_CLEANED => match rest {
                [splits] => Some(Mark::SplitCleanedUp { splits: *splits }),
                _ => None,
            },
            MARK_TRANSACTION => {
                let (lowest, entry) = rest.split_first_chunk::<8>()?;
                Some(Mark::Transaction {
                    lowest: u64::from_le_bytes(*lowest),
                    entry: TransactionEntry::decode(entry).ok()?,
                })
            }
            MARK_EVICTION => {
                let mut from = Reader::new(rest);
                let mark = Timestamp(from.u64()?);
                let mut sessions = Vec::new();
                while !from.is_at_end() {
                    sessions.push(session_id(&mut from)?);
                }
                Some(Mark::Eviction { mark, sessions })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> EntryMetadata {
        let session = SessionId { issued: Timestamp(5), nonce: 6 };
        let outcome = WriteOutcome::Counter { version: Timestamp(3), value: -1 };
        let session = SessionOutcome { session, sequence: 20_480, lowest: 1, outcome };
        EntryMetadata { deadline: Some(7), session: Some(session) }
    }

    #[test]
    fn entry_metadata_roundtrips_and_longest_fits_its_bound() {
        let meta =
            EntryMeta { kind: zerohop_engine::EntryKind::Put, flags: 2, epoch: 1, index: 1, timestamp: 9 };
        for note in
            [note(), EntryMetadata { deadline: None, ..note() }, EntryMetadata { session: None, ..note() }]
        {
            let mut payload = b"value".to_vec();
            note.push_trailer(Timestamp(9), &mut payload);
            let (body, trailer) = zerohop_engine::split_trailer(2, &payload);
            assert_eq!(body, b"value");
            assert_eq!(EntryMetadata::of_trailer(&meta, trailer), Some(note));
        }
        assert_eq!(EntryMetadata::of_trailer(&meta, b""), Some(EntryMetadata::default()));
        assert_eq!(EntryMetadata::of_trailer(&meta, b"\x04"), None, "a flag of a later version");
    }

    #[test]
    fn marks_round_trip() {
        let sessions = vec![SessionId { issued: Timestamp(1), nonce: 2 }, SessionId::NONE];
        let eviction = Mark::Eviction { mark: Timestamp(8), sessions };
        let entry = TransactionEntry::Finish { id: Default::default() };
        let transaction = Mark::Transaction { lowest: 4, entry };
        let cleaned_splits = Mark::SplitCleanedUp { splits: 3 };
        let id = SnapshotId(u128::MAX - 7);
        let opened = Mark::Snapshot(SnapshotMark::Open { id, lease_ms: 5, ends_ms: 6 });
        let ended = Mark::Snapshot(SnapshotMark::End { ids: vec![id] });
        let epochs = [vec![], vec![id, SnapshotId(1)]].map(|snapshots| Mark::Epoch { snapshots });
        let [epoch, of_some] = epochs;
        let note = Mark::Note(note());
        let marks =
            [note, eviction, epoch, of_some, Mark::Filler, cleaned_splits, transaction, opened, ended];
        for mark in marks {
            let mut payload = Vec::new();
            mark.encode(Timestamp(9), &mut payload);
            assert_eq!(Mark::decode(&payload, Timestamp(9)), Some(mark));
            payload.pop();
            assert_eq!(Mark::decode(&payload, Timestamp(9)), None);
        }
        assert_eq!(Mark::decode(b"", Timestamp(9)), None);
        assert_eq!(Mark::decode(b"\x09", Timestamp(9)), None);
    }
}
