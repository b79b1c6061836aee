//! Connections between instances, from both sides.

use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::{DecodeResult, Decoder, Failure, Message};

use super::*;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// The greeting of an instance of this cluster.
fn peer_hello(cluster: ClusterId, features: Features) -> Vec<u8> {
    encoded(1, &Message::Hello(Hello { cluster, features, ..hello_message() }))
}

fn connect_with_features(bench: &mut ReactorBench, cluster: ClusterId, features: Features) -> usize {
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &peer_hello(cluster, features));
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack)]);
    peer
}

/// Has the reactor connect to an instance; returns that instance's end of the connection after it has read the greeting.
fn called(bench: &mut ReactorBench) -> usize {
    bench.mailbox.leave(FakeEchoNotice::Call(7401)).unwrap();
    bench.run_until_idle();
    let (address, peer) = *bench.world.borrow().called.last().unwrap();
    assert_eq!(address.port(), 7401);
    assert_eq!(bench.read_all(), 0, "nothing is sent before the system says that it is connected");
    bench.world.borrow_mut().accept_call(peer);
    bench.run_until_idle();
    assert!(bench.read_all() > 0);
    let bytes = std::mem::take(&mut bench.world.borrow_mut().peers[peer].bytes_read);
    let DecodeResult::Frame { frame, used } = Decoder::before_hello().decode(&bytes) else {
        panic!("{bytes:?}")
    };
    let mut scratch = Vec::new();
    let Ok(Message::Hello(hello)) = frame.message(&mut scratch) else { panic!("{frame:?}") };
    assert!(used == bytes.len() && hello.features.has(Features::PEER) && hello.cluster == CLUSTER);
    peer
}

fn ack() -> Vec<u8> {
    let ack = HelloAck {
        version: zerohop_wire::limits::VERSION_MAX,
        instance: InstanceId(9),
        cluster: CLUSTER,
        ..HelloAck::default()
    };
    encoded(0, &Message::HelloAck(ack))
}

#[test]
fn peer_messages_are_accepted_from_own_cluster_only() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = connect_with_features(&mut bench, CLUSTER, Features::PEER);
    bench.send(peer, &encoded(0, &peer_message()).repeat(3));
    assert_eq!(bench.answers(peer), []);
    assert_eq!(bench.counters().peer_messages, 3);
    for (cluster, features) in [(CLUSTER, Features::LZ4), (ClusterId::default(), Features::PEER)] {
        let client = connect_with_features(&mut bench, cluster, features);
        bench.send(client, &encoded(5, &peer_message()));
        let answers = bench.answers(client);
        assert!(matches!(answers[..], [(5, ReceivedAnswer::Failed(_))]), "{answers:?}");
        assert!(!bench.is_closed(client));
    }
    assert_eq!(bench.counters().peer_messages, 3);
}

#[test]
fn outgoing_link_sends_hello_first_then_one_write_per_batch() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut bench);
    bench.send(peer, &ack());
    bench.run_until_idle();
    let writes = bench.world.borrow().peers[peer].writes;
    for _ in 0..3 {
        bench.mailbox.leave(FakeEchoNotice::Send).unwrap();
    }
    bench.run_until_idle();
    assert_eq!(bench.read_all(), 3 * encoded(0, &peer_message()).len());
    assert_eq!(bench.world.borrow().peers[peer].writes, writes + 1);
    assert_eq!(bench.reactor.service.peer_connected, [Some(InstanceId(9))]);
}

#[test]
fn peer_input_is_read_while_peer_output_blocks() {
    let limits = Limits { unsent_bytes_max: 1, ..Limits::DEFAULT };
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let peer = called(&mut bench);
    bench.send(peer, &ack());
    bench.world.borrow_mut().set_window(peer, 0);
    bench.mailbox.leave(FakeEchoNotice::Send).unwrap();
    bench.run_until_idle();
    bench.send(peer, &encoded(0, &peer_message()).repeat(2));
    bench.run_until_idle();
    assert_eq!(bench.counters().peer_messages, 2);
    assert!(!bench.is_closed(peer));
}

#[test]
fn refused_or_unanswered_connect_is_reported() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut bench);
    bench.send(peer, &encoded_as(1, 0, &Message::Answer(Err(Failure::Unauthorized))));
    bench.run_until_idle();
    assert!(bench.is_closed(peer));
    assert_eq!(bench.reactor.service.peer_connected, [None]);
    assert_eq!(bench.reactor.service.closed.len(), 1);
    let peer = called(&mut bench);
    bench.advance_ms(limits::CALL_TIME_OUT_MS + 1);
    assert!(bench.is_closed(peer));
    assert_eq!(bench.counters().ended(CloseReason::NoAnswer), 2);
    let peer = called(&mut bench);
    bench.world.borrow_mut().reset(peer);
    bench.run_until_idle();
    assert!(bench.is_closed(peer));
    bench.world.borrow_mut().connect_error = Some(std::io::ErrorKind::AddrNotAvailable);
    bench.mailbox.leave(FakeEchoNotice::Call(7402)).unwrap();
    bench.run_until_idle();
    assert_eq!(bench.reactor.service.links.len(), 3);
}

#[test]
fn failure_answer_from_peer_closes_link_without_reply() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut bench);
    bench.send(peer, &[ack(), encoded(3, &Message::Answer(Err(Failure::Unauthorized)))].concat());
    bench.run_until_idle();
    bench.read_all();
    assert!(bench.is_closed(peer));
    let received = &bench.world.borrow().peers[peer].bytes_read;
    assert!(received.is_empty(), "{received:?}");
}

#[test]
fn stop_does_not_wait_for_unread_peer_output() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut bench);
    bench.send(peer, &ack());
    bench.world.borrow_mut().set_window(peer, 0);
    bench.mailbox.leave(FakeEchoNotice::Send).unwrap();
    bench.run_until_idle();
    bench.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    assert!(!bench.run_until_idle(), "it has stopped");
}

#[test]
fn service_time_is_not_before_request_arrival() {
    for is_punctual in [false, true] {
        let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
        bench.reactor.service.is_punctual = is_punctual;
        let peer = bench.connect_with_hello();
        bench.answers(peer);
        let before_ms = bench.world.borrow().now_ms;
        // The process is paused after the turn has begun, and then reads what has arrived.
        bench.world.borrow_mut().pause_ms = 5_000;
        bench.send(peer, &lookup(2, b"k"));
        bench.run_until_idle();
        let requested_ms = bench.reactor.service.requested_ms;
        assert_eq!(requested_ms, if is_punctual { before_ms + 5_000 } else { before_ms });
    }
}
