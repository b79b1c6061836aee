//! Connections of a cluster with a secret, from both sides.

use zerohop_wire::auth::{Access, Caller, Challenge, Credential, Guard, Nonces, Secret};
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::{AuthFault, BadRequestReason, DecodeResult, Decoder, Failure, Features, Message};

use super::*;
use crate::proofs::Proofs;

const CLUSTER: ClusterId = ClusterId([7; 16]);

fn secret(text: &str) -> Secret {
    Secret::from_text(text.repeat(8).as_bytes()).unwrap()
}

fn credential(text: &str) -> Credential {
    Credential::of_secret(&secret(text), Nonces::new([2; 32]))
}

/// A server whose secret is "ours", eight times.
fn stand_with_secret(limits: Limits) -> ReactorBench {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, limits);
    let guard = Guard::new(&secret("ours"), Nonces::new([1; 32]));
    stand.reactor.prove(Some(Proofs { guard, credential: credential("ours") }));
    stand
}

/// The first frame that a peer has received, as `hear` decodes it; later frames are dropped.
fn first_message<T>(stand: &mut ReactorBench, peer: usize, hear: impl FnOnce(Message<'_>) -> T) -> T {
    stand.run_until_idle();
    stand.read_all();
    let bytes = std::mem::take(&mut stand.world.borrow_mut().peers[peer].bytes_read);
    let DecodeResult::Frame { frame, .. } = Decoder::before_hello().decode(&bytes) else {
        panic!("{bytes:02x?}")
    };
    let mut scratch = Vec::new();
    hear(frame.message(&mut scratch).unwrap())
}

/// Sends a greeting with an offered proof, and returns the server's challenge.
fn request_challenge(
    stand: &mut ReactorBench,
    text: &str,
    hello: Hello<'static>,
) -> (usize, Result<Prove, Failure<'static>>) {
    let mut hello = hello;
    let caller = credential(text).add_proof_offer(&mut hello).unwrap();
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &encoded(1, &Message::Hello(hello)));
    let prove = first_message(stand, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack),
        other => panic!("{other:?}"),
    });
    (peer, prove)
}

fn authenticate(stand: &mut ReactorBench, hello: Hello<'static>) -> usize {
    let (peer, prove) = request_challenge(stand, "ours", hello);
    stand.send(peer, &encoded(2, &Message::Prove(prove.unwrap())));
    first_message(stand, peer, |message| assert_eq!(message, Message::Proved));
    peer
}

#[test]
fn proven_client_is_served_and_not_counted_unproven() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let peer = authenticate(&mut stand, hello_message());
    stand.send(peer, &lookup(5, b"abc"));
    assert_eq!(stand.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    assert_eq!((stand.reactor.connections.unproven.count(), stand.reactor.connections.open), (0, 1));
    // Another proof is invalid now.
    stand.send(peer, &encoded(6, &Message::Prove(Prove { proof: [0; 32] })));
    assert_eq!(stand.answers(peer), [(6, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into()))]);
    assert!(!stand.is_closed(peer));
}

