//! The side that connects.

use hmac::Mac;

use super::mac::{MacKey, Side, Transcript, hello_bytes};
use super::{METHOD_NONE, METHOD_SECRET, METHOD_TOKEN, Nonces, Secret, Token};
use crate::error::{AuthFault, Failure};
use crate::messages::{Hello, HelloAck, Prove};

/// What a client proves itself with.
#[derive(Clone, Debug)]
pub struct Credential {
    key: MacKey,
    /// The number of the token that it is.
    token: Option<u64>,
    nonces: Nonces,
}

/// One greeting whose answer is awaited.
#[derive(Clone, Debug)]
pub struct Caller {
    key: MacKey,
    method: u8,
    hello: Vec<u8>,
}

impl Credential {
    /// The cluster's secret itself.
    #[must_use]
    pub fn of_secret(secret: &Secret, nonces: Nonces) -> Self {
        Credential { key: secret.connect_key(), token: None, nonces }
    }

    /// A token.
    #[must_use]
    pub fn of_token(token: &Token, nonces: Nonces) -> Self {
        Credential { key: token.key.clone(), token: Some(token.id), nonces }
    }

    /// Has a greeting offer a proof: sets its method and nonce. It must be sent as it is then.
    ///
    /// # Errors
    /// The greeting could not be sent either: its name is too long.
    pub fn greet(&mut self, hello: &mut Hello<'_>) -> Result<Caller, Failure<'static>> {
        (hello.proof_method, hello.nonce) = (METHOD_SECRET, self.nonces.draw());
        if let Some(id) = self.token {
            hello.proof_method = METHOD_TOKEN;
            hello.nonce[..8].copy_from_slice(&id.to_le_bytes());
        }
        Caller::of(self.key.clone(), hello)
    }
}

impl Caller {
    pub(super) fn of(key: MacKey, hello: &Hello<'_>) -> Result<Caller, Failure<'static>> {
        Ok(Caller { key, method: hello.proof_method, hello: hello_bytes(hello)? })
    }

    /// Looks at the answer to the greeting; returns the client's own proof, to be sent next.
    ///
    /// # Errors
    /// The server proves nothing, or something else: nothing must be sent to it.
    pub fn check(self, ack: &HelloAck) -> Result<Prove, Failure<'static>> {
        let failed = |fault| Err(Failure::AuthFailed { fault });
        match ack.proof.method {
            method if method == self.method => {}
            METHOD_NONE => return failed(AuthFault::NoSecretThere),
            _ => return failed(AuthFault::Method),
        }
        let transcript = Transcript::new(self.hello, ack);
        match transcript.mac(&self.key, Side::Server).verify_slice(&ack.proof.proof) {
            Ok(()) => Ok(Prove { proof: transcript.proof(&self.key, Side::Client) }),
            Err(_) => failed(AuthFault::ServerProof),
        }
    }

    /// The same where there may be no credential, and then no proof was offered.
    ///
    /// # Errors
    /// As [`Caller::check`]; or the server asks for what was not offered.
    pub fn check_if_any(caller: Option<Caller>, ack: &HelloAck) -> Result<Option<Prove>, Failure<'static>> {
        match caller {
            Some(caller) => caller.check(ack).map(Some),
            None if ack.proof.method == METHOD_NONE => Ok(None),
            None => Err(Failure::AuthFailed { fault: AuthFault::NotAsked }),
        }
    }
}
