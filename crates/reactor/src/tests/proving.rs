//! Connections of a cluster with a secret, from both sides.

use zerohop_wire::auth::{Access, Caller, Challenge, Credential, Guard, Nonces, Secret};
use zerohop_wire::ids::*;
use zerohop_wire::limits::VERSION_MAX;
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
fn bench_with_secret(limits: Limits) -> ReactorBench {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, limits);
    let guard = Guard::new(&secret("ours"), Nonces::new([1; 32]));
    bench.reactor.prove(Some(Proofs { guard, credential: credential("ours") }));
    bench
}

/// The first frame that a peer has received, as `hear` decodes it; later frames are dropped.
fn first_message<T>(bench: &mut ReactorBench, peer: usize, hear: impl FnOnce(Message<'_>) -> T) -> T {
    bench.run_until_idle();
    bench.read_all();
    let bytes = std::mem::take(&mut bench.world.borrow_mut().peers[peer].bytes_read);
    let DecodeResult::Frame { frame, .. } = Decoder::before_proof(bytes[3]).decode(&bytes) else {
        panic!("{bytes:02x?}")
    };
    let mut scratch = Vec::new();
    hear(frame.message(&mut scratch).unwrap())
}

/// Sends a greeting with an offered proof, and returns the server's challenge.
fn request_challenge(
    bench: &mut ReactorBench,
    text: &str,
    hello: Hello<'static>,
) -> (usize, Result<Prove, Failure<'static>>) {
    let mut hello = hello;
    let caller = credential(text).add_proof_offer(&mut hello).unwrap();
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &encoded(1, &Message::Hello(hello)));
    let prove = first_message(bench, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack),
        other => panic!("{other:?}"),
    });
    (peer, prove)
}

fn authenticate(bench: &mut ReactorBench, hello: Hello<'static>) -> usize {
    let (peer, prove) = request_challenge(bench, "ours", hello);
    bench.send(peer, &encoded(2, &Message::Prove(prove.unwrap())));
    first_message(bench, peer, |message| assert_eq!(message, Message::Proved));
    peer
}

#[test]
fn proven_client_is_served_and_not_counted_unproven() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let peer = authenticate(&mut bench, hello_message());
    bench.send(peer, &lookup(5, b"abc"));
    assert_eq!(bench.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    assert_eq!((bench.reactor.connections.unproven.count(), bench.reactor.connections.open), (0, 1));
    // Another proof is invalid now.
    bench.send(peer, &encoded(6, &Message::Prove(Prove { proof: [0; 32] })));
    assert_eq!(bench.answers(peer), [(6, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into()))]);
    assert!(!bench.is_closed(peer));
}

#[test]
fn requests_right_behind_the_proof_are_served() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let (peer, prove) = request_challenge(&mut bench, "ours", hello_message());
    let bytes = [encoded(2, &Message::Prove(prove.unwrap())), lookup(3, b"abc")].concat();
    bench.send(peer, &bytes);
    bench.run_until_idle();
    bench.read_all();
    let received = std::mem::take(&mut bench.world.borrow_mut().peers[peer].bytes_read);
    let proved = encoded(2, &Message::Proved).len();
    assert_eq!(frames(&received[proved..]), [(3, ReceivedAnswer::Value(b"abc".to_vec()))]);
}

#[test]
fn missing_or_wrong_proof_is_refused_with_reason() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let failed = |fault| Failure::AuthFailed { fault };
    let odd = Hello { proof_method: 9, ..hello_message() };
    // The server reveals nothing about the cluster, not even that it is another one.
    let other = Hello { cluster: ClusterId([0xbb; 16]), ..hello_message() };
    for (hello, why) in [
        (hello_message(), Failure::AuthRequired),
        (other, Failure::AuthRequired),
        (odd, failed(AuthFault::Method)),
    ] {
        let peer = bench.world.borrow_mut().connect();
        bench.send(peer, &[encoded(3, &Message::Hello(hello)), lookup(4, b"never read")].concat());
        assert_eq!(bench.answers(peer), [(3, ReceivedAnswer::Failed(why))]);
    }
    let wrong = encoded(2, &Message::Prove(Prove { proof: [0; 32] }));
    for (bytes, id, why) in [
        (wrong, 2, failed(AuthFault::Proof)),
        (lookup(2, b"no proof"), 2, BadRequestReason::ProofExpected.into()),
        (encoded(2, &peer_message()), 2, BadRequestReason::ProofExpected.into()),
        (
            encoded_as(VERSION_MAX, 1, &Message::Hello(hello_message())),
            1,
            BadRequestReason::ProofExpected.into(),
        ),
    ] {
        let hello = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
        let (peer, prove) = request_challenge(&mut bench, "another", hello);
        assert_eq!(prove, Err(failed(AuthFault::ServerProof)));
        bench.send(peer, &[bytes, lookup(9, b"never read")].concat());
        assert_eq!(bench.answers(peer), [(id, ReceivedAnswer::Failed(why))]);
        bench.world.borrow_mut().send_end(peer);
        bench.run_until_idle();
        assert!(bench.is_closed(peer));
    }
    assert_eq!(bench.reactor.service.requests, 0);
    assert_eq!(bench.counters().peer_messages, 0);
    bench.advance_ms(limits::LINGER_MS + 1);
    assert_eq!(bench.counters().ended(CloseReason::NotProved), 4);
    assert_eq!((bench.reactor.connections.unproven.count(), bench.reactor.connections.open), (0, 0));
}

