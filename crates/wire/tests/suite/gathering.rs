//! Requests and answers that share frames say what they would say in frames of their own.

use crate::support::{Seed, envelope, seed, with_message};
use proptest::prelude::*;
use zerohop_wire::ids::*;
use zerohop_wire::limits::{COALESCED_BYTES, COALESCED_MAX, SPLIT_BYTES_MIN};
use zerohop_wire::messages::*;
use zerohop_wire::{
    AnswerGathering, BadRequestReason, DecodeResult, Decoder, Elements, Encoder, Envelope, Failure, Features,
    FrameKind, HEADER_BYTES, Message,
};

const DECODER: Decoder = Decoder::with_version(1, Features::COALESCED);

/// What a receiver makes of these bytes: each answer with the id of its request. And how many frames there were.
fn decoded(mut bytes: &[u8]) -> (Vec<(u64, String)>, usize) {
    let (mut all, mut frames) = (Vec::new(), 0);
    while !bytes.is_empty() {
        let DecodeResult::Frame { frame, used } = DECODER.decode(bytes) else {
            panic!("{:?}", DECODER.decode(bytes));
        };
        match frame.message(&mut Vec::new()).expect("within bounds") {
            Message::Gathered(answers) => {
                assert_eq!(frame.envelope, Envelope::default(), "it answers several");
                all.extend(answers.iter().map(|answer| {
                    (answer.request.0, format!("{:?}", answer.message().expect("within bounds")))
                }));
            }
            message => all.push((frame.envelope.request.0, format!("{message:?}"))),
        }
        frames += 1;
        bytes = &bytes[used..];
    }
    (all, frames)
}

fn value(bytes: &[u8]) -> Message<'_> {
    Message::Answer(Ok(Outcome::Value { version: Timestamp(1), length: bytes.len() as u64, bytes }))
}

/// What is sent for answers of these lengths.
fn sent(lengths: &[usize]) -> Vec<u8> {
    let (mut gathering, mut out, encoder) = (AnswerGathering::default(), Vec::new(), Encoder::default());
    for (length, request) in lengths.iter().zip(1..) {
        let bytes = vec![7; *length];
        let envelope = Envelope { request: RequestId(request), ..Envelope::default() };
        let answer = value(&bytes);
        let tail = gathering.add(&encoder, &envelope, &answer, &mut out).expect("within bounds");
        tail.append(0, &mut out);
    }
    gathering.close(&encoder, &mut out);
    out
}

#[test]
fn single_answer_is_not_coalesced() {
    let mut alone = Vec::new();
    let envelope = Envelope { request: RequestId(1), ..Envelope::default() };
    Encoder::default().encode(&envelope, &value(b"seven b"), &mut alone).unwrap();
    let mut gathered = Vec::new();
    let mut gathering = AnswerGathering::default();
    gathering.add(&Encoder::default(), &envelope, &value(b"seven b"), &mut gathered).unwrap();
    gathering.close(&Encoder::default(), &mut gathered);
    assert_eq!(gathered, alone);
}

#[test]
fn many_short_answers_take_two_frames() {
    assert_eq!(decoded(&sent(&[30; 100])).1, 2);
}

#[test]
fn coalesced_answer_frame_ends_at_its_limits() {
    let many = sent(&[0; 2 * COALESCED_MAX as usize]);
    let a_frame = COALESCED_BYTES / 40;
    assert!(a_frame < COALESCED_MAX as usize, "bytes bound it before their number does");
    assert_eq!((decoded(&many).0.len(), decoded(&many).1), (2 * COALESCED_MAX as usize, 6));
    let long = sent(&[5_000; 100]);
    let (all, frames) = decoded(&long);
    assert_eq!(all.len(), 100);
    assert!(frames < 60, "{frames}");
    let mut rest = &long[..];
    while let DecodeResult::Frame { used, .. } = DECODER.decode(rest) {
        assert!(used < COALESCED_BYTES + 5_000 + 200, "{used}");
        rest = &rest[used..];
    }
}

#[test]
fn long_answer_is_sent_without_copy_in_order() {
    let (short, long) = (vec![1; 10], vec![2; SPLIT_BYTES_MIN]);
    let (mut gathering, mut out, encoder) = (AnswerGathering::default(), Vec::new(), Encoder::default());
    for (bytes, request) in [&short, &short, &short, &long, &short].into_iter().zip(1..) {
        let envelope = Envelope { request: RequestId(request), ..Envelope::default() };
        let answer = value(bytes);
        let tail = gathering.add(&encoder, &envelope, &answer, &mut out).unwrap();
        assert_eq!(tail.len(), if bytes.len() == long.len() { long.len() } else { 0 });
        tail.append(0, &mut out);
    }
    gathering.close(&encoder, &mut out);
    let requests: Vec<u64> = decoded(&out).0.into_iter().map(|(request, _)| request).collect();
    assert_eq!(requests, [1, 2, 3, 4, 5]);
}

