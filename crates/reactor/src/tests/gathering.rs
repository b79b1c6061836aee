//! Tests of coalesced frames in both directions.

use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{GatheredRequest, Hello};
use zerohop_wire::{BadRequestReason, Elements, Failure, Features, FrameKind, Message};

use super::*;

/// Connects as a client that supports coalesced frames.
fn gatherer(bench: &mut ReactorBench) -> usize {
    let peer = bench.world.borrow_mut().connect();
    let hello = Hello { features: Features::COALESCED, ..hello_message() };
    bench.send(peer, &encoded(1, &Message::Hello(hello)));
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack)]);
    peer
}

fn request(kind: FrameKind, body: &[u8]) -> GatheredRequest<'_> {
    let (keyspace, partition) = (KeyspaceId(3), PartitionId(4));
    GatheredRequest {
        keyspace,
        partition,
        partition_epoch: PartitionEpoch(1),
        kind: kind.number(),
        read_lock: false,
        body,
    }
}

/// Lookups of these keys in one frame.
fn coalesced_lookups(id: u64, keys: &[&[u8]]) -> Vec<u8> {
    coalesce_frames(id, &keys.iter().map(|key| lookup(0, key)).collect::<Vec<Vec<u8>>>())
}

/// The requests of these frames in one coalesced frame.
pub(super) fn coalesce_frames(id: u64, frames: &[Vec<u8>]) -> Vec<u8> {
    let kind = |frame: &[u8]| FrameKind::from_number(u16::from_le_bytes([frame[4], frame[5]])).unwrap();
    let requests: Vec<GatheredRequest<'_>> =
        frames.iter().map(|frame| request(kind(frame), &frame[48..])).collect();
    encoded(id, &Message::Gather(Elements::from_slice(&requests)))
}

fn body_of(frame: &[u8]) -> Vec<u8> {
    frame[48..].to_vec()
}

fn value(id: u64, key: &[u8]) -> (u64, ReceivedAnswer) {
    (id, ReceivedAnswer::Value(key.to_vec()))
}

#[test]
fn each_request_of_coalesced_frame_is_answered_under_its_id() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    bench.send(peer, &[coalesced_lookups(100, &[b"a", b"b", b"c"]), lookup(7, b"d")].concat());
    let expected = [value(101, b"a"), value(102, b"b"), value(103, b"c"), value(7, b"d")];
    assert_eq!(bench.answers(peer), expected);
    assert_eq!(bench.counters().requests, 4);
}

#[test]
fn answers_of_one_batch_share_frames_in_any_order() {
    let mut bench = ReactorBench::new(AnswerTime::BatchBackwards, Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    let keys: Vec<Vec<u8>> = (0..100u8).map(|key| vec![key]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let sent = bench.counters().bytes_out;
    bench.send(peer, &coalesced_lookups(100, &keys));
    let expected: Vec<(u64, ReceivedAnswer)> =
        (0..100u64).rev().map(|at| value(101 + at, &[at as u8])).collect();
    assert_eq!(bench.answers(peer), expected);
    // Two headers for a hundred answers of 24 bytes and a key.
    assert_eq!(bench.counters().bytes_out - sent, 2 * 48 + 100 * 25 + 99 * 16);
}

#[test]
fn late_answers_do_not_delay_others() {
    let mut bench = ReactorBench::new(AnswerTime::After(50), Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    bench.send(peer, &coalesced_lookups(100, &[b"a"]));
    bench.run_until_idle();
    bench.advance_ms(20);
    bench.send(peer, &coalesced_lookups(200, &[b"b"]));
    bench.run_until_idle();
    bench.world.borrow_mut().now_ms += 30;
    bench.reactor.turn().unwrap();
    assert_eq!(bench.answers(peer), [value(101, b"a")]);
    bench.advance_ms(50);
    assert_eq!(bench.answers(peer), [value(201, b"b")]);
}

#[test]
fn unreadable_request_in_coalesced_frame_fails_alone() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    let good = body_of(&lookup(0, b"good"));
    let requests = [
        request(FrameKind::Lookup, &good),
        request(FrameKind::Lookup, b"cut"),
        request(FrameKind::Ping, &[0; 8]),
        request(FrameKind::Gather, b""),
        GatheredRequest { kind: 0x0177, ..request(FrameKind::Lookup, &good) },
        request(FrameKind::Lookup, &good),
    ];
    bench.send(peer, &encoded(10, &Message::Gather(Elements::from_slice(&requests))));
    let failed = |id, failure| (id, ReceivedAnswer::Failed(failure));
    let expected = [
        value(11, b"good"),
        failed(12, BadRequestReason::FieldsCut.into()),
        failed(13, BadRequestReason::Unexpected.into()),
        failed(14, BadRequestReason::Unexpected.into()),
        failed(15, Failure::UnknownKind { kind: 0x0177 }),
        value(16, b"good"),
    ];
    assert_eq!(bench.answers(peer), expected);
    assert!(!bench.is_closed(peer));
}

#[test]
fn coalesced_frame_without_negotiation_is_refused() {
    let mut bench = ReactorBench::new(AnswerTime::BatchBackwards, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &coalesced_lookups(10, &[b"a"]));
    assert_eq!(bench.answers(peer), [(10, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into()))]);
    let sent = bench.counters().bytes_out;
    bench.send(peer, &[lookup(1, b"a"), lookup(2, b"b"), lookup(3, b"c")].concat());
    assert_eq!(bench.answers(peer), [value(3, b"c"), value(2, b"b"), value(1, b"a")]);
    assert_eq!(bench.counters().bytes_out - sent, 3 * (48 + 25));
}

#[test]
fn long_answers_between_short_ones_are_complete() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    let long = [b'l'; 300];
    bench.reactor.service.repeat = 100;
    bench.send(peer, &coalesced_lookups(100, &[b"a", b"b", &long, b"c", b"d", &long, &long, b"e"]));
    let keys: [&[u8]; 8] = [b"a", b"b", &long, b"c", b"d", &long, &long, b"e"];
    let expected: Vec<(u64, ReceivedAnswer)> =
        keys.iter().zip(101..).map(|(key, id)| value(id, &key.repeat(100))).collect();
    assert_eq!(bench.answers(peer), expected);
}

#[test]
fn slow_reader_gets_complete_frames() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = gatherer(&mut bench);
    bench.world.borrow_mut().set_window(peer, 7);
    for round in 0..10u64 {
        bench.send(peer, &coalesced_lookups(1000 * (round + 1), &[b"a", b"b", b"c"]));
        bench.run_until_idle();
    }
    let answers = bench.answers(peer);
    let expected: Vec<(u64, ReceivedAnswer)> = (1..=10u64)
        .flat_map(|round| {
            [value(1000 * round + 1, b"a"), value(1000 * round + 2, b"b"), value(1000 * round + 3, b"c")]
        })
        .collect();
    assert_eq!(answers, expected);
}

#[test]
fn requests_of_a_frame_count_against_those_in_flight() {
    let limits = Limits { in_flight_max: 4, ..Limits::DEFAULT };
    let mut bench = ReactorBench::new(AnswerTime::After(10), limits);
    let peer = gatherer(&mut bench);
    bench.send(
        peer,
        &[coalesced_lookups(100, &[b"a", b"b", b"c", b"d", b"e"]), coalesced_lookups(200, &[b"f"])].concat(),
    );
    bench.run_until_idle();
    assert_eq!(bench.reactor.service.requests, 5, "a frame is taken whole, and nothing behind it");
    bench.advance_ms(30);
    assert_eq!(bench.answers(peer).len(), 6);
}
