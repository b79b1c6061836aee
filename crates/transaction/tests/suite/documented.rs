//! `docs/protocols/transactions.md` lists the fields of messages and log entries, with their lengths.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use bytes::Bytes;
use tables::{Document, Field, check_offsets, field, open};
use zerohop_transaction::codec::{encode_items, encode_parts};
use zerohop_transaction::{
    Access, Attempt, DecisionFloor, Durability, ItemBody, Items, KeyspaceRange, Message, Participant, Reason,
    Refusal, RoutingKey, StageId, TransactionEntry, TransactionId, TransactionItem, TransactionMessage,
    TransactionPart,
};
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

const DOCUMENT: &str = include_str!("../../../../docs/protocols/transactions.md");
const NUMBERS: [u64; 4] =
    [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];
const SESSION: SessionId =
    SessionId { issued: Timestamp(0x5152_5354_5556_5758), nonce: 0x6162_6364_6566_6768 };
const PLACE: RoutingKey = RoutingKey { keyspace: KeyspaceId(0x4142_4344), point: 0x7172_7374_7576_7778 };
const ID: TransactionId = TransactionId { coordinator: PLACE, session: SESSION, sequence: Sequence(7) };
const STAGE: StageId = StageId { session: SESSION, sequence: Sequence(9) };
const ATTEMPT: Attempt = Attempt { epoch: PartitionEpoch(0x8182_8384), counter: 0x9192_9394 };
const RANGE: KeyspaceRange = KeyspaceRange { keyspace: KeyspaceId(3), first: 0x0700, last: 0x07ff };
const FLOOR: DecisionFloor = DecisionFloor { hash_range: RANGE, index: LogIndex(0xa1a2_a3a4) };
const REFUSAL: Refusal = Refusal { reason: Reason::StorageFull, item: 0x0a0b_0c0d };
const ENTRIES: &str = "Log entries / kind";
const MESSAGES: &str = "Messages / kind";

#[test]
fn messages_and_entries_are_as_documented() {
    check_offsets(DOCUMENT, |document| {
        forms(document);
        messages(document);
        entries(document);
    });
}

#[test]
fn reasons_are_listed_in_the_order_of_their_numbers() {
    let in_words = |reason: Reason| {
        let mut words = String::new();
        for letter in format!("{reason:?}").chars() {
            if letter.is_uppercase() && !words.is_empty() {
                words.push(' ');
            }
            words.extend(letter.to_lowercase());
        }
        words
    };
    let listed = Reason::ALL.map(in_words).join(", ");
    let unwrapped = DOCUMENT.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(&format!("from 1: {listed}. ")), "the document does not list: {listed}");
}

fn place() -> Vec<u8> {
    [&PLACE.keyspace.0.to_le_bytes()[..], &PLACE.point.to_le_bytes()].concat()
}

fn session() -> Vec<u8> {
    [SESSION.issued.0, SESSION.nonce].map(u64::to_le_bytes).concat()
}

fn id() -> Field {
    field("transaction", [place(), session(), 7u64.to_le_bytes().to_vec()].concat())
}

fn attempt() -> Field {
    field("attempt", [ATTEMPT.epoch.0, ATTEMPT.counter].map(u64::to_le_bytes).concat())
}

fn range_bytes() -> Vec<u8> {
    [&RANGE.keyspace.0.to_le_bytes()[..], &RANGE.first.to_le_bytes(), &RANGE.last.to_le_bytes()].concat()
}

fn floor() -> Field {
    field("floor", [range_bytes(), FLOOR.index.0.to_le_bytes().to_vec()].concat())
}

