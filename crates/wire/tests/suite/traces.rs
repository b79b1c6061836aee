//! Trace contexts, which are reserved.

use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::{Query, RecordRead};
use zerohop_wire::{
    BadRequestReason, DecodeResult, Decoder, Encoder, Flags, FrameHeader, FrameKind, Message, TRACE_BYTES,
    TraceContext,
};

use crate::golden::{FEATURES, FOR_CONNECTION, FOR_PARTITION, SEEN, assert_says, golden_bytes};
use crate::support::hexadecimal::hex;

#[test]
fn trace_context_is_in_front_of_a_message_and_skipped() {
    let message = Message::Read { seen: SEEN, read: RecordRead { key: b"key", query: Query::Lookup } };
    let mut trace = TraceContext([0xab; TRACE_BYTES]);
    (trace.0[0], trace.0[25]) = (0, 1);
    let mut bytes = Vec::new();
    Encoder::newest_for(&message).encode_traced(&FOR_PARTITION, &message, &trace, &mut bytes).unwrap();
    let golden = golden_bytes("lookup_traced", "key, with a trace context", &bytes);
    assert_eq!(hex(&bytes), hex(&golden));
    assert_says("lookup_traced", &golden, &FOR_PARTITION, &message);
    let decoder = Decoder::with_version(VERSION_MAX, FEATURES);
    let DecodeResult::Frame { frame, .. } = decoder.decode(&golden) else { panic!("it is whole") };
    assert_eq!(frame.traced_message(&mut Vec::new()), Ok((Some(trace), message.clone())));
    // The body of a pong, under the flag: too short for a trace context.
    let mut body = Vec::new();
    let header = FrameHeader {
        version: VERSION_MAX,
        kind: FrameKind::Pong.number(),
        flags: Flags::TRACE,
        envelope: FOR_CONNECTION,
        body_len: 16,
        body_crc: 0,
    };
    body.extend_from_slice(&header.encode());
    body.extend_from_slice(&[0; 16]);
    let DecodeResult::Frame { frame, .. } = decoder.decode(&body) else { panic!("it is whole") };
    assert_eq!(frame.message(&mut Vec::new()), Err(BadRequestReason::FieldsCut.into()));
}
