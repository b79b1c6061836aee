//! The encodings of messages and entries: compared with golden vectors, decoded to the same value,
//! and refused when they are truncated or corrupt.

use bytes::Bytes;
use proptest::prelude::*;
use zerohop_transaction::codec::{
    decode_items, decode_parts, decode_release, encode_items, encode_parts, encode_release,
};
use zerohop_transaction::{
    Access, Attempt, CodecError, DecisionFloor, Durability, ItemBody, Items, KeyspaceRange, Message,
    Participant, ParticipantState, Reason, Refusal, RoutingKey, StageId, TransactionEntry, TransactionId,
    TransactionItem, TransactionMessage, TransactionPart,
};
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

fn routing_key(keyspace: u32, point: u64) -> RoutingKey {
    RoutingKey { keyspace: KeyspaceId(keyspace), point }
}

fn id() -> TransactionId {
    let session = SessionId { issued: Timestamp(0x0102), nonce: 0x0304 };
    TransactionId { coordinator: routing_key(2, 0x0506), session, sequence: Sequence(7) }
}

fn stage() -> StageId {
    StageId { session: id().session, sequence: Sequence(3) }
}

fn attempt() -> Attempt {
    Attempt { epoch: PartitionEpoch(9), counter: 10 }
}

fn hash_range() -> KeyspaceRange {
    KeyspaceRange { keyspace: KeyspaceId(1), first: 0x0700, last: 0x07ff }
}

fn floor() -> DecisionFloor {
    DecisionFloor {
        hash_range: KeyspaceRange { keyspace: KeyspaceId(2), first: 0, last: u64::MAX },
        index: LogIndex(11),
    }
}

fn items() -> Vec<TransactionItem> {
    let body = || ItemBody::Inline(Bytes::from_static(b"op"));
    vec![
        TransactionItem { lock_key: 1, access: Access::Read, seen: Some(Timestamp(5)), body: body() },
        TransactionItem { lock_key: 2, access: Access::Write, seen: None, body: ItemBody::Staged(stage()) },
        TransactionItem {
            lock_key: 3,
            access: Access::Transform(4),
            seen: Some(Timestamp::ZERO),
            body: body(),
        },
    ]
}

fn parts() -> Vec<TransactionPart> {
    vec![
        TransactionPart {
            routing_key: routing_key(1, 0x0708),
            durability: Durability::Sync,
            items: Items::Inline(items()),
        },
        TransactionPart {
            routing_key: routing_key(2, 1),
            durability: Durability::Memory,
            items: Items::Staged(stage()),
        },
    ]
}

fn messages() -> Vec<Message> {
    let parts = parts();
    let (attempt, floor, durability) = (attempt(), floor(), Durability::Interval);
    let (prepared, decision, timestamp) = (LogIndex(12), LogIndex(13), Timestamp(14));
    let refusal = Refusal { reason: Reason::ReadChanged, item: 2 };
    let range = hash_range();
    let says = vec![
        TransactionMessage::Prepare { attempt, chain: true, durability, floor, parts },
        TransactionMessage::Release { attempt, floor },
        TransactionMessage::Commit { attempt, prepared, timestamp, decision, durability, floor },
        TransactionMessage::Drop { floor },
        TransactionMessage::Prepared {
            attempt,
            proposal: timestamp,
            prepared,
            hash_range: range,
            result: Bytes::from_static(b"result"),
        },
        TransactionMessage::Busy { attempt },
        TransactionMessage::Refused { attempt, refusal },
        TransactionMessage::Released { attempt },
        TransactionMessage::Applied { decision, hash_range: range },
        TransactionMessage::NotPrepared { decision, hash_range: range },
        TransactionMessage::Query { attempt },
    ];
    let to_message =
        |what| Message { to: routing_key(1, 0x0708), from: routing_key(2, 0x0506), id: id(), what };
    says.into_iter().map(to_message).collect()
}