fn stage() -> Vec<u8> {
    [session(), 9u64.to_le_bytes().to_vec()].concat()
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

fn n8(words: &str, number: u64) -> Field {
    field(words, number.to_le_bytes())
}

fn n4(words: &str, number: u32) -> Field {
    field(words, number.to_le_bytes())
}

/// The sentences about what several rows have.
fn forms(document: &mut Document<'_>) {
    let fields = [field("keyspace", PLACE.keyspace.0.to_le_bytes()), n8("hash", PLACE.point)];
    document.sentence("A routing key (*place* in the tables)", &place(), &fields);
    let bytes = [place(), session(), 7u64.to_le_bytes().to_vec()].concat();
    let fields = [field("coordinator's place", place()), field("session", session()), n8("sequence", 7)];
    document.sentence("A transaction: coordinator's place", &bytes, &fields);
    let fields = [n4("keyspace", 3), n8("first hash", RANGE.first), n8("last hash", RANGE.last)];
    document.sentence("A hash range: keyspace", &range_bytes(), &fields);
    let item = |seen, body| {
        encode_items(&[TransactionItem { lock_key: NUMBERS[0], access: Access::Transform(4), seen, body }])
    };
    let bytes = item(Some(Timestamp(NUMBERS[1])), ItemBody::Staged(STAGE));
    let fields = [
        n8("lock key", NUMBERS[0]),
        field("access", [2]),
        field("kind of transform", [4]),
        // A version seen, and a staged operation.
        field("flags", [1 + 2]),
        n8("version seen", NUMBERS[1]),
        open("the operation", stage()),
    ];
    document.sentence("An item: lock key", &bytes[5..], &fields);
    document.sentence("A staged list: version", &bytes[..5], &[field("version", [1]), n4("number", 1)]);
    let bytes = item(None, ItemBody::Inline(Bytes::from_static(b"op")));
    assert_eq!(
        bytes[5 + 10..],
        [&[0][..], &counted(b"op")].concat(),
        "the operation has its length before it"
    );
    assert_eq!([Durability::Memory, Durability::Interval, Durability::Sync].map(|one| one as u8), [0, 1, 2]);
}

fn messages(document: &mut Document<'_>) {
    let [index, proposal, decision, _] = NUMBERS;
    let (durability, timestamp) = (Durability::Sync, Timestamp(proposal));
    let items = Items::Staged(STAGE);
    let parts = vec![TransactionPart { routing_key: PLACE, durability: Durability::Memory, items }];
    // What a client sends has a version before the parts.
    let parts_bytes = encode_parts(&parts).split_off(1);
    let (prepared, decided) = (LogIndex(index), LogIndex(decision));
    let result = Bytes::from_static(b"result");
    let sync = || field("durability", [2]);
    let rows = [
        (
            "`Prepare`",
            TransactionMessage::Prepare { attempt: ATTEMPT, chain: true, durability, floor: FLOOR, parts },
            vec![attempt(), field("chain", [1]), sync(), floor(), open("parts", parts_bytes)],
        ),
        (
            "`Release`",
            TransactionMessage::Release { attempt: ATTEMPT, floor: FLOOR },
            vec![attempt(), floor()],
        ),
        (
            "`Commit`",
            TransactionMessage::Commit {
                attempt: ATTEMPT,
                prepared,
                timestamp,
                decision: decided,
                durability,
                floor: FLOOR,
            },
            vec![
                attempt(),
                n8("index of the receiver's `Prepare`", index),
                n8("timestamp", proposal),
                n8("index of the decision", decision),
                sync(),
                floor(),
            ],
        ),
        ("`Drop`", TransactionMessage::Drop { floor: FLOOR }, vec![floor()]),
        (
            "`Prepared`",
            TransactionMessage::Prepared {
                attempt: ATTEMPT,
                proposal: timestamp,
                prepared,
                hash_range: RANGE,
                result,
            },
            vec![
                attempt(),
                n8("proposal", proposal),
                n8("index", index),
                field("range", range_bytes()),
                open("result", counted(b"result")),
            ],
        ),
        ("`Busy`", TransactionMessage::Busy { attempt: ATTEMPT }, vec![attempt()]),
        (
            "`Refused`",
            TransactionMessage::Refused { attempt: ATTEMPT, refusal: REFUSAL },
            vec![attempt(), field("reason", [11]), n4("item", REFUSAL.item)],
        ),
        ("`Released`", TransactionMessage::Released { attempt: ATTEMPT }, vec![attempt()]),
        (
            "`Applied`",
            TransactionMessage::Applied { decision: decided, hash_range: RANGE },
            vec![n8("index of the decision", decision), field("range", range_bytes())],
        ),
        (
            "`NotPrepared`",
            TransactionMessage::NotPrepared { decision: decided, hash_range: RANGE },
            vec![n8("index of the decision", decision), field("range", range_bytes())],
        ),
        ("`Ask`", TransactionMessage::Query { attempt: ATTEMPT }, vec![attempt()]),
    ];
    let to = RoutingKey { keyspace: KeyspaceId(5), point: 6 };
    let to_bytes = [&5u32.to_le_bytes()[..], &6u64.to_le_bytes()].concat();
    let mut names = Vec::new();
    for (number, (name, what, fields)) in (1..).zip(rows) {
        let bytes = Message { to, from: PLACE, id: ID, what }.encode();
        let head = [
            field("version", [2]),
            field("kind", [number]),
            field("to", &to_bytes),
            field("from", place()),
            id(),
        ];
        document.sentence("Header of each: version (1, is 2)", &bytes[..62], &head);
        document.listed(MESSAGES, number.into(), &bytes[62..], &fields);
        names.push((u64::from(number), name));
    }
    document.numbers(MESSAGES, &names);
}

fn entries(document: &mut Document<'_>) {
    let [index, proposal, decision, _] = NUMBERS;
    let (durability, timestamp) = (Durability::Interval, Timestamp(proposal));
    let (effect, result) = (Bytes::from_static(b"effect"), Bytes::from_static(b"result"));
    let participant = Participant { routing_key: PLACE, hash_range: RANGE, prepared: LogIndex(index) };
    let interval = || field("durability", [1]);
    let rows = [
        (
            "`Prepare`",
            TransactionEntry::Prepare {
                id: ID,
                attempt: ATTEMPT,
                routing_key: PLACE,
                durability,
                proposal: timestamp,
                locks: vec![(index, Access::Transform(4))],
                pinned: vec![STAGE],
                effect: effect.clone(),
                result: result.clone(),
            },
            vec![
                id(),
                attempt(),
                field("place", place()),
                interval(),
                n8("proposal", proposal),
                n4("locks: number", 1),
                n8("each lock key", index),
                field("access", [2]),
                field("kind", [4]),
                n4("pinned pieces: number", 1),
                open("each 24", stage()),
                open("effect", counted(b"effect")),
                open("result", counted(b"result")),
            ],
        ),
        ("`Release`", TransactionEntry::Release { id: ID, attempt: ATTEMPT }, vec![id(), attempt()]),
        (
            "`Apply`",
            TransactionEntry::Apply {
                id: ID,
                prepared: LogIndex(index),
                timestamp,
                decision: LogIndex(decision),
            },
            vec![
                id(),
                n8("index of the `Prepare`", index),
                n8("timestamp", proposal),
                n8("index of the decision", decision),
            ],
        ),
        (
            "`Commit`",
            TransactionEntry::Commit {
                id: ID,
                attempt: ATTEMPT,
                timestamp,
                durability,
                participants: vec![participant],
                pinned: vec![STAGE],
                effect,
                results: vec![result],
            },
            vec![
                id(),
                attempt(),
                n8("timestamp", proposal),
                interval(),
                n4("participants: number", 1),
                field("each place", place()),
                field("its range when it prepared", range_bytes()),
                n8("index of its `Prepare`", index),
                open("pinned pieces", [&1u32.to_le_bytes()[..], &stage()].concat()),
                open("effect", counted(b"effect")),
                n4("results: number", 1),
                open("each 4 + n", counted(b"result")),
            ],
        ),
        (
            "`Abort`",
            TransactionEntry::Abort { id: ID, by: PLACE, refusal: REFUSAL },
            vec![id(), field("aborting partition", place()), field("reason", [11]), n4("item", REFUSAL.item)],
        ),
        ("`Finish`", TransactionEntry::Finish { id: ID }, vec![id()]),
    ];
    let mut names = Vec::new();
    for (number, (name, entry, fields)) in (1..).zip(rows) {
        let bytes = entry.encode();
        assert_eq!(bytes[..2], [2, number], "{name}");
        document.listed(ENTRIES, number.into(), &bytes[2..], &fields);
        names.push((u64::from(number), name));
    }
    staged(document, &mut names);
    document.numbers(ENTRIES, &names);
}

/// The entries of floors and of staged pieces, from 7 on.
fn staged(document: &mut Document<'_>, names: &mut Vec<(u64, &'static str)>) {
    let floors = vec![FLOOR];
    let floor_bytes = [range_bytes(), FLOOR.index.0.to_le_bytes().to_vec()].concat();
    let rows = [
        ("`Forget`", TransactionEntry::DropBelow { floor: FLOOR }, vec![floor()]),
        (
            "`Stage`",
            TransactionEntry::Stage { id: STAGE, bytes: Bytes::from_static(b"staged") },
            vec![field("piece", stage()), open("bytes", counted(b"staged"))],
        ),
        (
            "`Expire`",
            TransactionEntry::Expire { ids: vec![STAGE] },
            vec![n4("number", 1), field("pieces", stage())],
        ),
        (
            "`Hold`",
            TransactionEntry::StagePiece { id: STAGE, bytes: NUMBERS[0] },
            vec![field("piece", stage()), n8("length", NUMBERS[0])],
        ),
        (
            "`DropBelowAll`",
            TransactionEntry::DropBelowAll { floors },
            vec![n4("number", 1), field("floors", floor_bytes)],
        ),
    ];
    for (number, (name, entry, fields)) in (7..).zip(rows) {
        let bytes = entry.encode();
        assert_eq!(bytes[..2], [2, number], "{name}");
        document.listed(ENTRIES, number.into(), &bytes[2..], &fields);
        names.push((u64::from(number), name));
    }
}
