//! What bad input gets: a typed error that names what was wrong, and whether the connection can go on.

use zerohop_wire::ids::*;
use zerohop_wire::limits::*;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{CompareSwap, Insert};
use zerohop_wire::{
    BadRequestReason, BrokenStream, DecodeResult, Decoder, Elements, Encoder, Envelope, Failure, Features,
    Flags, FrameHeader, FrameKind, HEADER_BYTES, Message, checksum,
};

const DECODER: Decoder = Decoder::with_version(1, Features(0));
const ENVELOPE: Envelope = Envelope {
    request: RequestId(77),
    keyspace: KeyspaceId(1),
    partition: PartitionId(2),
    partition_epoch: PartitionEpoch(3),
    time_out_ms: 0,
    read_lock: false,
};

fn header(kind: u16, body: &[u8]) -> FrameHeader {
    FrameHeader {
        version: 1,
        kind,
        flags: Flags::BODY_CHECKSUM,
        envelope: ENVELOPE,
        body_len: body.len() as u32,
        body_crc: checksum::crc32c(body),
    }
}

fn bytes(header: FrameHeader, body: &[u8]) -> Vec<u8> {
    [&header.encode()[..], body].concat()
}

fn insert<'a>(key: &'a [u8], value: &'a [u8]) -> Message<'a> {
    let change = WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    Message::Write {
        stamp: Stamp::default(),
        write: RecordWrite { key, condition: Condition::Always, change },
    }
}