#[test]
fn requests_right_behind_the_proof_are_served() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let (peer, prove) = request_challenge(&mut stand, "ours", hello_message());
    let bytes = [encoded(2, &Message::Prove(prove.unwrap())), lookup(3, b"abc")].concat();
    stand.send(peer, &bytes);
    stand.run_until_idle();
    stand.read_all();
    let taken = std::mem::take(&mut stand.world.borrow_mut().peers[peer].bytes_read);
    let proved = encoded(2, &Message::Proved).len();
    assert_eq!(frames(&taken[proved..]), [(3, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn missing_or_wrong_proof_is_refused_with_reason() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let failed = |fault| Failure::AuthFailed { fault };
    let odd = Hello { proof_method: 9, ..hello_message() };
    // The server reveals nothing about the cluster, not even that it is another one.
    let other = Hello { cluster: ClusterId([0xbb; 16]), ..hello_message() };
    for (hello, why) in [
        (hello_message(), Failure::AuthRequired),
        (other, Failure::AuthRequired),
        (odd, failed(AuthFault::Method)),
    ] {
        let peer = stand.world.borrow_mut().connect();
        stand.send(peer, &[encoded(3, &Message::Hello(hello)), lookup(4, b"never read")].concat());
        assert_eq!(stand.answers(peer), [(3, ReceivedAnswer::Failed(why))]);
    }
    let wrong = encoded(2, &Message::Prove(Prove { proof: [0; 32] }));
    for (bytes, id, why) in [
        (wrong, 2, failed(AuthFault::Proof)),
        (lookup(2, b"no proof"), 2, BadRequestReason::ProofExpected.into()),
        (encoded(2, &peer_message()), 2, BadRequestReason::ProofExpected.into()),
        (hello(), 1, BadRequestReason::ProofExpected.into()),
    ] {
        let hello = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
        let (peer, prove) = request_challenge(&mut stand, "another", hello);
        assert_eq!(prove, Err(failed(AuthFault::ServerProof)));
        stand.send(peer, &[bytes, lookup(9, b"never read")].concat());
        assert_eq!(stand.answers(peer), [(id, ReceivedAnswer::Failed(why))]);
        stand.world.borrow_mut().send_end(peer);
        stand.run_until_idle();
        assert!(stand.is_closed(peer));
    }
    assert_eq!(stand.reactor.service.requests, 0);
    assert_eq!(stand.counters().peer_messages, 0);
    stand.advance_ms(limits::LINGER_MS + 1);
    assert_eq!(stand.counters().ended(CloseReason::NotProved), 4);
    assert_eq!((stand.reactor.connections.unproven.count(), stand.reactor.connections.open), (0, 0));
}

#[test]
fn late_or_oversized_proof_closes_connection() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let (silent, _) = request_challenge(&mut stand, "ours", hello_message());
    stand.advance_ms(limits::HELLO_TIME_OUT_MS + 1);
    assert!(stand.is_closed(silent));
    let (large, _) = request_challenge(&mut stand, "ours", hello_message());
    stand.send(large, &insert(2, &[0; 2000]));
    let answers = stand.answers(large);
    assert!(
        matches!(answers[..], [(2, ReceivedAnswer::Failed(Failure::FrameTooLong { limit: 1024, .. }))]),
        "{answers:?}"
    );
    assert_eq!(stand.reactor.connections.large_total, 0);
}

#[test]
fn oldest_unproven_connection_is_evicted_first() {
    let limits = Limits { connections_max: 8, unproven_max: 4, refusals_max: 2, ..Limits::DEFAULT };
    let mut stand = stand_with_secret(limits);
    let known: Vec<usize> = (0..6).map(|_| authenticate(&mut stand, hello_message())).collect();
    // Two places are left, although the limit for unauthenticated connections is four.
    let mut silent: Vec<usize> = Vec::new();
    for _ in 0..20 {
        silent.push(stand.world.borrow_mut().connect());
        stand.run_until_idle();
        let open = silent.iter().filter(|peer| !stand.is_closed(**peer)).count();
        assert_eq!(open, silent.len().min(2));
        assert!(!stand.is_closed(silent[silent.len() - 1]), "the newcomer is served");
    }
    assert_eq!(stand.counters().ended(CloseReason::Displaced), 18);
    // A client with the secret gets a place among them, and is not displaced afterwards.
    let late = authenticate(&mut stand, hello_message());
    for _ in 0..5 {
        stand.world.borrow_mut().connect();
        stand.run_until_idle();
    }
    for peer in known.into_iter().chain([late]) {
        stand.send(peer, &lookup(5, b"abc"));
        assert_eq!(stand.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    }
    stand.advance_ms(limits::HELLO_TIME_OUT_MS + 1);
    assert_eq!((stand.reactor.connections.unproven.count(), stand.reactor.connections.open), (0, 7));
}

#[test]
fn unproven_connections_per_address_are_bounded() {
    let limits = Limits { unproven_per_address_max: 2, ..Limits::DEFAULT };
    let mut stand = stand_with_secret(limits);
    let silent: Vec<usize> = (0..5).map(|_| stand.world.borrow_mut().connect()).collect();
    stand.run_until_idle();
    let closed: Vec<bool> = silent.iter().map(|peer| stand.is_closed(*peer)).collect();
    assert_eq!(closed, [true, true, true, false, false]);
}

#[test]
fn peer_link_is_accepted_when_clients_use_all_slots() {
    let limits = Limits { connections_max: 2, refusals_max: 4, ..Limits::DEFAULT };
    let mut stand = stand_with_secret(limits);
    let known: Vec<usize> = (0..2).map(|_| authenticate(&mut stand, hello_message())).collect();
    let client = stand.world.borrow_mut().connect();
    stand.send(client, &hello());
    let answers = stand.answers(client);
    assert!(matches!(answers[..], [(1, ReceivedAnswer::Failed(Failure::Busy { .. }))]), "{answers:?}");
    let peer =
        authenticate(&mut stand, Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() });
    stand.send(peer, &encoded(0, &peer_message()));
    assert_eq!(stand.answers(peer), []);
    assert_eq!(stand.counters().peer_messages, 1);
    // A client that only claims to be an instance authenticates itself, and is then refused because there is no room.
    let mut token = Credential::of_token(&secret("ours").token(7), Nonces::new([3; 32]));
    let mut claim = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
    let caller = token.add_proof_offer(&mut claim).unwrap();
    let liar = stand.world.borrow_mut().connect();
    stand.send(liar, &encoded(1, &Message::Hello(claim)));
    let prove = first_message(&mut stand, liar, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack).unwrap(),
        other => panic!("{other:?}"),
    });
    stand.send(liar, &encoded(2, &Message::Prove(prove)));
    let answers = stand.answers(liar);
    assert!(matches!(answers[..], [(2, ReceivedAnswer::Failed(Failure::Busy { .. }))]), "{answers:?}");
    assert!(known.iter().all(|peer| !stand.is_closed(*peer)));
}

