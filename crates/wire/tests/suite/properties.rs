//! What must hold of every message, and of every sequence of bytes.

use crate::support::{Seed, envelope, seed, with_message};
use proptest::prelude::*;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::SPLIT_BYTES_MIN;
use zerohop_wire::messages::Outcome;
use zerohop_wire::{
    AnswerGathering, DecodeResult, Decoder, Encoder, Envelope, Features, HEADER_BYTES, Message,
};

const DECODER: Decoder = Decoder::with_version(1, Features(Features::LZ4.0 | Features::COALESCED.0));
const LZ4: Encoder = Encoder { version: 1, body_checksum: true, compress_from_bytes: Some(0) };

fn encoded(encoder: Encoder, seed: &Seed) -> Vec<u8> {
    let mut bytes = Vec::new();
    with_message(seed, |message| {
        encoder.encode(&envelope(seed), message, &mut bytes).expect("within bounds")
    });
    bytes
}

/// Decodes and reads whatever stands at the front; how far it got.
fn take_up(bytes: &[u8]) -> &'static str {
    match DECODER.decode(bytes) {
        DecodeResult::Need(_) => "need",
        DecodeResult::Refused { .. } => "refused",
        DecodeResult::Broken(_) => "broken",
        DecodeResult::Frame { frame, .. } => match frame.message(&mut Vec::new()) {
            Ok(message) => {
                // Go through everything that was promised to be there.
                let _ = format!("{message:?}");
                "message"
            }
            Err(_) => "bad body",
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn every_message_decodes_to_itself(seed in seed(), lz4: bool, body_checksum: bool) {
        let encoder = Encoder { body_checksum, ..if lz4 { LZ4 } else { Encoder::default() } };
        with_message(&seed, |message| {
            let mut bytes = b"already there".to_vec();
            encoder.encode(&envelope(&seed), message, &mut bytes).unwrap();
            let frame_bytes = &bytes[13..];
            let DecodeResult::Frame { frame, used } = DECODER.decode(frame_bytes) else {
                panic!("{:?}", DECODER.decode(frame_bytes));
            };
            assert_eq!((used, frame.kind, frame.envelope), (frame_bytes.len(), message.kind(), envelope(&seed)));
            assert_eq!(&frame.message(&mut Vec::new()).unwrap(), message);
        });
    }

    #[test]
    fn split_encoding_equals_whole_encoding(mut seed in seed(), long in 0..40_000usize) {
        seed.value.resize(long, 7);
        with_message(&seed, |message| {
            let (mut whole, mut head) = (Vec::new(), Vec::new());
            let sent = Encoder::default().encode(&envelope(&seed), message, &mut whole);
            let tail = Encoder::default().encode_split(&envelope(&seed), message, &mut head);
            match (sent, tail) {
                (Ok(()), Ok(tail)) => assert_eq!(whole, [&head[..], tail].concat()),
                (Err(a), Err(b)) => { assert_eq!(a, b); assert!(head.is_empty()); }
                (a, b) => panic!("{a:?} but {b:?}"),
            }
        });
    }

    #[test]
    fn multi_buffer_chunk_encodes_like_contiguous_one(
        bytes in prop::collection::vec(any::<u8>(), 0..60_000), piece_bytes in 1..9_000usize, knows: bool, lz4: bool
    ) {
        let (version, stamp) = (Timestamp(5), BlobStamp { id: 6, generation: 7 });
        let pieces: Vec<&[u8]> = bytes.chunks(piece_bytes).collect();
        let crc = knows.then(|| crc32c(&bytes));
        let apart = Message::Answer(Ok(Outcome::ChunkMultiBuffer { version, stamp, pieces: &pieces, crc }));
        let together = Message::Answer(Ok(Outcome::Chunk { version, stamp, bytes: &bytes }));
        let encoder = if lz4 { LZ4 } else { Encoder::default() };
        let (mut expected, mut whole, mut split) = (Vec::new(), Vec::new(), Vec::new());
        encoder.encode(&Envelope::default(), &together, &mut expected).unwrap();
        encoder.encode(&Envelope::default(), &apart, &mut whole).unwrap();
        let tail = encoder.encode_multi_buffer(&Envelope::default(), &apart, &mut split).unwrap();
        prop_assert_eq!(tail.is_empty(), bytes.len() < SPLIT_BYTES_MIN || lz4);
        tail.append(0, &mut split);
        prop_assert!(whole == expected && split == expected);
        // Behind other answers as well.
        let (mut gathering, mut out) = (AnswerGathering::default(), Vec::new());
        for _ in 0..2 {
            gathering.add(&encoder, &Envelope::default(), &apart, &mut out).unwrap().append(0, &mut out);
        }
        gathering.close(&encoder, &mut out);
        prop_assert!(out.starts_with(&expected) && (bytes.len() < SPLIT_BYTES_MIN || out[expected.len()..] == expected));
    }

    #[test]
    fn any_flipped_bits_up_to_three_are_noticed(seed in seed(), lz4: bool, flips in prop::collection::vec(any::<prop::sample::Index>(), 1..4)) {
        let mut bytes = encoded(if lz4 { LZ4 } else { Encoder::default() }, &seed);
        let bits = bytes.len() * 8;
        let flips: std::collections::BTreeSet<usize> = flips.iter().map(|i| i.index(bits)).collect();
        for bit in &flips {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let in_body_only = flips.iter().all(|bit| *bit >= HEADER_BYTES * 8);
        prop_assert_eq!(take_up(&bytes), if in_body_only { "refused" } else { "broken" });
    }

    #[test]
    fn truncated_input_requests_exactly_the_missing_bytes(seed in seed(), at: prop::sample::Index) {
        let bytes = encoded(Encoder::default(), &seed);
        let cut = at.index(bytes.len());
        let need = if cut < HEADER_BYTES { HEADER_BYTES } else { bytes.len() };
        prop_assert_eq!(DECODER.decode(&bytes[..cut]), DecodeResult::Need(need));
    }

    #[test]
    fn random_bytes_never_pass_nor_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let state = take_up(&bytes);
        prop_assert!(state == "broken" || state == "need" && bytes.len() < HEADER_BYTES, "{}", state);
    }

    #[test]
    fn random_bodies_under_good_checksums_never_panic(
        kind in prop::sample::select(zerohop_wire::FrameKind::ALL), lz4: bool,
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => 0..5u8], 0..200),
        ],
    ) {
        take_up(&frame_of(kind.number(), if lz4 { 2 } else { 0 }, &body));
    }

    #[test]
    fn damaged_bodies_under_good_checksums_never_panic(
        seed in seed(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index, keep: bool,
    ) {
        // What a faulty client would send: nearly right, and sealed.
        let mut bytes = encoded(Encoder::default(), &seed);
        let kind = u16::from_le_bytes([bytes[4], bytes[5]]);
        let mut body = bytes.split_off(HEADER_BYTES);
        if body.is_empty() {
            return Ok(());
        }
        let place = at.index(body.len());
        body[place] = byte;
        if !keep {
            body.truncate(cut.index(body.len()));
        }
        let again = frame_of(kind, 0, &body);
        if let DecodeResult::Frame { frame, .. } = DECODER.decode(&again)
            && let Ok(message) = frame.message(&mut Vec::new())
        {
            // Whatever passes must be something that could have been sent.
            let reads_back = reencode(&message);
            prop_assert!(reads_back, "{:?}", message);
        }
    }
}

/// Whether a message that was taken up can be sent on, and is then read the same.
fn reencode(message: &Message<'_>) -> bool {
    let mut bytes = Vec::new();
    if Encoder::default().encode(&Default::default(), message, &mut bytes).is_err() {
        return false;
    }
    match DECODER.decode(&bytes) {
        DecodeResult::Frame { frame, .. } => frame.message(&mut Vec::new()).as_ref() == Ok(message),
        _ => false,
    }
}

fn frame_of(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let header = zerohop_wire::FrameHeader {
        version: 1,
        kind,
        flags: zerohop_wire::Flags(flags | 1),
        envelope: Default::default(),
        body_len: body.len() as u32,
        body_crc: zerohop_wire::checksum::crc32c(body),
    };
    [&header.encode()[..], body].concat()
}
