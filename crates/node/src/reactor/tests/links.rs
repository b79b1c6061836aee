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

fn greeted_as(stand: &mut ReactorStand, cluster: ClusterId, features: Features) -> usize {
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &peer_hello(cluster, features));
    assert_eq!(stand.answers(peer), [(1, StandAnswer::Ack)]);
    peer
}

/// Has the reactor connect to an instance; returns that instance's end of the connection after it has read the greeting.
fn called(stand: &mut ReactorStand) -> usize {
    stand.mailbox.leave(FakeEchoNotice::Call(7401)).unwrap();
    stand.settle();
    let (address, peer) = *stand.world.borrow().called.last().unwrap();
    assert_eq!(address.port(), 7401);
    assert_eq!(stand.take_all(), 0, "nothing is sent before the system says that it is connected");
    stand.world.borrow_mut().take_call(peer);
    stand.settle();
    assert!(stand.take_all() > 0);
    let bytes = std::mem::take(&mut stand.world.borrow_mut().peers[peer].taken);
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
fn what_instances_say_is_taken_from_instances_of_this_cluster_only_and_not_answered() {
    let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
    let peer = greeted_as(&mut stand, CLUSTER, Features::PEER);
    stand.send(peer, &encoded(0, &peer_message()).repeat(3));
    assert_eq!(stand.answers(peer), []);
    assert_eq!(stand.counters().peer_messages, 3);
    for (cluster, features) in [(CLUSTER, Features::LZ4), (ClusterId::default(), Features::PEER)] {
        let client = greeted_as(&mut stand, cluster, features);
        stand.send(client, &encoded(5, &peer_message()));
        let answers = stand.answers(client);
        assert!(matches!(answers[..], [(5, StandAnswer::Failed(_))]), "{answers:?}");
        assert!(!stand.is_closed(client));
    }
    assert_eq!(stand.counters().peer_messages, 3);
}

#[test]
fn an_instance_that_is_called_is_greeted_first_and_then_told_with_one_write_a_batch() {
    let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.settle();
    let writes = stand.world.borrow().peers[peer].writes;
    for _ in 0..3 {
        stand.mailbox.leave(FakeEchoNotice::Say).unwrap();
    }
    stand.settle();
    assert_eq!(stand.take_all(), 3 * encoded(0, &peer_message()).len());
    assert_eq!(stand.world.borrow().peers[peer].writes, writes + 1);
    assert_eq!(stand.reactor.service.linked, [Some(InstanceId(9))]);
}

#[test]
fn what_an_instance_that_was_called_says_is_taken_also_while_it_takes_nothing_itself() {
    let limits = Limits { unsent_bytes_max: 1, ..Limits::DEFAULT };
    let mut stand = ReactorStand::new(When::AtOnce, limits);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.world.borrow_mut().set_window(peer, 0);
    stand.mailbox.leave(FakeEchoNotice::Say).unwrap();
    stand.settle();
    stand.send(peer, &encoded(0, &peer_message()).repeat(2));
    stand.settle();
    assert_eq!(stand.counters().peer_messages, 2);
    assert!(!stand.is_closed(peer));
}

#[test]
fn a_call_that_is_refused_or_not_answered_ends_and_says_so() {
    let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &encoded(0, &Message::Answer(Err(Failure::Unauthorized))));
    stand.settle();
    assert!(stand.is_closed(peer));
    assert_eq!(stand.reactor.service.linked, [None]);
    assert_eq!(stand.reactor.service.closed.len(), 1);
    let peer = called(&mut stand);
    stand.pass(limits::CALL_TIME_OUT_MS + 1);
    assert!(stand.is_closed(peer));
    assert_eq!(stand.counters().ended(CloseReason::NoAnswer), 2);
    let peer = called(&mut stand);
    stand.world.borrow_mut().reset(peer);
    stand.settle();
    assert!(stand.is_closed(peer));
    stand.world.borrow_mut().connect_error = Some(std::io::ErrorKind::AddrNotAvailable);
    stand.mailbox.leave(FakeEchoNotice::Call(7402)).unwrap();
    stand.settle();
    assert_eq!(stand.reactor.service.links.len(), 3);
}

#[test]
fn a_complaint_ends_the_connection_so_that_none_is_answered_by_another() {
    let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &[ack(), encoded(3, &Message::Answer(Err(Failure::Unauthorized)))].concat());
    stand.settle();
    stand.take_all();
    assert!(stand.is_closed(peer));
    let taken = &stand.world.borrow().peers[peer].taken;
    assert!(taken.is_empty(), "{taken:?}");
}

#[test]
fn a_stop_does_not_wait_for_what_other_instances_have_not_taken() {
    let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
    let peer = called(&mut stand);
    stand.send(peer, &ack());
    stand.world.borrow_mut().set_window(peer, 0);
    stand.mailbox.leave(FakeEchoNotice::Say).unwrap();
    stand.settle();
    stand.mailbox.leave(FakeEchoNotice::Stop).unwrap();
    assert!(!stand.settle(), "it has stopped");
}

#[test]
fn a_service_with_leases_is_told_no_earlier_time_than_when_a_request_came() {
    for is_punctual in [false, true] {
        let mut stand = ReactorStand::new(When::AtOnce, Limits::DEFAULT);
        stand.reactor.service.is_punctual = is_punctual;
        let peer = stand.greeted();
        stand.answers(peer);
        let before_ms = stand.world.borrow().now_ms;
        // The process is paused after the turn has begun, and then reads what has arrived.
        stand.world.borrow_mut().pause_ms = 5_000;
        stand.send(peer, &lookup(2, b"k"));
        stand.settle();
        let told_ms = stand.reactor.service.told_ms;
        assert_eq!(told_ms, if is_punctual { before_ms + 5_000 } else { before_ms });
    }
}
