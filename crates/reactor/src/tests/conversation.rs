//! Tests with well-behaved clients.

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
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    assert_eq!(stand.answers(peer), [(1, ReceivedAnswer::Ack)]);
    stand.send(peer, &lookup(5, b"abc"));
    assert_eq!(stand.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    stand.send(peer, &encoded(6, &Message::Ping(Ping::default())));
    assert_eq!(stand.answers(peer), [(6, ReceivedAnswer::Pong)]);
    assert!(!stand.is_closed(peer));
}

#[test]
fn requests_right_behind_hello_are_served() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &[hello(), lookup(2, b"abc")].concat());
    assert_eq!(stand.answers(peer), [(1, ReceivedAnswer::Ack), (2, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn refused_hello_gets_a_reason_and_is_closed() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    for (hello, why) in [
        (Hello { cluster: ClusterId([0xbb; 16]), ..hello_message() }, Failure::Unauthorized),
        (
            Hello { version_min: 8, version_max: 9, ..hello_message() },
            Failure::UnsupportedVersion { min: 1, max: 1 },
        ),
    ] {
        let peer = stand.world.borrow_mut().connect();
        stand.send(peer, &[encoded(3, &Message::Hello(hello)), lookup(4, b"never read")].concat());
        assert_eq!(stand.answers(peer), [(3, ReceivedAnswer::Failed(why))]);
        assert!(stand.world.borrow().peers[peer].server_shut && !stand.is_closed(peer));
        stand.world.borrow_mut().send_end(peer);
        stand.run_until_idle();
        assert!(stand.is_closed(peer));
    }
    assert_eq!((stand.counters().ended(CloseReason::Misbehaved), stand.reactor.service.requests), (2, 0));
}

#[test]
fn batch_is_answered_with_one_write_per_connection() {
    let mut stand = ReactorBench::new(AnswerTime::BatchBackwards, Limits::DEFAULT);
    let peers = [stand.connect_with_hello(), stand.connect_with_hello()];
    for peer in peers {
        stand.world.borrow_mut().peers[peer].writes = 0;
        stand.answers(peer);
        stand.send(peer, &lookups(0..150));
    }
    let batches = stand.reactor.service.batches;
    for peer in peers {
        assert_eq!(stand.answers(peer), values((0..150).rev()));
        assert_eq!(stand.world.borrow().peers[peer].writes, 1);
    }
    assert_eq!(stand.reactor.service.batches, batches + 1);
}

#[test]
fn driver_receives_the_request_frame_count() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    for ids in [0..3, 3..4, 4..5] {
        stand.send(peer, &lookups(ids));
        stand.answers(peer);
    }
    // Each number is of the turn before: the greeting, and all but the last.
    assert_eq!(stand.world.borrow().request_counts, [1, 3, 1]);
}

#[test]
fn thousands_of_requests_in_one_write_are_answered_in_bounded_batches() {
    let limits = Limits { batch_requests_max: 100, ..Limits::DEFAULT };
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let [first, greedy, last] = [(); 3].map(|()| stand.connect_with_hello());
    for peer in [first, greedy, last] {
        stand.answers(peer);
    }
    for peer in [first, greedy, last] {
        stand.send(peer, &lookups(0..if peer == greedy { 5000 } else { 1 }));
    }
    for requests in [101, 201] {
        assert!(stand.reactor.turn().unwrap());
        assert!(stand.reactor.service.requests <= requests);
    }
    for modest in [first, last] {
        stand.world.borrow_mut().peer_read(modest, usize::MAX);
        assert!(!stand.world.borrow().peers[modest].bytes_read.is_empty(), "it is starved by the greedy one");
    }
    assert_eq!(stand.answers(greedy), values(0..5000));
}

#[test]
fn requests_received_byte_by_byte_are_reassembled() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = stand.world.borrow_mut().connect();
    let sent = [hello(), lookups(2..5), insert(5, &[7; 40_000]), lookups(6..8)].concat();
    stand.world.borrow_mut().peers[peer].read_max = 1;
    stand.send(peer, &sent);
    let answers = stand.answers(peer);
    let mut expected = vec![(1, ReceivedAnswer::Ack)];
    expected.extend(values(2..5));
    expected.push((5, ReceivedAnswer::Done(40_000)));
    expected.extend(values(6..8));
    assert_eq!(answers, expected);
    assert_eq!(stand.reactor.connections.large_total, 0);
}