#[test]
fn late_or_oversized_proof_closes_connection() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let (silent, _) = request_challenge(&mut bench, "ours", hello_message());
    bench.advance_ms(limits::HELLO_TIME_OUT_MS + 1);
    assert!(bench.is_closed(silent));
    let (large, _) = request_challenge(&mut bench, "ours", hello_message());
    bench.send(large, &insert(2, &[0; 2000]));
    let answers = bench.answers(large);
    assert!(
        matches!(answers[..], [(2, ReceivedAnswer::Failed(Failure::FrameTooLong { limit: 1024, .. }))]),
        "{answers:?}"
    );
    assert_eq!(bench.reactor.connections.large_total, 0);
}

#[test]
fn oldest_unproven_connection_is_evicted_first() {
    let limits = Limits { connections_max: 8, unproven_max: 4, refusals_max: 2, ..Limits::DEFAULT };
    let mut bench = bench_with_secret(limits);
    let known: Vec<usize> = (0..6).map(|_| authenticate(&mut bench, hello_message())).collect();
    // Two places are left, although the limit for unauthenticated connections is four.
    let mut silent: Vec<usize> = Vec::new();
    for _ in 0..20 {
        silent.push(bench.world.borrow_mut().connect());
        bench.run_until_idle();
        let open = silent.iter().filter(|peer| !bench.is_closed(**peer)).count();
        assert_eq!(open, silent.len().min(2));
        assert!(!bench.is_closed(silent[silent.len() - 1]), "the newcomer is served");
    }
    assert_eq!(bench.counters().ended(CloseReason::Displaced), 18);
    // A client with the secret gets a place among them, and is not displaced afterwards.
    let late = authenticate(&mut bench, hello_message());
    for _ in 0..5 {
        bench.world.borrow_mut().connect();
        bench.run_until_idle();
    }
    for peer in known.into_iter().chain([late]) {
        bench.send(peer, &lookup(5, b"abc"));
        assert_eq!(bench.answers(peer), [(5, ReceivedAnswer::Value(b"abc".to_vec()))]);
    }
    bench.advance_ms(limits::HELLO_TIME_OUT_MS + 1);
    assert_eq!((bench.reactor.connections.unproven.count(), bench.reactor.connections.open), (0, 7));
}

#[test]
fn unproven_connections_per_address_are_bounded() {
    let limits = Limits { unproven_per_address_max: 2, ..Limits::DEFAULT };
    let mut bench = bench_with_secret(limits);
    let silent: Vec<usize> = (0..5).map(|_| bench.world.borrow_mut().connect()).collect();
    bench.run_until_idle();
    let closed: Vec<bool> = silent.iter().map(|peer| bench.is_closed(*peer)).collect();
    assert_eq!(closed, [true, true, true, false, false]);
}

#[test]
fn peer_link_is_accepted_when_clients_use_all_slots() {
    let limits = Limits { connections_max: 2, refusals_max: 4, ..Limits::DEFAULT };
    let mut bench = bench_with_secret(limits);
    let known: Vec<usize> = (0..2).map(|_| authenticate(&mut bench, hello_message())).collect();
    let client = bench.world.borrow_mut().connect();
    bench.send(client, &hello());
    let answers = bench.answers(client);
    assert!(matches!(answers[..], [(1, ReceivedAnswer::Failed(Failure::Busy { .. }))]), "{answers:?}");
    let peer =
        authenticate(&mut bench, Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() });
    bench.send(peer, &encoded(0, &peer_message()));
    assert_eq!(bench.answers(peer), []);
    assert_eq!(bench.counters().peer_messages, 1);
    // A client that only claims to be an instance authenticates itself, and is then refused because there is no room.
    let mut token = Credential::of_token(&secret("ours").token(7), Nonces::new([3; 32]));
    let mut claim = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
    let caller = token.add_proof_offer(&mut claim).unwrap();
    let liar = bench.world.borrow_mut().connect();
    bench.send(liar, &encoded(1, &Message::Hello(claim)));
    let prove = first_message(&mut bench, liar, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack).unwrap(),
        other => panic!("{other:?}"),
    });
    bench.send(liar, &encoded(2, &Message::Prove(prove)));
    let answers = bench.answers(liar);
    assert!(matches!(answers[..], [(2, ReceivedAnswer::Failed(Failure::Busy { .. }))]), "{answers:?}");
    assert!(known.iter().all(|peer| !bench.is_closed(*peer)));
}