fn encode(message: &Message<'_>) -> Result<Vec<u8>, Failure<'static>> {
    let mut out = Vec::new();
    Encoder::default().encode(&ENVELOPE, message, &mut out).map(|()| out)
}

/// What a body of this kind is answered with.
fn refusal(kind: FrameKind, body: &[u8]) -> Failure<'static> {
    let frame = bytes(header(kind.number(), body), body);
    match DECODER.decode(&frame) {
        DecodeResult::Frame { frame, .. } => frame.message(&mut Vec::new()).expect_err("must be refused"),
        DecodeResult::Refused { failure, .. } => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn envelope_is_readable_before_body_arrives() {
    let frame = encode(&insert(b"key", &[7; 100])).unwrap();
    assert_eq!(DECODER.envelope(&frame[..HEADER_BYTES]), Some(ENVELOPE));
    assert_eq!(DECODER.envelope(&frame[..HEADER_BYTES - 1]), None);
    let mut damaged = frame;
    damaged[9] ^= 1;
    assert_eq!(DECODER.envelope(&damaged), None);
}

#[test]
fn non_frame_bytes_break_stream_at_first_byte() {
    for other in
        [&b"GET / HTTP/1.1\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"\x16\x03\x01", b"\xfaZX"]
    {
        let DecodeResult::Broken(broken) = DECODER.decode(other) else { panic!("{other:?}") };
        assert_eq!(broken, BrokenStream::Magic { first: other[0] });
        assert_eq!(broken.last_answer(), None);
    }
    assert_eq!(DECODER.decode(b""), DecodeResult::Need(HEADER_BYTES));
    assert_eq!(DECODER.decode(b"\xfaZ"), DecodeResult::Need(HEADER_BYTES));
}

#[test]
fn a_damaged_header_closes_the_connection() {
    let mut frame = encode(&insert(b"key", b"value")).unwrap();
    frame[40] ^= 1;
    assert_eq!(DECODER.decode(&frame), DecodeResult::Broken(BrokenStream::HeaderChecksum));
}

#[test]
fn a_damaged_body_is_answered_and_the_next_frame_is_found() {
    let mut frames = encode(&insert(b"key", b"value")).unwrap();
    let first = frames.len();
    frames[first - 1] ^= 1;
    frames.extend(encode(&insert(b"key2", b"value2")).unwrap());
    let refused = DecodeResult::Refused {
        envelope: ENVELOPE,
        is_answer: false,
        failure: Failure::Corrupt,
        used: first,
    };
    assert_eq!(DECODER.decode(&frames), refused);
    assert!(matches!(DECODER.decode(&frames[first..]), DecodeResult::Frame { .. }));
}

#[test]
fn wrong_version_names_the_negotiated_one() {
    let frame = bytes(FrameHeader { version: 9, ..header(FrameKind::Ping.number(), &[0; 8]) }, &[0; 8]);
    let DecodeResult::Broken(broken) = DECODER.decode(&frame) else { panic!() };
    assert_eq!(broken, BrokenStream::Version { envelope: ENVELOPE, got: 9, agreed: 1 });
    assert_eq!(broken.last_answer(), Some((ENVELOPE, Failure::UnsupportedVersion { min: 1, max: 1 })));
}

#[test]
fn oversized_length_is_refused_by_header_alone() {
    let too_long = BODY_BYTES_MAX as u32 + 1;
    let head = FrameHeader { body_len: too_long, ..header(FrameKind::Insert.number(), b"") }.encode();
    let DecodeResult::Broken(broken) = DECODER.decode(&head) else { panic!() };
    let limit = BODY_BYTES_MAX as u32;
    assert_eq!(broken, BrokenStream::TooLong { envelope: ENVELOPE, length: too_long, limit });
    assert!(broken.to_string().contains("longer than"), "{broken}");
}

#[test]
fn unproven_peers_may_send_only_short_frames() {
    let body = [0; HELLO_BODY_BYTES_MAX + 1];
    let frame = bytes(header(FrameKind::Hello.number(), &body), &body);
    let decoded = Decoder::before_hello().decode(&frame);
    assert!(matches!(decoded, DecodeResult::Broken(BrokenStream::TooLong { .. })), "{decoded:?}");
}

#[test]
fn unknown_kinds_flags_and_waits_are_answered() {
    let result = |header: FrameHeader| match DECODER.decode(&bytes(header, &[0; 8])) {
        DecodeResult::Refused { envelope: ENVELOPE, failure, used, .. } if used == HEADER_BYTES + 8 => {
            failure
        }
        other => panic!("{other:?}"),
    };
    let ping = header(FrameKind::Ping.number(), &[0; 8]);
    assert_eq!(result(FrameHeader { kind: 0x0777, ..ping }), Failure::UnknownKind { kind: 0x0777 });
    assert_eq!(result(FrameHeader { flags: Flags(0x8001), ..ping }), BadRequestReason::Flags.into());
    assert_eq!(result(FrameHeader { flags: Flags(0), ..ping }), BadRequestReason::Reserved.into());
    assert_eq!(result(FrameHeader { flags: Flags(3), ..ping }), BadRequestReason::NotAgreed.into());
    let envelope = Envelope { time_out_ms: TIME_OUT_MS_MAX + 1, ..ENVELOPE };
    let late = bytes(FrameHeader { envelope, ..ping }, &[0; 8]);
    assert!(
        matches!(DECODER.decode(&late), DecodeResult::Refused { failure, .. } if failure == BadRequestReason::TimeOut.into())
    );
}

#[test]
fn keys_and_values_beyond_their_bounds_are_named_by_client_and_server() {
    let limit = KEY_BYTES_MAX as u32;
    let key = vec![b'k'; KEY_BYTES_MAX + 1];
    assert_eq!(encode(&insert(&key, b"")), Err(Failure::KeyTooLong { length: u64::from(limit) + 1, limit }));
    let mut body = vec![0; 64 + key.len()];
    body[40..44].copy_from_slice(&(key.len() as u32).to_le_bytes());
    assert_eq!(
        refusal(FrameKind::Insert, &body),
        Failure::KeyTooLong { length: u64::from(limit) + 1, limit }
    );

    let limit = VALUE_BYTES_MAX as u32;
    let value = vec![b'v'; VALUE_BYTES_MAX + 1];
    assert_eq!(
        encode(&insert(b"k", &value)),
        Err(Failure::ValueTooLong { length: u64::from(limit) + 1, limit })
    );
    let body = vec![0; 64 + value.len()];
    assert_eq!(
        refusal(FrameKind::Insert, &body),
        Failure::ValueTooLong { length: u64::from(limit) + 1, limit }
    );
}

#[test]
fn longest_key_and_value_fit_one_frame() {
    let (key, value) = (vec![b'k'; KEY_BYTES_MAX], vec![b'v'; VALUE_BYTES_MAX]);
    let message = insert(&key, &value);
    let frame = encode(&message).unwrap();
    let DecodeResult::Frame { frame, .. } = DECODER.decode(&frame) else { panic!() };
    assert_eq!(frame.message(&mut Vec::new()), Ok(message));
}

#[test]
fn too_long_pair_of_values_is_refused() {
    let value = vec![b'v'; VALUE_BYTES_MAX];
    let change = WriteChange::CompareSwap(CompareSwap { expected: Some(&value), new: Some(&value) });
    let write = RecordWrite { key: b"k", condition: Condition::Always, change };
    let result = encode(&Message::Write { stamp: Stamp::default(), write });
    assert!(matches!(result, Err(Failure::FrameTooLong { .. })), "{:?}", result.map(|frame| frame.len()));
}

#[test]
fn more_items_than_a_batch_may_have_are_refused() {
    let read = RecordOperation::Read(RecordRead { key: b"", query: Query::Lookup });
    let operations = vec![read; BATCH_ITEMS_MAX as usize + 1];
    let batch = OperationBatch { stamp: Stamp::default(), operations: Elements::from_slice(&operations) };
    let too_many = Failure::TooMany { count: u64::from(BATCH_ITEMS_MAX) + 1, limit: BATCH_ITEMS_MAX };
    assert_eq!(encode(&Message::Batch(batch)), Err(too_many.clone()));
    let mut body = [0; 48];
    body[40..44].copy_from_slice(&(BATCH_ITEMS_MAX + 1).to_le_bytes());
    assert_eq!(refusal(FrameKind::Batch, &body), too_many);
}

#[test]
fn wrong_item_count_is_refused() {
    let lookup = RecordOperation::Read(RecordRead { key: b"key", query: Query::Lookup });
    let operations = [lookup; 3];
    let batch = OperationBatch { stamp: Stamp::default(), operations: Elements::from_slice(&operations) };
    let mut body = encode(&Message::Batch(batch)).unwrap().split_off(HEADER_BYTES);
    for (count, result) in [(2, BadRequestReason::Lengths), (4, BadRequestReason::FieldsCut)] {
        body[40] = count;
        assert_eq!(refusal(FrameKind::Batch, &body), result.into());
    }
}

#[test]
fn contradictory_fields_are_named() {
    let good = encode(&insert(b"key", b"value")).unwrap().split_off(HEADER_BYTES);
    let bad = |place: usize, byte: u8| {
        let mut body = good.clone();
        body[place] = byte;
        refusal(FrameKind::Insert, &body)
    };
    assert_eq!(bad(0, 1), BadRequestReason::HalfSession.into());
    assert_eq!(bad(24, 1), BadRequestReason::Window.into());
    assert_eq!(bad(40, 9), BadRequestReason::Lengths.into());
    assert_eq!(bad(44, 4), BadRequestReason::Condition.into());
    assert_eq!(bad(45, 4), BadRequestReason::Expiry.into());
    assert_eq!(bad(46, 1), BadRequestReason::Reserved.into());
    assert_eq!(refusal(FrameKind::Insert, &good[..50]), BadRequestReason::FieldsCut.into());
    assert_eq!(refusal(FrameKind::Lookup, &[0; 17]), BadRequestReason::Lengths.into());
}

#[test]
fn an_outcome_from_a_newer_server_is_an_error_and_not_a_guess() {
    let mut body = [0u8; 24];
    body[2] = 200;
    assert_eq!(refusal(FrameKind::Answer, &body), BadRequestReason::Outcome.into());
    body[0..3].copy_from_slice(&[0x0f, 0x27, 0]);
    let frame = bytes(header(FrameKind::Answer.number(), &body), &body);
    let DecodeResult::Frame { frame, .. } = DECODER.decode(&frame) else { panic!() };
    let unknown = Message::Answer(Err(Failure::Other { code: 9999 }));
    assert_eq!(frame.message(&mut Vec::new()), Ok(unknown));
}