fn entries() -> Vec<TransactionEntry> {
    let (id, attempt, durability, timestamp) = (id(), attempt(), Durability::Sync, Timestamp(14));
    let (effect, pinned) = (Bytes::from_static(b"effect"), vec![stage()]);
    let participants = vec![Participant {
        routing_key: routing_key(1, 0x0708),
        hash_range: hash_range(),
        prepared: LogIndex(12),
    }];
    let results = vec![Bytes::from_static(b"one"), Bytes::new()];
    vec![
        TransactionEntry::Prepare {
            id,
            attempt,
            routing_key: routing_key(1, 0x0708),
            durability,
            proposal: timestamp,
            locks: vec![(1, Access::Read), (2, Access::Transform(4))],
            pinned: pinned.clone(),
            effect: effect.clone(),
            result: Bytes::from_static(b"result"),
        },
        TransactionEntry::Release { id, attempt },
        TransactionEntry::Apply { id, prepared: LogIndex(12), timestamp, decision: LogIndex(13) },
        TransactionEntry::Commit {
            id,
            attempt,
            timestamp,
            durability,
            participants,
            pinned,
            effect,
            results,
        },
        TransactionEntry::Abort { id, by: id.coordinator, refusal: Reason::Unknown.into() },
        TransactionEntry::Finish { id },
        TransactionEntry::DropBelow { floor: floor() },
        TransactionEntry::Stage { id: stage(), bytes: Bytes::from_static(b"staged") },
        TransactionEntry::Expire { ids: vec![stage()] },
        TransactionEntry::StagePiece { id: stage(), bytes: 0x0a0b },
        TransactionEntry::DropBelowAll {
            floors: vec![floor(), DecisionFloor { index: LogIndex(9), ..floor() }],
        },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that every later version must still read.
fn golden(name: &str, vectors: Vec<Vec<u8>>) {
    let text: String = vectors.iter().map(|bytes| hex(bytes) + "\n").collect();
    let pinned = match name {
        "messages" => include_str!("../golden/messages.hex"),
        "entries" => include_str!("../golden/entries.hex"),
        "parts" => include_str!("../golden/parts.hex"),
        "release" => include_str!("../golden/release.hex"),
        _ => include_str!("../golden/items.hex"),
    };
    assert_eq!(text, pinned, "the bytes of {name} have changed: old ones must still be read");
}

#[test]
fn messages_are_as_pinned_and_read_back() {
    golden("messages", messages().iter().map(Message::encode).collect());
    for message in messages() {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn entries_are_as_pinned_and_read_back() {
    golden("entries", entries().iter().map(TransactionEntry::encode).collect());
    for entry in entries() {
        assert_eq!(TransactionEntry::decode(&entry.encode()), Ok(entry));
    }
}

#[test]
fn previous_version_entries_decode_with_single_hash_participants() {
    let vectors = include_str!("../golden/entries-1.hex").lines();
    let bytes = |line: &str| -> Vec<u8> {
        (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect()
    };
    let read: Vec<TransactionEntry> =
        vectors.map(|line| TransactionEntry::decode(&bytes(line)).unwrap()).collect();
    let mut expected = entries();
    for entry in &mut expected {
        if let TransactionEntry::Commit { participants, .. } = entry {
            let Participant { routing_key: place, hash_range, .. } = &mut participants[0];
            *hash_range = KeyspaceRange { keyspace: place.keyspace, first: place.point, last: place.point };
        }
    }
    // The older version had no other entries.
    expected.truncate(read.len());
    assert_eq!((read.len(), read), (9, expected));
}

#[test]
fn staged_items_are_as_pinned_and_read_back() {
    golden("items", vec![encode_items(&items())]);
    assert_eq!(decode_items(&encode_items(&items())), Ok(items()));
}

#[test]
fn releases_are_as_pinned_and_are_no_pieces() {
    let pieces = [Sequence(3), Sequence(u64::MAX)];
    golden("release", vec![encode_release(&pieces)]);
    assert_eq!(decode_release(&encode_release(&pieces)), Ok(Some(pieces.to_vec())));
    // Lists begin with a version, operations with their kind.
    for piece in [&encode_items(&items())[..], b"", b"op"] {
        assert_eq!(decode_release(piece), Ok(None));
    }
}

#[test]
fn parts_are_as_pinned_and_read_back() {
    golden("parts", vec![encode_parts(&parts())]);
    assert_eq!(decode_parts(&encode_parts(&parts())), Ok(parts()));
}

#[test]
fn truncated_and_overlong_encodings_are_refused() {
    let refuses = |whole: &[u8], is_read: &dyn Fn(&[u8]) -> bool| {
        assert!((0..whole.len()).all(|end| !is_read(&whole[..end])));
        assert!(!is_read(&[whole, b"0"].concat()));
    };
    for message in messages() {
        refuses(&message.encode(), &|bytes| Message::decode(bytes).is_ok());
    }
    for entry in entries() {
        refuses(&entry.encode(), &|bytes| TransactionEntry::decode(bytes).is_ok());
    }
    refuses(&encode_parts(&parts()), &|bytes| decode_parts(bytes).is_ok());
    refuses(&encode_items(&items()), &|bytes| decode_items(bytes).is_ok());
    let release = encode_release(&[Sequence(3), Sequence(4)]);
    refuses(&release, &|bytes| matches!(decode_release(bytes), Ok(Some(_))));
}

#[test]
fn unknown_versions_and_kinds_are_refused() {
    let mut bytes = messages().remove(3).encode();
    bytes[1] = 77;
    assert_eq!(Message::decode(&bytes), Err(CodecError::Kind { found: 77 }));
    assert_eq!(TransactionEntry::decode(&bytes), Err(CodecError::Kind { found: 77 }));
    bytes[0] = 3;
    assert_eq!(Message::decode(&bytes), Err(CodecError::Version { found: 3 }));
    assert_eq!(TransactionEntry::decode(&bytes), Err(CodecError::Version { found: 3 }));
    assert_eq!(decode_items(&bytes), Err(CodecError::Version { found: 3 }));
}

#[test]
fn oversized_count_is_refused_without_allocation() {
    let mut bytes = TransactionEntry::Expire { ids: vec![stage()] }.encode();
    bytes[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(TransactionEntry::decode(&bytes), Err(CodecError::Damaged));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_back(
        number in 0..22_usize,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut all: Vec<Vec<u8>> = messages().iter().map(Message::encode).collect();
        all.extend(entries().iter().map(TransactionEntry::encode));
        let mut bytes = all.swap_remove(number);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(message.encode(), bytes.clone());
        }
        if let Ok(entry) = TransactionEntry::decode(&bytes) {
            // An entry of the previous version is encoded in the present one.
            prop_assert!(bytes[0] == 1 || entry.encode() == bytes);
        }
    }
}

/// Members compare the bytes of their states, and one may have restored its own from a checkpoint.
#[test]
fn state_restored_as_of_later_index_has_same_entries() {
    let mut state = ParticipantState::default();
    let (prepared, decision) = (LogIndex(4), LogIndex(5));
    let applied = TransactionEntry::Apply { id: id(), prepared, timestamp: Timestamp(8), decision };
    let _ = state.apply(LogIndex(6), &applied);
    let entries = state.entries();
    let restored =
        ParticipantState::restore(LogIndex(9), entries.iter().map(|(index, entry)| (*index, entry)));
    assert_eq!((restored.entries().len(), restored.entries()), (1, entries));
}