#[test]
fn peer_messages_are_accepted_only_after_proof() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let peer =
        authenticate(&mut bench, Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() });
    bench.send(peer, &encoded(0, &peer_message()));
    assert_eq!(bench.answers(peer), []);
    assert_eq!(bench.counters().peer_messages, 1);
}

#[test]
fn token_admits_client_but_not_as_instance() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let mut hello = Hello { cluster: CLUSTER, features: Features::PEER, ..hello_message() };
    let token = secret("ours").token(7);
    let caller = Credential::of_token(&token, Nonces::new([2; 32])).add_proof_offer(&mut hello).unwrap();
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &encoded(1, &Message::Hello(hello)));
    let prove = first_message(&mut bench, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack).unwrap(),
        other => panic!("{other:?}"),
    });
    bench.send(peer, &encoded(2, &Message::Prove(prove)));
    first_message(&mut bench, peer, |message| assert_eq!(message, Message::Proved));
    bench.send(peer, &encoded(3, &peer_message()));
    assert_eq!(bench.answers(peer), [(3, ReceivedAnswer::Failed(BadRequestReason::Unexpected.into()))]);
    assert_eq!(bench.counters().peer_messages, 0);
    let (_, connection) = bench.reactor.connections.iter().next().unwrap();
    assert_eq!(connection.access, Access::Token(7));
}

/// Has the reactor connect to an instance, and answers its greeting with this secret, or without any.
fn called(bench: &mut ReactorBench, text: Option<&str>) -> (usize, Option<Challenge>) {
    bench.mailbox.leave(FakeEchoNotice::Call(7401)).unwrap();
    bench.run_until_idle();
    let (_, peer) = *bench.world.borrow().called.last().unwrap();
    bench.world.borrow_mut().accept_call(peer);
    let mut ack = HelloAck {
        version: zerohop_wire::limits::VERSION_MAX,
        instance: InstanceId(9),
        cluster: CLUSTER,
        features: Features::PEER,
        ..HelloAck::default()
    };
    let challenge = first_message(bench, peer, |message| {
        let Message::Hello(hello) = message else { panic!("{message:?}") };
        assert_eq!(hello.proof_method, 1);
        text.map(|text| Guard::new(&secret(text), Nonces::new([3; 32])).challenge(&hello, &mut ack).unwrap())
    });
    bench.send(peer, &encoded(0, &Message::HelloAck(ack)));
    (peer, challenge)
}

#[test]
fn outgoing_link_sends_nothing_before_mutual_proof() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    let (peer, challenge) = called(&mut bench, Some("ours"));
    let prove = first_message(&mut bench, peer, |message| match message {
        Message::Prove(prove) => prove,
        other => panic!("{other:?}"),
    });
    assert_eq!(challenge.unwrap().accept(&prove), Ok(Access::All));
    assert_eq!(bench.reactor.service.peer_connected, []);
    bench.send(peer, &encoded(0, &Message::Proved));
    bench.run_until_idle();
    assert_eq!(bench.reactor.service.peer_connected, [Some(InstanceId(9))]);
    bench.mailbox.leave(FakeEchoNotice::Send).unwrap();
    bench.run_until_idle();
    assert_eq!(bench.read_all(), encoded(0, &peer_message()).len());
}

#[test]
fn outgoing_link_sends_nothing_to_peer_with_wrong_secret() {
    let mut bench = bench_with_secret(Limits::DEFAULT);
    for text in [Some("another"), None] {
        let (peer, _) = called(&mut bench, text);
        bench.run_until_idle();
        assert_eq!(bench.read_all(), 0);
        assert!(bench.is_closed(peer));
    }
    // One peer that refuses the proof, and one that is silent.
    let (peer, _) = called(&mut bench, Some("ours"));
    let failure = Failure::AuthFailed { fault: AuthFault::Proof };
    bench.send(peer, &encoded(0, &Message::Answer(Err(failure))));
    bench.run_until_idle();
    assert!(bench.is_closed(peer));
    let (peer, _) = called(&mut bench, Some("ours"));
    bench.advance_ms(limits::CALL_TIME_OUT_MS + 1);
    assert!(bench.is_closed(peer));
    assert_eq!(bench.reactor.service.peer_connected, [None, None, None]);
}

#[test]
fn client_without_secret_works_on_open_cluster() {
    let mut bench = ReactorBench::new(AnswerTime::AtOnce, Limits::DEFAULT);
    let mut offered = hello_message();
    let caller: Caller = credential("ours").add_proof_offer(&mut offered).unwrap();
    let peer = bench.world.borrow_mut().connect();
    bench.send(peer, &encoded(1, &Message::Hello(offered)));
    let checked = first_message(&mut bench, peer, |message| match message {
        Message::HelloAck(ack) => caller.check(&ack),
        other => panic!("{other:?}"),
    });
    assert_eq!(checked, Err(Failure::AuthFailed { fault: AuthFault::NoSecretThere }));
    let peer = bench.connect_with_hello();
    assert_eq!(bench.answers(peer), [(1, ReceivedAnswer::Ack)]);
    assert_eq!(bench.reactor.connections.unproven.count(), 0);
}
