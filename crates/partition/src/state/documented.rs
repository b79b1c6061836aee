//! `docs/formats/partition-state.md` states the bytes of a partition's state, and of notes in log entries.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use bytes::Bytes;
use tables::{Document, check, field, open};
use zerohop_transaction::{
    Reason, Refusal, RoutingKey, StageId, TransactionEntry, TransactionId, TransactionOutcome,
};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{KeyspaceId, Sequence, SessionId, SnapshotId, Timestamp};
use zerohop_wire::limits::TAKE_BYTES_MAX;
use zerohop_wire::messages::RecordType;

use super::{Outcomes, PartitionState, ReplicatedTransactions, SessionRecord};
use crate::entry_metadata::{EntryMetadata, Mark, SessionOutcome, SnapshotMark};
use crate::limits::SEEN_VALUE_BYTES_MAX;
use crate::outcome::WriteOutcome;
use zerohop_base::bytes::Reader;

const DOCUMENT: &str = include_str!("../../../../docs/formats/partition-state.md");
const TITLE: &str = "The state of a partition, versions 1 to 5";
const SESSION: SessionId =
    SessionId { issued: Timestamp(0x0102_0304_0506_0708), nonce: 0x1112_1314_1516_1718 };
const NUMBERS: [u64; 6] = [
    0x2122_2324_2526_2728,
    0x3132_3334_3536_3738,
    0x4142_4344_4546_4748,
    0x5152_5354_5556_5758,
    0x6162_6364_6566_6768,
    0x7172_7374_7576_7778,
];

#[test]
fn states_are_as_documented() {
    check(DOCUMENT, |document| {
        state(document);
        outcomes(document);
        note(document);
        marks(document);
    });
    let known: Vec<u8> = (0..=u8::MAX).filter(|tag| knows_outcome(*tag)).collect();
    let tags: Vec<u8> = all_outcomes().iter().map(|(tag, ..)| *tag).collect();
    assert_eq!(known, tags, "each outcome that is read is documented");
}

fn session_bytes() -> Vec<u8> {
    [SESSION.issued.0, SESSION.nonce].map(u64::to_le_bytes).concat()
}

fn outcome_bytes(outcome: &WriteOutcome) -> Vec<u8> {
    let mut bytes = Vec::new();
    outcome.encode(Timestamp::ZERO, &mut bytes);
    bytes
}

fn trailer_bytes(outcome: &WriteOutcome) -> Vec<u8> {
    let mut bytes = Vec::new();
    outcome.encode_trailer(Timestamp::ZERO, &mut bytes);
    bytes
}

fn number(words: &str, number: u64) -> tables::Field {
    field(words, number.to_le_bytes())
}