#[test]
fn oversized_answer_leaves_frame_unchanged() {
    let long = vec![0; zerohop_wire::limits::VALUE_BYTES_MAX + 1];
    for before in 0..4 {
        let (mut gathering, mut out, encoder) = (AnswerGathering::default(), Vec::new(), Encoder::default());
        let envelope = Envelope { request: RequestId(1), ..Envelope::default() };
        for _ in 0..before {
            gathering.add(&encoder, &envelope, &value(b"v"), &mut out).unwrap();
        }
        let before_answer = out.clone();
        let answer = value(&long);
        assert!(gathering.add(&encoder, &envelope, &answer, &mut out).is_err());
        assert_eq!(out, before_answer);
        gathering.add(&encoder, &envelope, &value(b"v"), &mut out).unwrap();
        gathering.close(&encoder, &mut out);
        assert_eq!(decoded(&out).0.len(), before + 1);
    }
}

#[test]
fn coalesced_frames_need_negotiation() {
    for message in [Message::Gather(Elements::from_slice(&[])), Message::Gathered(Elements::from_slice(&[]))]
    {
        let mut bytes = Vec::new();
        Encoder::default().encode(&Envelope::default(), &message, &mut bytes).unwrap();
        let without = Decoder::with_version(1, Features::LZ4);
        assert!(matches!(
            without.decode(&bytes),
            DecodeResult::Refused {
                failure: Failure::BadRequest { reason: BadRequestReason::Unexpected },
                ..
            }
        ));
        assert!(matches!(DECODER.decode(&bytes), DecodeResult::Frame { .. }));
    }
}

#[test]
fn more_than_a_frame_may_have_are_refused() {
    let request = GatheredRequest {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        partition_epoch: PartitionEpoch(3),
        kind: FrameKind::Lookup.number(),
        read_lock: false,
        body: b"",
    };
    let requests = vec![request; COALESCED_MAX as usize + 1];
    let too_many = Failure::TooMany { count: u64::from(COALESCED_MAX) + 1, limit: COALESCED_MAX };
    let mut out = Vec::new();
    let gather = Message::Gather(Elements::from_slice(&requests));
    assert_eq!(gather.encode_body(&mut out), Err(too_many.clone()));
    out.clear();
    for request in &requests {
        zerohop_wire::pack(request, &mut out).unwrap();
    }
    assert_eq!(Message::decode_body(FrameKind::Gather, &out), Err(too_many));
}

#[test]
fn inconsistent_lengths_and_nonzero_reserved_bytes_are_refused() {
    let request = GatheredRequest {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        partition_epoch: PartitionEpoch(3),
        kind: FrameKind::Lookup.number(),
        read_lock: false,
        body: b"body",
    };
    let mut body = Vec::new();
    Message::Gather(Elements::from_slice(&[request, request])).encode_body(&mut body).unwrap();
    assert_eq!(body.len(), 56);
    let refused = |place: usize, byte: u8| {
        let mut body = body.clone();
        body[place] = byte;
        Message::decode_body(FrameKind::Gather, &body).unwrap_err()
    };
    assert_eq!(refused(48, 5), BadRequestReason::Lengths.into());
    assert_eq!(refused(48, 3), BadRequestReason::FieldsCut.into());
    assert_eq!(refused(18, 4), BadRequestReason::Flags.into());
    // A trace context is longer than this body.
    assert_eq!(refused(18, 2), BadRequestReason::FieldsCut.into());
    assert_eq!(
        Message::decode_body(FrameKind::Gather, &body[..40]).unwrap_err(),
        BadRequestReason::FieldsCut.into()
    );
}

