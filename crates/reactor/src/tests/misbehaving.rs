//! Peers that violate the protocol, and the effect on others.

use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::{Ping, Pong};
use zerohop_wire::{BadRequestReason, Failure, HEADER_BYTES, Message};

use super::*;

/// A well-behaved connection and a misbehaving one, both after the greeting.
fn two() -> (ReactorBench, usize, usize) {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let (good, bad) = (bench.connect_with_hello(), bench.connect_with_hello());
    bench.answers(good);
    bench.answers(bad);
    (bench, good, bad)
}

fn is_served(bench: &mut ReactorBench, peer: usize) {
    bench.send(peer, &lookup(99, b"still here"));
    assert_eq!(bench.answers(peer), [(99, ReceivedAnswer::Value(b"still here".to_vec()))]);
}

fn damaged(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 0x40;
    bytes
}

/// A frame with this body length in its header, and a valid checksum.
fn claiming(length: u32) -> Vec<u8> {
    header(VERSION_MAX, length)
}

fn header(version: u8, body_len: u32) -> Vec<u8> {
    let kind = zerohop_wire::FrameKind::Insert.number();
    let flags = zerohop_wire::Flags::BODY_CHECKSUM;
    zerohop_wire::FrameHeader { version, kind, flags, envelope: envelope(77), body_len, body_crc: 1 }
        .encode()
        .to_vec()
}

#[test]
fn answerable_bad_requests_keep_the_connection() {
    let (mut bench, good, bad) = two();
    let body_at = HEADER_BYTES + 3;
    let corrupt = damaged(lookup(5, b"abc"), body_at);
    let answer = encoded(6, &Message::Pong(Pong::default()));
    let late_hello = encoded_as(VERSION_MAX, 1, &Message::Hello(hello_message()));
    bench.send(bad, &[corrupt, answer, late_hello, lookup(7, b"abc")].concat());
    assert_eq!(
        bench.answers(bad),
        [
            (5, ReceivedAnswer::Failed(Failure::Corrupt)),
            (6, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into())),
            (1, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into())),
            (7, ReceivedAnswer::Value(b"abc".to_vec())),
        ]
    );
    assert_eq!(bench.counters().refused, 3);
    is_served(&mut bench, good);
    is_served(&mut bench, bad);
}

#[test]
fn unknown_frame_boundary_closes_connection() {
    let too_long = Failure::FrameTooLong { length: u64::from(u32::MAX), limit: 16_908_288 };
    let wrong_version = Failure::UnsupportedVersion { min: VERSION_MAX, max: VERSION_MAX };
    for (bytes, last_answer) in [
        (claiming(u32::MAX), Some(too_long)),
        (header(9, 0), Some(wrong_version)),
        (damaged(lookup(5, b"abc"), 20), None),
        (b"\xfaZH\x01 and then anything at all, as long as it is long enough".to_vec(), None),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
    ] {
        let (mut bench, good, bad) = two();
        bench.send(bad, &[bytes, lookup(8, b"not read")].concat());
        let expected: Vec<_> =
            last_answer.into_iter().map(|failure| (77, ReceivedAnswer::Failed(failure))).collect();
        assert_eq!(bench.answers(bad), expected);
        assert!(bench.world.borrow().peers[bad].server_shut);
        assert_eq!(bench.reactor.service.requests, 0);
        // The connection is read to its end with its bytes discarded, and then removed.
        bench.send(bad, &[0xfa; 100_000]);
        bench.world.borrow_mut().send_end(bad);
        bench.run_until_idle();
        assert!(bench.is_closed(bad));
        assert_eq!(bench.counters().ended(CloseReason::Misbehaved), 1);
        is_served(&mut bench, good);
    }
}

#[test]
fn requests_before_hello_are_refused() {
    for (bytes, request, failure) in [
        (encoded_as(1, 4, &Message::Ping(Ping::default())), 4, BadRequestReason::HelloExpected.into()),
        (lookup(5, b"abc"), 5, Failure::UnsupportedVersion { min: 1, max: 1 }),
        (damaged(hello(), HEADER_BYTES), 1, Failure::Corrupt),
        (header(1, 2000), 77, Failure::FrameTooLong { length: 2000, limit: 1024 }),
        (header(2, 100), 77, Failure::UnsupportedVersion { min: 1, max: 1 }),
    ] {
        let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
        let peer = bench.world.borrow_mut().connect();
        bench.send(peer, &[bytes, hello()].concat());
        assert_eq!(bench.answers(peer), [(request, ReceivedAnswer::Failed(failure))]);
        assert!(bench.world.borrow().peers[peer].server_shut);
    }
}

#[test]
fn other_protocol_gets_an_explanatory_line() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"] {
        let peer = bench.world.borrow_mut().connect();
        bench.send(peer, bytes);
        bench.run_until_idle();
        bench.read_all();
        assert_eq!(bench.world.borrow().peers[peer].bytes_read, FOREIGN_ANSWER);
        assert!(bench.world.borrow().peers[peer].server_shut);
        bench.world.borrow_mut().send_end(peer);
        bench.run_until_idle();
        assert!(bench.is_closed(peer));
    }
    assert_eq!(bench.counters().ended(CloseReason::Foreign), 4);
}

#[test]
fn finished_connection_is_closed_by_the_server() {
    let (mut bench, good, bad) = two();
    bench.send(bad, b"no frame");
    bench.advance_ms(LINGER_MS - 1);
    assert!(!bench.is_closed(bad));
    bench.advance_ms(2);
    assert!(bench.is_closed(bad));
    is_served(&mut bench, good);
}