fn state(document: &mut Document<'_>) {
    let [applied, newest, lowest, last_used_ms, deadline, sequence] = NUMBERS;
    let mark = SESSION.issued.0 - 1;
    let outcome = WriteOutcome::Done { version: Timestamp(applied), number: newest };
    let mut outcomes = Outcomes::default();
    assert!(outcomes.add(sequence, outcome.clone()));
    let mut state =
        PartitionState { applied, newest: Timestamp(newest), cleaned_splits: 5, ..PartitionState::default() };
    state.sessions.evict(&[], Timestamp(mark));
    assert!(state.sessions.restore(SESSION, SessionRecord { lowest, last_used_ms, outcomes }));
    state.deadlines.set(b"key", Some(deadline));
    state.names.add(b"a name");
    state.chunks.add(b"long", 0x0405_0607_0809);
    let piece = TransactionEntry::Stage {
        id: StageId { session: SESSION, sequence: Sequence(7) },
        bytes: Bytes::from_static(b"staged"),
    };
    let mut transacted = ReplicatedTransactions::default();
    transacted.apply(3, &piece);
    state.transacted = Some(Box::new(transacted));

    let outcomes = [&sequence.to_le_bytes()[..], &outcome_bytes(&outcome)].concat();
    let session = [
        &session_bytes()[..],
        &lowest.to_le_bytes(),
        &last_used_ms.to_le_bytes(),
        &1u32.to_le_bytes(),
        &outcomes,
    ]
    .concat();
    let fields = [
        field("session: issued (8), nonce (8)", session_bytes()),
        number("lowest sequence without an answer", lowest),
        number("last used, ms since 1970", last_used_ms),
        field("number of outcomes", 1u32.to_le_bytes()),
        field("outcomes, by ascending sequence, none below the lowest: sequence (8), outcome", outcomes),
    ];
    document.layout(&format!("{TITLE} / size"), &[], &session, &fields);
    let expiry = [&deadline.to_le_bytes()[..], &3u32.to_le_bytes(), b"key"].concat();
    let fields =
        [number("ms since 1970", deadline), field("key length", 3u32.to_le_bytes()), open("key", b"key")];
    document.sentence("A deadline:", &expiry, &fields);
    let entry = piece.encode();
    let entry_bytes = (entry.len() as u32).to_le_bytes();
    let transactions = [&1u32.to_le_bytes()[..], &[0; 8], &entry_bytes, &entry].concat();
    let fields = [
        field("number", 1u32.to_le_bytes()),
        field("log index", [0; 8]),
        field("length", entry_bytes),
        open("an entry as in", &entry),
    ];
    document.sentence("Transactions:", &transactions, &fields);
    let name = [&6u16.to_le_bytes()[..], b"a name"].concat();
    let fields = [field("length", 6u16.to_le_bytes()), open("name", b"a name")];
    document.sentence("A name of a blob, by ascending bytes:", &name, &fields);

    let names = [&1u64.to_le_bytes()[..], &name].concat();
    let block = [&0x0405_0607_u64.to_le_bytes()[..], &1u32.to_le_bytes(), &[9, 8]].concat();
    let chunks = [&4u16.to_le_bytes()[..], b"long", &1u32.to_le_bytes(), &block].concat();
    let fields = [
        field("length", 4u16.to_le_bytes()),
        open("name", b"long"),
        field("number of blocks", 1u32.to_le_bytes()),
        open("blocks", &block),
    ];
    document.sentence("The chunks of a blob", &chunks, &fields);
    let fields = [
        number("number of a chunk divided by 65,536", 0x0405_0607),
        field("number of chunks", 1u32.to_le_bytes()),
        field("remainders", [9, 8]),
    ];
    document.sentence("A block:", &block, &fields);
    let table = [&[1][..], &1u64.to_le_bytes(), &chunks].concat();
    let rest = [&session[..], &expiry, &[5], &transactions, &names, &table].concat();
    let bytes = state.encode();
    let fields = [
        field(
            "version: 5; of earlier programs 4 if there were blobs, else 3 if there were transactions over several partitions or \
             outcomes of them, else 2 if the keyspace was split, else 1",
            5u32.to_le_bytes(),
        ),
        field("number of sessions", 1u32.to_le_bytes()),
        number("log index of the last entry applied", applied),
        number("highest timestamp of the entries applied", newest),
        number("session mark", mark),
        number("number of deadlines", 1),
        open("sessions, then deadlines, then", &rest),
    ];
    document.layout(&format!("{TITLE} / offset"), &[], &bytes, &fields);
    let fields = [
        open("sessions", &session),
        open("deadlines", &expiry),
        field("the records of other partitions are gone", [5]),
        open("transactions", &transactions),
        number("number of names", 1),
        open("names", &name),
        field("whether the table of chunks is complete", [1]),
        number("number of blobs", 1),
        open("the chunks of each", &chunks),
    ];
    document.sentence("sessions, then deadlines, then", &rest, &fields);
}

fn ended(outcome: TransactionOutcome) -> WriteOutcome {
    WriteOutcome::Transaction(Box::new(outcome))
}

