//! Tests with well-behaved clients.

use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{ClusterId, Hello, Ping};
use zerohop_wire::{Failure, Message};

use super::*;

fn lookups(ids: std::ops::Range<u64>) -> Vec<u8> {
    ids.flat_map(|id| lookup(id, &id.to_be_bytes())).collect()
}

fn values(ids: impl Iterator<Item = u64>) -> Vec<(u64, ReceivedAnswer)> {
    ids.map(|id| (id, ReceivedAnswer::Value(id.to_be_bytes().to_vec()))).collect()
}

#[test]
fn hello_is_answered_and_then_requests_are() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack)]);
    bench.send(peer, &lookup(5, b"abc"));
    assert_eq!(bench.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    bench.send(peer, &encoded(6, &Message::Ping(Ping::default())));
    assert_eq!(bench.answers(peer), [(6, ReceivedAnswer::Pong)]);
    assert!(!bench.is_closed(peer));
}

#[test]
fn requests_right_behind_hello_are_served() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &[hello(), lookup(2, b"abc")].concat());
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack), (2, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn refused_hello_gets_a_reason_and_is_closed() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    for (hello, why) in [
        (Hello { cluster: ClusterId([0xbb; 16]), ..hello_message() }, Failure::Unauthorized),
        (
            Hello { version_min: 8, version_max: 9, ..hello_message() },
            Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX },
        ),
        // A program of before.
        (
            Hello { version_min: 1, version_max: VERSION_MIN - 1, ..hello_message() },
            Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX },
        ),
    ] {
        let peer = bench.world.borrow_mut().connect();
        bench.send(peer, &[encoded(3, &Message::Hello(hello)), lookup(4, b"never read")].concat());
        assert_eq!(bench.answers(peer), [(3, ReceivedAnswer::Failed(why))]);
        assert!(bench.world.borrow().peers[peer].server_shut && !bench.is_closed(peer));
        bench.world.borrow_mut().send_end(peer);
        bench.run_until_idle();
        assert!(bench.is_closed(peer));
    }
    assert_eq!((bench.counters().ended(CloseReason::Misbehaved), bench.reactor.service.requests), (3, 0));
}

#[test]
fn batch_is_answered_with_one_write_per_connection() {
    let mut bench = ReactorBench::new(AnswerTime::BatchBackwards, Limits::DEFAULT);
    let peers = [bench.connect_with_hello(), bench.connect_with_hello()];
    for peer in peers {
        bench.world.borrow_mut().peers[peer].writes = 0;
        bench.answers(peer);
        bench.send(peer, &lookups(0..150));
    }
    let batches = bench.reactor.service.batches;
    for peer in peers {
        assert_eq!(bench.answers(peer), values((0..150).rev()));
        assert_eq!(bench.world.borrow().peers[peer].writes, 1);
    }
    assert_eq!(bench.reactor.service.batches, batches + 1);
}

#[test]
fn driver_receives_the_request_frame_count() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    for ids in [0..3, 3..4, 4..5] {
        bench.send(peer, &lookups(ids));
        bench.answers(peer);
    }
    // Each number is of the turn before: the greeting, and all but the last.
    assert_eq!(bench.world.borrow().request_counts, [1, 3, 1]);
}

#[test]
fn thousands_of_requests_in_one_write_are_answered_in_bounded_batches() {
    let limits = Limits { batch_requests_max: 100, ..Limits::DEFAULT };
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let [first, greedy, last] = [(); 3].map(|()| bench.connect_with_hello());
    for peer in [first, greedy, last] {
        bench.answers(peer);
    }
    for peer in [first, greedy, last] {
        bench.send(peer, &lookups(0..if peer == greedy { 5000 } else { 1 }));
    }
    for requests in [101, 201] {
        assert!(bench.reactor.turn().unwrap());
        assert!(bench.reactor.service.requests <= requests);
    }
    for modest in [first, last] {
        bench.world.borrow_mut().peer_read(modest, usize::MAX);
        assert!(!bench.world.borrow().peers[modest].bytes_read.is_empty(), "it is starved by the greedy one");
    }
    assert_eq!(bench.answers(greedy), values(0..5000));
}

#[test]
fn requests_received_byte_by_byte_are_reassembled() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = bench.world.borrow_mut().connect();
    let sent = [hello(), lookups(2..5), insert(5, &[7; 40_000]), lookups(6..8)].concat();
    bench.world.borrow_mut().peers[peer].read_max = 1;
    bench.send(peer, &sent);
    let answers = bench.answers(peer);
    let mut expected = vec![(1, ReceivedAnswer::Ack)];
    expected.extend(values(2..5));
    expected.push((5, ReceivedAnswer::Done(40_000)));
    expected.extend(values(6..8));
    assert_eq!(answers, expected);
    assert_eq!(bench.reactor.connections.large_total, 0);
}