#[test]
fn peer_messages_are_accepted_only_after_proof() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let peer =
        authenticate(&mut stand, Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() });
    stand.send(peer, &encoded(0, &peer_message()));
    assert_eq!(stand.answers(peer), []);
    assert_eq!(stand.counters().peer_messages, 1);
}

#[test]
fn token_admits_client_but_not_as_instance() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let mut hello = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
    let token = secret("ours").token(7);
    let caller = Credential::of_token(&token, Nonces::new([2; 32])).add_proof_offer(&mut hello).unwrap();
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &encoded(1, &Message::Hello(hello)));
    let prove = first_message(&mut stand, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack).unwrap(),
        other => panic!("{other:?}"),
    });
    stand.send(peer, &encoded(2, &Message::Prove(prove)));
    first_message(&mut stand, peer, |message| assert_eq!(message, Message::Proved));
    stand.send(peer, &encoded(3, &peer_message()));
    assert_eq!(stand.answers(peer), [(3, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into()))]);
    assert_eq!(stand.counters().peer_messages, 0);
    let (_, connection) = stand.reactor.connections.iter().next().unwrap();
    assert_eq!(connection.access, Access::Token(7));
}

/// Has the reactor connect to an instance, and answers its greeting with this secret, or without any.
fn called(stand: &mut ReactorBench, text: Option<&str>) -> (usize, Option<Challenge>) {
    stand.mailbox.leave(FakeEchoNotice::Call(7401)).unwrap();
    stand.run_until_idle();
    let (_, peer) = *stand.world.borrow().called.last().unwrap();
    stand.world.borrow_mut().accept_call(peer);
    let mut ack = HelloAck {
        version: 1,
        instance: InstanceId(9),
        cluster: CLUSTER,
        features: Features::PEER,
        ..HelloAck::default()
    };
    let challenge = first_message(stand, peer, |message| {
        let Message::Hello(hello) = message else { panic!("{message:?}") };
        assert_eq!(hello.proof_method, 1);
        text.map(|text| Guard::new(&secret(text), Nonces::new([3; 32])).challenge(&hello, &mut ack).unwrap())
    });
    stand.send(peer, &encoded(0, &Message::HelloAck(ack)));
    (peer, challenge)
}

#[test]
fn outgoing_link_sends_nothing_before_mutual_proof() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    let (peer, challenge) = called(&mut stand, Some("ours"));
    let prove = first_message(&mut stand, peer, |message| match message {
        Message::Prove(prove) => prove,
        other => panic!("{other:?}"),
    });
    assert_eq!(challenge.unwrap().accept(&prove), Ok(Access::All));
    assert_eq!(stand.reactor.service.linked, []);
    stand.send(peer, &encoded(0, &Message::Proved));
    stand.run_until_idle();
    assert_eq!(stand.reactor.service.linked, [Some(InstanceId(9))]);
    stand.mailbox.leave(FakeEchoNotice::Send).unwrap();
    stand.run_until_idle();
    assert_eq!(stand.read_all(), encoded(0, &peer_message()).len());
}

#[test]
fn outgoing_link_sends_nothing_to_peer_with_wrong_secret() {
    let mut stand = stand_with_secret(Limits::DEFAULT);
    for text in [Some("another"), None] {
        let (peer, _) = called(&mut stand, text);
        stand.run_until_idle();
        assert_eq!(stand.read_all(), 0);
        assert!(stand.is_closed(peer));
    }
    // One peer that refuses the proof, and one that is silent.
    let (peer, _) = called(&mut stand, Some("ours"));
    let failure = Failure::AuthFailed { fault: AuthFault::Proof };
    stand.send(peer, &encoded(0, &Message::Answer(Err(failure))));
    stand.run_until_idle();
    assert!(stand.is_closed(peer));
    let (peer, _) = called(&mut stand, Some("ours"));
    stand.advance_ms(limits::CALL_TIME_OUT_MS + 1);
    assert!(stand.is_closed(peer));
    assert_eq!(stand.reactor.service.linked, [None, None, None]);
}

#[test]
fn client_without_secret_works_on_open_cluster() {
    let mut stand = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let mut offered = hello_message();
    let caller: Caller = credential("ours").add_proof_offer(&mut offered).unwrap();
    let peer = stand.world.borrow_mut().connect();
    stand.send(peer, &encoded(1, &Message::Hello(offered)));
    let checked = first_message(&mut stand, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack),
        other => panic!("{other:?}"),
    });
    assert_eq!(checked, Err(Failure::AuthFailed { fault: AuthFault::NoSecretThere }));
    let peer = stand.connect_with_hello();
    assert_eq!(stand.answers(peer), [(1, ReceivedAnswer::Ack)]);
    assert_eq!(stand.reactor.connections.unproven.count(), 0);
}