/// Every outcome: its tag, words of its row, itself, and what its fields are.
fn all_outcomes() -> Vec<(u8, &'static str, WriteOutcome, Vec<tables::Field>)> {
    let [a, b, ..] = NUMBERS;
    let (none, version) = (|| open("none", []), Timestamp(a));
    let (done, counted) = ("done at the entry's timestamp", "counter at the entry's timestamp");
    let results = vec![Bytes::from_static(b"answers")];
    let by = RoutingKey { keyspace: KeyspaceId(0x0102_0304), point: a };
    let refusal = Refusal { reason: Reason::ReadChanged, item: 0x1112_1314 };
    let seen = Some((*b"seen").into());
    let removed =
        WriteOutcome::RemovedRecord { version, record: RecordType::Bytes, contents: (*b"seen").into() };
    let now = Timestamp::ZERO;
    vec![
        (
            1,
            "done at the entry's timestamp, number 0",
            WriteOutcome::Done { version: now, number: 0 },
            vec![none()],
        ),
        (2, done, WriteOutcome::Done { version: now, number: b }, vec![number("number", b)]),
        (
            3,
            "done",
            WriteOutcome::Done { version, number: b },
            vec![number("version", a), number("number", b)],
        ),
        (4, counted, WriteOutcome::Counter { version: now, value: b as i64 }, vec![number("value", b)]),
        (
            5,
            "counter",
            WriteOutcome::Counter { version, value: b as i64 },
            vec![number("version", a), number("value", b)],
        ),
        (
            6,
            "taken, in the trailer of an entry: the contents are those of the entry",
            removed.clone(),
            vec![number("version", a), field("type", [1])],
        ),
        (
            7,
            "taken",
            removed,
            vec![
                number("version", a),
                field("type", [1]),
                field("length", 4u32.to_le_bytes()),
                open("contents", b"seen"),
            ],
        ),
        (16, "`NotFound`", WriteOutcome::NotFound, vec![none()]),
        (
            17,
            "`WrongType`",
            WriteOutcome::WrongType(RecordType::List),
            vec![field("type", [RecordType::List.number()])],
        ),
        (
            18,
            "`ConditionFailed`",
            WriteOutcome::ConditionFailed { version, found: None },
            vec![number("version", a), field("type", [0])],
        ),
        (
            19,
            "`CompareFailed`, there is no record",
            WriteOutcome::CompareFailed { version: now, seen: None },
            vec![none()],
        ),
        (
            20,
            "`CompareFailed`",
            WriteOutcome::CompareFailed { version, seen },
            vec![number("version", a), field("length", 4u32.to_le_bytes()), open("value seen", b"seen")],
        ),
        (21, "`NotANumber`", WriteOutcome::NotANumber, vec![none()]),
        (22, "`Overflow`", WriteOutcome::Overflow, vec![none()]),
        (
            23,
            "`ValueTooLong`",
            WriteOutcome::ValueTooLong { length: a, limit: 0x0102_0304 },
            vec![number("length", a), field("limit", 0x0102_0304u32.to_le_bytes())],
        ),
        (
            24,
            "`StaleBlob`",
            WriteOutcome::StaleBlob(BlobStamp { id: a, generation: b }),
            vec![number("id", a), number("generation", b)],
        ),
        (25, "`NeedHeader`", WriteOutcome::NeedHeader, vec![none()]),
        (
            26,
            "`TooMany`",
            WriteOutcome::TooMany { count: a, limit: 0x0102_0304 },
            vec![number("count", a), field("limit", 0x0102_0304u32.to_le_bytes())],
        ),
        (
            32,
            "a transaction is committed",
            ended(TransactionOutcome::Committed { timestamp: version, results }),
            vec![
                number("timestamp", a),
                field("parts", 1u32.to_le_bytes()),
                field("of each its answers: length", 7u32.to_le_bytes()),
                open("bytes", b"answers"),
            ],
        ),
        (
            33,
            "a transaction is aborted",
            ended(TransactionOutcome::Aborted { by, refusal }),
            vec![
                field("aborting partition: keyspace", 0x0102_0304u32.to_le_bytes()),
                number("hash", a),
                field("reason", [Reason::ReadChanged.number()]),
                field("item", 0x1112_1314u32.to_le_bytes()),
            ],
        ),
    ]
}

/// Whether there is an outcome of this tag, whatever follows.
fn knows_outcome(tag: u8) -> bool {
    let read = |byte: u8| {
        let mut bytes = [byte; 64];
        bytes[0] = tag;
        // A length, of a value or of parts, that there can be.
        [1, 9, 10].iter().any(|at| {
            let mut bytes = bytes;
            bytes[*at..*at + 8].fill(0);
            WriteOutcome::decode(&mut Reader::new(&bytes), Timestamp::ZERO).is_some()
        })
    };
    read(0) || read(1)
}