#[test]
fn coalesced_non_partition_request_is_refused_alone() {
    let request = |kind: u16| GatheredRequest {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        partition_epoch: PartitionEpoch(3),
        kind,
        read_lock: false,
        body: b"",
    };
    assert_eq!(request(0x7777).message(), Err(Failure::UnknownKind { kind: 0x7777 }));
    for kind in FrameKind::ALL.iter().filter(|kind| !kind.is_for_partition()) {
        assert_eq!(request(kind.number()).message(), Err(BadRequestReason::Unexpected.into()), "{kind}");
    }
    let answer = |kind: FrameKind| GatheredAnswer {
        request: RequestId(1),
        kind: kind.number(),
        read_lock_us: 0,
        body: b"",
    };
    for kind in [FrameKind::Gathered, FrameKind::Gather, FrameKind::Lookup] {
        assert_eq!(answer(kind).message(), Err(BadRequestReason::Unexpected.into()), "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn coalesced_answers_keep_their_order(
        seeds in prop::collection::vec(seed(), 0..40), unchecked: bool
    ) {
        let encoder = Encoder { body_checksum: !unchecked, ..Encoder::default() };
        let (mut gathering, mut out, mut expected) = (AnswerGathering::default(), Vec::new(), Vec::new());
        for seed in seeds {
            let closes = seed.n[3] % 7 == 0;
            let answer = Seed { pick: [3, 4, 5][seed.pick % 3], ..seed };
            let envelope = Envelope { time_out_ms: 0, ..envelope(&answer) };
            with_message(&answer, |message| {
                let tail = gathering.add(&encoder, &envelope, message, &mut out).unwrap();
                tail.append(0, &mut out);
                expected.push((envelope.request.0, format!("{message:?}")));
            });
            if closes {
                gathering.close(&encoder, &mut out);
            }
        }
        gathering.close(&encoder, &mut out);
        prop_assert_eq!(decoded(&out).0, expected);
    }

    #[test]
    fn coalesced_requests_equal_single_ones(seeds in prop::collection::vec(seed(), 1..20)) {
        let mut packed = Vec::new();
        let mut expected = Vec::new();
        for (seed, place) in seeds.iter().zip(1..) {
            let seed = Seed { pick: seed.pick % 3, ..seed.clone() };
            let of = envelope(&seed);
            with_message(&seed, |message| {
                let mut body = Vec::new();
                let kind = message.encode_body(&mut body).unwrap().number();
                let Envelope { keyspace, partition, partition_epoch, read_lock, .. } = of;
                let request =
                    GatheredRequest { keyspace, partition, partition_epoch, kind, read_lock, body: &body };
                zerohop_wire::pack(&request, &mut packed).unwrap();
                let request = RequestId(100 + place);
                expected.push((Envelope { request, time_out_ms: 9, ..of }, format!("{message:?}")));
            });
        }
        let frame = Envelope { request: RequestId(100), time_out_ms: 9, ..Envelope::default() };
        let Ok(Message::Gather(requests)) = Message::decode_body(FrameKind::Gather, &packed) else { panic!() };
        let got: Vec<(Envelope, String)> = requests
            .iter()
            .zip(1..)
            .map(|(one, place)| (one.envelope(&frame, place), format!("{:?}", one.message().unwrap())))
            .collect();
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn read_lock_uses_a_flag_and_the_time_out_field() {
    let frame = |envelope: Envelope, message: &Message<'_>| {
        let mut bytes = Vec::new();
        Encoder::default().encode(&envelope, message, &mut bytes).unwrap();
        let DecodeResult::Frame { frame, .. } = DECODER.decode(&bytes) else { panic!("{bytes:?}") };
        (bytes.clone(), frame.envelope)
    };
    let sent = Envelope { request: RequestId(7), read_lock: true, time_out_ms: 9, ..Envelope::default() };
    let (bytes, envelope) = frame(sent, &Message::SessionOpen(zerohop_wire::messages::SessionOpen));
    assert_eq!((&bytes[6..8], &bytes[32..36], envelope), (&[5, 0][..], &[9, 0, 0, 0][..], sent));
    let decoded = Envelope { request: RequestId(7), time_out_ms: 2_000, ..Envelope::default() };
    let (bytes, envelope) = frame(decoded, &Message::Answer(Err(Failure::NotFound)));
    assert_eq!((&bytes[6..8], &bytes[32..36]), (&[1, 0][..], &[0xd0, 7, 0, 0][..]));
    assert_eq!((envelope.read_lock_us(), envelope.read_lock), (2_000, false));
    // In a frame with others an answer has two bytes for it.
    let (mut out, mut gathering) = (Vec::new(), AnswerGathering::default());
    let decoded = Envelope { time_out_ms: 70_000, ..decoded };
    for _ in 0..2 {
        let answer = Message::Answer(Err(Failure::NotFound));
        gathering.add(&Encoder::default(), &decoded, &answer, &mut out).unwrap();
    }
    gathering.close(&Encoder::default(), &mut out);
    let DecodeResult::Frame { used, .. } = DECODER.decode(&out) else { panic!("{out:?}") };
    let DecodeResult::Frame { frame, .. } = DECODER.decode(&out[used..]) else { panic!("{out:?}") };
    let mut scratch = Vec::new();
    let Message::Gathered(answers) = frame.message(&mut scratch).unwrap() else { panic!() };
    assert_eq!(answers.iter().map(|answer| answer.read_lock_us).collect::<Vec<_>>(), [u16::MAX]);
}

#[test]
fn empty_frame_has_header_length() {
    let mut out = Vec::new();
    let encoder = Encoder::default();
    let start = encoder.begin(&mut out);
    encoder.end(start, &Envelope::default(), FrameKind::Gather, &mut out);
    assert_eq!((start, out.len()), (0, HEADER_BYTES));
}