#[test]
fn answers_may_be_late_and_in_any_order() {
    let mut stand = ReactorBench::new(AnswerTime::After(50), Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &lookups(0..8));
    assert_eq!(stand.answers(peer), []);
    stand.world.borrow_mut().now_ms += 50;
    stand.reactor.turn().unwrap();
    assert_eq!(stand.answers(peer), values([0, 4, 2, 6, 1, 5, 3, 7].into_iter()));
}

#[test]
fn large_values_round_trip() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    stand.reactor.service.repeat = 300;
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    let value = vec![9; 16 << 20];
    stand.send(peer, &[insert(2, &value), lookup(3, &[1; 60_000]), insert(4, &value[1..])].concat());
    let answers = stand.answers(peer);
    assert_eq!(answers[0], (2, ReceivedAnswer::Done(16 << 20)));
    assert_eq!((answers.len(), answers[2].clone()), (3, (4, ReceivedAnswer::Done((16 << 20) - 1))));
    // The middle answer exceeds the maximum length of a value, and is replaced by an error.
    assert_eq!(answers[1].0, 3);
    assert!(
        matches!(answers[1].1, ReceivedAnswer::Failed(Failure::ValueTooLong { length: 18_000_000, .. })),
        "{:?}",
        answers[1].1
    );
    stand.reactor.service.repeat = 200;
    stand.send(peer, &lookup(5, &[1; 60_000]));
    assert_eq!(stand.answers(peer), [(5, ReceivedAnswer::Value(vec![1; 12_000_000]))]);
    assert_eq!((stand.reactor.connections.large_total, stand.reactor.connections.unsent_total), (0, 0));
}

#[test]
fn half_closed_connection_still_gets_answers() {
    let mut stand = ReactorBench::new(AnswerTime::After(20), Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &lookups(0..3));
    stand.world.borrow_mut().send_end(peer);
    stand.run_until_idle();
    assert!(!stand.is_closed(peer));
    stand.world.borrow_mut().now_ms += 20;
    stand.reactor.turn().unwrap();
    assert_eq!(stand.answers(peer).len(), 3);
    assert!(stand.is_closed(peer));
    assert_eq!(stand.counters().ended(CloseReason::Peer), 1);
}

#[test]
fn answers_to_closed_connections_are_dropped() {
    let mut stand = ReactorBench::new(AnswerTime::Never, Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    stand.send(peer, &lookups(0..3));
    stand.run_until_idle();
    stand.world.borrow_mut().reset(peer);
    stand.run_until_idle();
    assert!(stand.is_closed(peer));
    assert_eq!(stand.reactor.service.closed.len(), 1);
    // The next connection gets the same slot, and none of the answers.
    let next = stand.connect_with_hello();
    stand.mailbox.leave(FakeEchoNotice::AnswerAll).unwrap();
    assert_eq!(stand.answers(next), [(1, ReceivedAnswer::Ack)]);
    assert_eq!(stand.counters().answers_dropped, 3);
}

#[test]
fn stop_answers_requests_in_flight() {
    let mut stand = ReactorBench::new(AnswerTime::Never, Limits::DEFAULT);
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.send(peer, &lookups(0..3));
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    stand.send(peer, &lookups(3..4));
    assert!(!stand.run_until_idle());
    assert_eq!(stand.reactor.service.requests, 3, "nothing is taken up any more");
    stand.read_all();
    assert_eq!(frames(&stand.world.borrow().peers[peer].bytes_read), values(0..3));
    assert!(stand.is_closed(peer));
    assert_eq!(stand.mailbox.leave(FakeEchoNotice::Stop), Ok(()), "the queue lives as long as the reactor");
    drop(stand.reactor);
    assert_eq!(stand.mailbox.leave(FakeEchoNotice::Stop), Err(NoticeError::Ended(FakeEchoNotice::Stop)));
}

#[test]
fn stop_is_bounded_in_time() {
    let mut stand =
        ReactorBench::new(AnswerTime::After(100), Limits { stop_time_out_ms: 30, ..Limits::DEFAULT });
    let peer = stand.connect_with_hello();
    stand.answers(peer);
    stand.world.borrow_mut().set_window(peer, 0);
    stand.send(peer, &lookups(0..3));
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    assert!(stand.run_until_idle(), "the peer has not taken its answers");
    stand.world.borrow_mut().now_ms += 30;
    assert!(!stand.reactor.turn().unwrap());
    assert_eq!(stand.counters().ended(CloseReason::Stopped), 1);
}

#[test]
fn idle_reactor_sleeps_until_woken() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    stand.reactor.turn().unwrap();
    assert_eq!(stand.reactor.time_out(), None);
    assert_eq!(stand.reactor.service.upkeeps, 1);
}