fn outcomes(document: &mut Document<'_>) {
    let all = all_outcomes();
    for (tag, _, outcome, fields) in &all {
        let bytes = match tag {
            6 => trailer_bytes(outcome),
            _ => outcome_bytes(outcome),
        };
        assert_eq!(bytes[0], *tag, "{outcome:?}");
        document.listed("Outcomes / tag (1)", u64::from(*tag), &bytes[1..], fields);
    }
    let known: Vec<(u64, &str)> = all.iter().map(|(tag, words, ..)| (u64::from(*tag), *words)).collect();
    document.numbers("Outcomes / tag (1)", &known);
    assert_eq!(SEEN_VALUE_BYTES_MAX, 4096, "the document has 4,096");
    assert_eq!(TAKE_BYTES_MAX + 4, 65_540, "the document has 65,540");
}

fn note(document: &mut Document<'_>) {
    let [deadline, sequence, ..] = NUMBERS;
    let outcome = WriteOutcome::Counter { version: Timestamp(5), value: 6 };
    let session =
        SessionOutcome { session: SESSION, sequence, lowest: sequence - 0x0908, outcome: outcome.clone() };
    let mut bytes = Vec::new();
    EntryMetadata { deadline: Some(deadline), session: Some(session) }.push_mark(Timestamp::ZERO, &mut bytes);
    let fields = [
        field("flags: 1 a deadline follows, 2 a session follows", [1 | 2]),
        number("deadline", deadline),
        field("session", session_bytes()),
        number("sequence", sequence),
        field("sequence less the lowest one without an answer", 0x0908u16.to_le_bytes()),
        field("outcome", outcome_bytes(&outcome)),
    ];
    assert_eq!(bytes[0], 1);
    document.layout("Notes in log entries / size", &[], &bytes[1..], &fields);
}

fn mark_bytes(mark: &Mark) -> Vec<u8> {
    let mut bytes = Vec::new();
    mark.encode(Timestamp::ZERO, &mut bytes);
    assert_eq!(Mark::decode(&bytes, Timestamp::ZERO).as_ref(), Some(mark));
    bytes
}

fn marks(document: &mut Document<'_>) {
    let [mark, ends_ms, lowest, ..] = NUMBERS;
    let id = SnapshotId(u128::from_le_bytes(*b"id of a snapshot"));
    let entry =
        TransactionEntry::Finish { id: TransactionId { session: SESSION, ..TransactionId::default() } };
    let opened = SnapshotMark::Open { id, lease_ms: 0x0102_0304, ends_ms };
    let ended = SnapshotMark::End { ids: vec![id] };
    let [opened, ended] = [opened, ended].map(|one| mark_bytes(&Mark::Snapshot(one)));
    let of_snapshots = [&opened[..], &ended[1..]].concat();
    let all = [
        (
            "One that begins with 16: a new primary begins here",
            mark_bytes(&Mark::Epoch { snapshots: vec![id] }),
            vec![field("the ids", b"id of a snapshot")],
        ),
        ("One that begins with 17 ", mark_bytes(&Mark::Filler), vec![open("has no more bytes", [])]),
        (
            "One that begins with 18 says",
            mark_bytes(&Mark::SplitCleanedUp { splits: 7 }),
            vec![field("so many splits of the keyspace", [7])],
        ),
        (
            "One that begins with 19 is an entry of a transaction",
            mark_bytes(&Mark::Transaction { lowest, entry: entry.clone() }),
            vec![
                number("the lowest sequence without an answer of the session whose outcome it is", lowest),
                open("the entry", entry.encode()),
            ],
        ),
        (
            "A mark that begins with 2 evicts",
            mark_bytes(&Mark::Eviction { mark: Timestamp(mark), sessions: vec![SESSION] }),
            vec![number("session mark", mark), field("the sessions that are forgotten", session_bytes())],
        ),
        (
            "One that begins with 20 is about",
            of_snapshots,
            vec![
                field("1", [1]),
                field("id", b"id of a snapshot"),
                field("lease in ms", 0x0102_0304u32.to_le_bytes()),
                number("when it goes in any case in ms since 1970", ends_ms),
                field("or 2", [2]),
                field("the ids", b"id of a snapshot"),
            ],
        ),
    ];
    for (begin, bytes, fields) in &all {
        assert!(begin.contains(&format!("begins with {}", bytes[0])), "{begin}");
        document.sentence(begin, &bytes[1..], fields);
    }
}
