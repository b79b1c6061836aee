//! Any bytes as what comes on a connection before a proof, on either side: no connection is authenticated, and no server is believed,
//! without knowing the secret.

use zerohop_wire::auth::{Caller, Credential, Guard, Nonces, Secret, Token};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok(secret) = Secret::from_text(&[b's'; 64]) else { return };
    let mut guard = Guard::new(&secret, Nonces::new([1; 32]));
    let mut mine = Hello {
        version_min: zerohop_wire::limits::VERSION_MIN,
        version_max: zerohop_wire::limits::VERSION_MAX,
        features: Features(0),
        cluster: ClusterId::default(),
        map_epoch: Default::default(),
        proof_method: 0,
        nonce: [0; 32],
        name: "fuzz",
    };
    let Ok(caller) = Credential::of_secret(&secret, Nonces::new([2; 32])).add_proof_offer(&mut mine) else {
        return;
    };
    // As the password of another protocol.
    assert_eq!(guard.token_access(bytes), None, "the token of an unknown client was believed");
    if let Ok(token) = Token::from_text(bytes) {
        assert_eq!(token.text().as_bytes(), bytes.trim_ascii());
    }
    let mut challenge = None;
    let mut rest = bytes;
    while let DecodeResult::Frame { frame, used } = Decoder::before_hello().decode(rest) {
        match frame.message(&mut Vec::new()) {
            Ok(Message::Hello(hello)) => {
                let mut ack = HelloAck { version: 1, ..HelloAck::default() };
                challenge = guard.challenge(&hello, &mut ack).ok();
                assert_eq!(challenge.is_some(), matches!(hello.proof_method, 1 | 2));
            }
            Ok(Message::HelloAck(ack)) => {
                assert!(caller.clone().check(&ack).is_err(), "an unknown peer was believed");
                assert_eq!(Caller::check_if_any(None, &ack).is_ok(), ack.proof.method == 0);
            }
            Ok(Message::Prove(prove)) => {
                if let Some(pending) = challenge.take() {
                    assert!(pending.accept(&prove).is_err(), "an unauthenticated peer was accepted");
                }
            }
            _ => {}
        }
        rest = &rest[used..];
    }
}