#[test]
fn answers_may_be_late_and_in_any_order() {
    let mut bench = ReactorBench::new(AnswerTime::After(50), Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &lookups(0..8));
    assert_eq!(bench.answers(peer), []);
    bench.world.borrow_mut().now_ms += 50;
    bench.reactor.turn().unwrap();
    assert_eq!(bench.answers(peer), values([0, 4, 2, 6, 1, 5, 3, 7].into_iter()));
}

#[test]
fn large_values_round_trip() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    bench.reactor.service.repeat = 300;
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    let value = vec![9; 16 << 20];
    bench.send(peer, &[insert(2, &value), lookup(3, &[1; 60_000]), insert(4, &value[1..])].concat());
    let answers = bench.answers(peer);
    assert_eq!(answers[0], (2, ReceivedAnswer::Done(16 << 20)));
    assert_eq!((answers.len(), answers[2].clone()), (3, (4, ReceivedAnswer::Done((16 << 20) - 1))));
    // The middle answer exceeds the maximum length of a value, and is replaced by an error.
    assert_eq!(answers[1].0, 3);
    assert!(
        matches!(answers[1].1, ReceivedAnswer::Failed(Failure::ValueTooLong { length: 18_000_000, .. })),
        "{:?}",
        answers[1].1
    );
    bench.reactor.service.repeat = 200;
    bench.send(peer, &lookup(5, &[1; 60_000]));
    assert_eq!(bench.answers(peer), [(5, ReceivedAnswer::Value(vec![1; 12_000_000]))]);
    assert_eq!((bench.reactor.connections.large_total, bench.reactor.connections.unsent_total), (0, 0));
}

#[test]
fn half_closed_connection_still_gets_answers() {
    let mut bench = ReactorBench::new(AnswerTime::After(20), Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &lookups(0..3));
    bench.world.borrow_mut().send_end(peer);
    bench.run_until_idle();
    assert!(!bench.is_closed(peer));
    bench.world.borrow_mut().now_ms += 20;
    bench.reactor.turn().unwrap();
    assert_eq!(bench.answers(peer).len(), 3);
    assert!(bench.is_closed(peer));
    assert_eq!(bench.counters().ended(CloseReason::Peer), 1);
}

#[test]
fn answers_to_closed_connections_are_dropped() {
    let mut bench = ReactorBench::new(AnswerTime::Never, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.send(peer, &lookups(0..3));
    bench.run_until_idle();
    bench.world.borrow_mut().reset(peer);
    bench.run_until_idle();
    assert!(bench.is_closed(peer));
    assert_eq!(bench.reactor.service.closed.len(), 1);
    // The next connection gets the same slot, and none of the answers.
    let next = bench.connect_with_hello();
    bench.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(bench.answers(next), [(1, ReceivedAnswer::Ack)]);
    assert_eq!(bench.counters().answers_dropped, 3);
}

#[test]
fn stop_answers_requests_in_flight() {
    let mut bench = ReactorBench::new(AnswerTime::Never, Limits::DEFAULT);
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.send(peer, &lookups(0..3));
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    bench.send(peer, &lookups(3..4));
    assert!(!bench.run_until_idle());
    assert_eq!(bench.reactor.service.requests, 3, "nothing is taken up any more");
    bench.read_all();
    assert_eq!(frames(&bench.world.borrow().peers[peer].bytes_read), values(0..3));
    assert!(bench.is_closed(peer));
    assert_eq!(bench.mailbox.leave(FakeEchoNotice::Stop), Ok(()), "the queue lives as long as the reactor");
    drop(bench.reactor);
    assert_eq!(bench.mailbox.leave(FakeEchoNotice::Stop), Err(NoticeError::Ended(FakeEchoNotice::Stop)));
}

#[test]
fn stop_is_bounded_in_time() {
    let mut bench =
        ReactorBench::new(AnswerTime::After(100), Limits { stop_time_out_ms: 30, ..Limits::DEFAULT });
    let peer = bench.connect_with_hello();
    bench.answers(peer);
    bench.world.borrow_mut().set_window(peer, 0);
    bench.send(peer, &lookups(0..3));
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    assert!(bench.run_until_idle(), "the peer has not taken its answers");
    bench.world.borrow_mut().now_ms += 30;
    assert!(!bench.reactor.turn().unwrap());
    assert_eq!(bench.counters().ended(CloseReason::Stopped), 1);
}

#[test]
fn idle_reactor_sleeps_until_woken() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    bench.reactor.turn().unwrap();
    assert_eq!(bench.reactor.time_out(), None);
    assert_eq!(bench.reactor.service.maintenances, 1);
}
