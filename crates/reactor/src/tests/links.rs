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

fn connect_with_features(stand: &mut ReactorBench, cluster: ClusterId, features: Features) -> usize {
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &peer_hello(cluster, features));
    assert_eq!(stand.answers(peer), [(1, ReceivedAnswer::Ack)]);
    peer
}

/// Has the reactor connect to an instance; returns that instance's end of the connection after it has read the greeting.
fn called(stand: &mut ReactorBench) -> usize {
    stand.mailbox.leave(FakeEchoNotice::Call(7401)).unwrap();
    stand.run_until_idle();
    let (address, peer) = *stand.world.borrow().called.last().unwrap();
    assert_eq!(address.port(), 7401);
    assert_eq!(stand.read_all(), 0, "nothing is sent before the system says that it is connected");
    stand.world.borrow_mut().accept_call(peer);
    stand.run_until_idle();
    assert!(stand.read_all() > 0);
    let bytes = std::mem::take(&mut stand.world.borrow_mut().peers[peer].bytes_read);
    let DecodeResult::Frame { frame, used } = Decoder::before_hello().decode(&bytes) else {
        panic!("{bytes:?}")
    };
    let mut scratch = Vec::new();
    let Ok(Message::Hello(hello)) = frame.message(&mut scratch) else { panic!("{frame:?}") };
    assert!(used == bytes.len() && hello.features.has(Features::PEER) && hello.cluster == CLUSTER);
    peer
}

fn ack() -> Vec<u8> {
    let ack = HelloAck { version: 1, instance: InstanceId(9), cluster: CLUSTER, ..HelloAck::default() };
    encoded(0, &Message::HelloAck(ack))
}

#[test]
fn peer_messages_are_accepted_from_own_cluster_only() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = connect_with_features(&mut stand, CLUSTER, Features::PEER);
    stand.send(peer, &encoded(0, &peer_message()).repeat(3));
    assert_eq!(stand.answers(peer), []);
    assert_eq!(stand.counters().peer_messages, 3);
    for (cluster, features) in [(CLUSTER, Features::LZ4), (ClusterId::default(), Features::PEER)] {
        let client = connect_with_features(&mut stand, cluster, features);
        stand.send(client, &encoded(5, &peer_message()));
        let answers = stand.answers(client);
        assert!(matches!(answers[..], [(5, ReceivedAnswer::Failed(_))]), "{answers:?}");
        assert!(!stand.is_closed(client));
    }
    assert_eq!(stand.counters().peer_messages, 3);
}

#[test]
fn outgoing_link_sends_hello_first_then_one_write_per_batch() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.run_until_idle();
    let writes = stand.world.borrow().peers[peer].writes;
    for _ in 0..3 {
        stand.mailbox.leave(FakeEchoNotice::Send).unwrap();
    }
    stand.run_until_idle();
    assert_eq!(stand.read_all(), 3 * encoded(0, &peer_message()).len());
    assert_eq!(stand.world.borrow().peers[peer].writes, writes + 1);
    assert_eq!(stand.reactor.service.linked, [Some(InstanceId(9))]);
}

#[test]
fn peer_input_is_read_while_peer_output_blocks() {
    let limits = Limits { unsent_bytes_max: 1, ..Limits::DEFAULT };
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.world.borrow_mut().set_window(peer, 0);
    stand.mailbox.leave(FakeEchoNotice::Send).unwrap();
    stand.run_until_idle();
    stand.send(peer, &encoded(0, &peer_message()).repeat(2));
    stand.run_until_idle();
    assert_eq!(stand.counters().peer_messages, 2);
    assert!(!stand.is_closed(peer));
}

#[test]
fn refused_or_unanswered_connect_is_reported() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &encoded(0, &Message::Answer(Err(Failure::Unauthorized))));
    stand.run_until_idle();
    assert!(stand.is_closed(peer));
    assert_eq!(stand.reactor.service.linked, [None]);
    assert_eq!(stand.reactor.service.closed.len(), 1);
    let peer = called(&mut stand);
    stand.advance_ms(limits::CALL_TIME_OUT_MS + 1);
    assert!(stand.is_closed(peer));
    assert_eq!(stand.counters().ended(CloseReason::NoAnswer), 2);
    let peer = called(&mut stand);
    stand.world.borrow_mut().reset(peer);
    stand.run_until_idle();
    assert!(stand.is_closed(peer));
    stand.world.borrow_mut().connect_error = Some(std::io::ErrorKind::AddrNotAvailable);
    stand.mailbox.leave(FakeEchoNotice::Call(7402)).unwrap();
    stand.run_until_idle();
    assert_eq!(stand.reactor.service.links.len(), 3);
}

#[test]
fn failure_answer_from_peer_closes_link_without_reply() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &[ack(), encoded(3, &Message::Answer(Err(Failure::Unauthorized)))].concat());
    stand.run_until_idle();
    stand.read_all();
    assert!(stand.is_closed(peer));
    let taken = &stand.world.borrow().peers[peer].bytes_read;
    assert!(taken.is_empty(), "{taken:?}");
}

#[test]
fn stop_does_not_wait_for_unread_peer_output() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.world.borrow_mut().set_window(peer, 0);
    stand.mailbox.leave(FakeEchoNotice::Send).unwrap();
    stand.run_until_idle();
    stand.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    assert!(!stand.run_until_idle(), "it has stopped");
}

#[test]
fn service_time_is_not_before_request_arrival() {
    for is_punctual in [false, true] {
        let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
        stand.reactor.service.is_punctual = is_punctual;
        let peer = stand.connect_with_hello();
        stand.answers(peer);
        let before_ms = stand.world.borrow().now_ms;
        // The process is paused after the turn has begun, and then reads what has arrived.
        stand.world.borrow_mut().pause_ms = 5_000;
        stand.send(peer, &lookup(2, b"k"));
        stand.run_until_idle();
        let told_ms = stand.reactor.service.requested_ms;
        assert_eq!(told_ms, if is_punctual { before_ms + 5_000 } else { before_ms });
    }
}
