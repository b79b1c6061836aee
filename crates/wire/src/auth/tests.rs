//! Tests of both sides against each other, and against an attacker in between.

use super::*;
use crate::error::{AuthFault, Failure};
use crate::ids::{Incarnation, InstanceId, MapEpoch, Timestamp};
use crate::messages::{ClusterId, Hello, HelloAck, Proof, Prove};
use crate::version::Features;

const TEXT: &[u8] = b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

fn secret() -> Secret {
    Secret::from_text(TEXT).unwrap()
}

fn other_secret() -> Secret {
    Secret::from_text(b"another secret that is long enough to be accepted").unwrap()
}

fn hello() -> Hello<'static> {
    Hello {
        version_min: 1,
        version_max: 3,
        features: Features::LZ4,
        cluster: ClusterId(*b"cluster of tests"),
        map_epoch: MapEpoch(9),
        proof_method: 0,
        nonce: [0; 32],
        name: "zerohop cli",
    }
}

fn ack() -> HelloAck {
    HelloAck {
        version: 1,
        instance: InstanceId(6),
        features: Features::LZ4,
        cluster: ClusterId(*b"cluster of tests"),
        incarnation: Incarnation(0xfeed_beef),
        map_epoch: MapEpoch(11),
        now: Timestamp(0x0001_9f3c_7a2b_0002),
        proof: Proof::default(),
    }
}

fn credential(secret: &Secret) -> Credential {
    Credential::of_secret(secret, Nonces::new([7; 32]))
}

fn guard(secret: &Secret) -> Guard {
    Guard::new(secret, Nonces::new([8; 32]))
}

fn failed<T>(fault: AuthFault) -> Result<T, Failure<'static>> {
    Err(Failure::AuthFailed { fault })
}

#[test]
fn client_with_secret_is_admitted_and_trusts_the_server() {
    let (mut hello, mut ack) = (hello(), ack());
    let caller = credential(&secret()).add_proof_offer(&mut hello).unwrap();
    let challenge = guard(&secret()).challenge(&hello, &mut ack).unwrap();
    let prove = caller.check(&ack).unwrap();
    assert_eq!(challenge.accept(&prove), Ok(Access::All));
}

#[test]
fn neither_side_believes_another_secret() {
    let (mut hello, mut ack) = (hello(), ack());
    let caller = credential(&other_secret()).add_proof_offer(&mut hello).unwrap();
    let challenge = guard(&secret()).challenge(&hello, &mut ack).unwrap();
    assert_eq!(caller.clone().check(&ack), failed(AuthFault::ServerProof));
    // A client that ignores this gets no further.
    assert_eq!(challenge.accept(&Prove { proof: ack.proof.proof }), failed(AuthFault::Proof));
}

#[test]
fn missing_or_unknown_proof_is_refused_first() {
    assert_eq!(Guard::admits(&hello()), Err(Failure::AuthRequired));
    let odd = Hello { proof_method: 99, ..hello() };
    assert_eq!(guard(&secret()).challenge(&odd, &mut ack()).map(drop), failed(AuthFault::Method));
}

#[test]
fn server_without_proof_is_refused() {
    let caller = credential(&secret()).add_proof_offer(&mut hello()).unwrap();
    assert_eq!(caller.clone().check(&ack()), failed(AuthFault::NoSecretThere));
    let odd = HelloAck { proof: Proof { method: 99, ..Proof::default() }, ..ack() };
    assert_eq!(caller.check(&odd), failed(AuthFault::Method));
    assert_eq!(Caller::check_if_any(None, &odd), failed(AuthFault::OtherProof));
    assert_eq!(Caller::check_if_any(None, &ack()), Ok(None));
}

#[test]
fn any_change_of_handshake_is_detected() {
    let changes: [fn(&mut Hello<'static>, &mut HelloAck); 10] = [
        |hello, _| hello.version_max = 1,
        |hello, _| hello.features = Features(3),
        |hello, _| hello.cluster = ClusterId::default(),
        |hello, _| hello.nonce[31] ^= 1,
        |hello, _| hello.name = "zerohop",
        |_, ack| ack.cluster.0[0] ^= 1,
        |_, ack| ack.instance = InstanceId(7),
        |_, ack| ack.features = Features(0),
        |_, ack| ack.proof.nonce[0] ^= 1,
        |_, ack| ack.proof.proof[31] ^= 128,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        // The client's message arrives changed, or the server's reply does.
        let mut sent = hello();
        let caller = credential(&secret()).add_proof_offer(&mut sent).unwrap();
        let (mut received, mut discarded) = (sent, ack());
        change(&mut received, &mut discarded);
        let mut answer = ack();
        guard(&secret()).challenge(&received, &mut answer).unwrap();
        change(&mut { sent }, &mut answer);
        assert_eq!(caller.check(&answer), failed(AuthFault::ServerProof), "change {number}");
    }
}

#[test]
fn proof_is_valid_once_and_only_for_its_side() {
    let mut sent = hello();
    let mut credential = credential(&secret());
    let caller = credential.add_proof_offer(&mut sent).unwrap();
    let mut guard = guard(&secret());
    let mut answer = ack();
    let challenge = guard.challenge(&sent, &mut answer).unwrap();
    let prove = caller.check(&answer).unwrap();
    assert_eq!(challenge.clone().accept(&Prove { proof: answer.proof.proof }), failed(AuthFault::Proof));
    assert_eq!(challenge.accept(&prove), Ok(Access::All));
    // An attacker repeats a recorded greeting and its proof.
    let mut again = ack();
    let challenge = guard.challenge(&sent, &mut again).unwrap();
    assert_ne!(again.proof.nonce, answer.proof.nonce);
    assert_eq!(challenge.accept(&prove), failed(AuthFault::Proof));
    // An attacker repeats the server's reply to another greeting.
    let caller = credential.add_proof_offer(&mut { sent }).unwrap();
    assert_eq!(caller.check(&answer), failed(AuthFault::ServerProof));
}

#[test]
fn proofs_are_those_of_the_specification() {
    let (mut hello, mut ack) = (hello(), ack());
    (hello.proof_method, hello.nonce) = (METHOD_SECRET, [0x11; 32]);
    let caller = Caller::of(secret().connect_key(), &hello).unwrap();
    ack.proof = Proof { method: METHOD_SECRET, nonce: [0x22; 32], proof: [0; 32] };
    let transcript = super::mac::Transcript::new(super::mac::hello_bytes(&hello).unwrap(), &ack);
    ack.proof.proof = transcript.proof(&secret().connect_key(), super::mac::Side::Server);
    let prove = caller.check(&ack).unwrap();
    let shown = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let golden = include_str!("../../tests/proofs.txt");
    let row = |name: &str, value: String| {
        assert!(golden.contains(&format!("{name} {value}\n")), "{name} {value}");
    };
    row("connect-key", shown(secret().connect_key().bytes()));
    row("bearer", secret().bearer());
    row("token-of-1", secret().token(1).text());
    row("s3-secret-of-1", secret().token(1).s3_secret());
    row("server-proof", shown(&ack.proof.proof));
    row("client-proof", shown(&prove.proof));
}

#[test]
fn secrets_are_long_enough_and_shown_nowhere() {
    let text = Secret::new_text([0xab; 32]);
    assert_eq!(text.len(), 65);
    assert_eq!(Secret::from_text(text.as_bytes()), Secret::from_text(format!("  {text}\n\n").as_bytes()));
    assert_ne!(secret(), other_secret());
    assert_eq!(Secret::from_text(b" short \n"), Err(SecretError::TooShort { length: 5 }));
    assert_eq!(Secret::from_text(&[b'x'; 5000]), Err(SecretError::TooLong { length: 5000 }));
    let (credential, guard) = (credential(&secret()), guard(&secret()));
    let challenge = guard.clone().challenge(&Hello { proof_method: 1, ..hello() }, &mut ack()).unwrap();
    let shown = format!("{:?} {credential:?} {guard:?} {challenge:?}", secret());
    let bearer = secret().bearer();
    assert!(!shown.contains("00010203") && !shown.contains(&bearer) && !shown.contains(", 1"), "{shown}");
    assert!(secret().is_bearer(bearer.as_bytes()));
    assert!(!secret().is_bearer(b"") && !secret().is_bearer(other_secret().bearer().as_bytes()));
}

#[test]
fn token_grants_its_access_and_is_identified_by_number() {
    let token = secret().token(0x0123_4567_89ab_cdef);
    assert_eq!(Token::from_text(format!(" {}\n", token.text()).as_bytes()), Ok(token.clone()));
    assert!(token.text().len() == TOKEN_TEXT_BYTES && token.text().starts_with("zht1-0123456789abcdef"));
    let shown = format!("{token:?}");
    assert!(!shown.contains(&token.text()[21..]), "{shown}");
    for wrong in [&token.text()[1..], &token.text()[..84], "zht1-", "", &token.text().to_uppercase()] {
        assert_eq!(Token::from_text(wrong.as_bytes()), Err(InvalidToken), "{wrong}");
    }
    assert!(!token.text().contains(&token.s3_secret()[..8]));
    assert_ne!(token.s3_secret(), secret().token(7).s3_secret());
    assert_ne!(token.s3_secret(), other_secret().token(token.id()).s3_secret());
    let guard_of = |text: &Secret| guard(text);
    assert_eq!(guard_of(&secret()).token_access(token.text().as_bytes()), Some(Access::Token(token.id())));
    assert_eq!(guard_of(&other_secret()).token_access(token.text().as_bytes()), None);
    for (of, id, expected) in [
        (secret(), token.id(), Ok(Access::Token(token.id()))),
        (other_secret(), token.id(), failed(AuthFault::ServerProof)),
        // A client with one token cannot prove another.
        (secret(), 7, failed(AuthFault::ServerProof)),
    ] {
        let (mut hello, mut ack) = (hello(), ack());
        let mut one = Credential::of_token(&token, Nonces::new([7; 32]));
        let mut caller = one.add_proof_offer(&mut hello).unwrap();
        if id != token.id() {
            hello.nonce[..8].copy_from_slice(&id.to_le_bytes());
            caller = one.add_proof_offer(&mut { hello }).unwrap();
        }
        let challenge = guard(&of).challenge(&hello, &mut ack).unwrap();
        assert_eq!(caller.check(&ack).and_then(|prove| challenge.accept(&prove)), expected);
    }
}

#[test]
fn nonces_are_unique() {
    let mut nonces = Nonces::new([1; 32]);
    let drawn: std::collections::BTreeSet<[u8; 32]> = (0..100).map(|_| nonces.draw()).collect();
    assert_eq!(drawn.len(), 100);
    assert!(!drawn.contains(&Nonces::new([2; 32]).draw()));
}
