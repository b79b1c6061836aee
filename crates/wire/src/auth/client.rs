//! The client's side of a handshake.

use hmac::Mac;

use super::mac::{MacKey, Side, Transcript, hello_bytes};
use super::{METHOD_NONE, METHOD_SECRET, METHOD_TOKEN, Nonces, Secret, Token};
use crate::error::{AuthFault, Failure};
use crate::messages::{Hello, HelloAck, Prove};

/// The credential with which a client authenticates itself.
#[derive(Clone, Debug)]
pub struct Credential {
    key: MacKey,
    /// The token's number, if the credential is a token.
    token: Option<u64>,
    nonces: Nonces,
}

/// One handshake, while the client waits for the server's reply to the greeting.
#[derive(Clone, Debug)]
pub struct Caller {
    key: MacKey,
    method: u8,
    hello: Vec<u8>,
}

impl Credential {
    /// The cluster's secret as the credential.
    #[must_use]
    pub fn of_secret(secret: &Secret, nonces: Nonces) -> Self {
        Credential { key: secret.connect_key(), token: None, nonces }
    }

    /// A token as the credential.
    #[must_use]
    pub fn of_token(token: &Token, nonces: Nonces) -> Self {
        Credential { key: token.key.clone(), token: Some(token.id), nonces }
    }

    /// Adds the offer of a proof to a greeting: sets its method and nonce. The greeting must be sent unchanged afterwards.
    ///
    /// # Errors
    /// The greeting cannot be encoded: its name is too long.
    pub fn add_proof_offer(&mut self, hello: &mut Hello<'_>) -> Result<Caller, Failure<'static>> {
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

    /// Checks the server's reply to the greeting; returns the client's own proof, which must be sent next.
    ///
    /// # Errors
    /// The server sends no proof or a wrong one: the client must send nothing to it.
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

    /// Same as [`Caller::check`], if there may be no credential, and then no proof was offered.
    ///
    /// # Errors
    /// As [`Caller::check`]; or the server requires a proof that was not offered.
    pub fn check_if_any(caller: Option<Caller>, ack: &HelloAck) -> Result<Option<Prove>, Failure<'static>> {
        match caller {
            Some(caller) => caller.check(ack).map(Some),
            None if ack.proof.method == METHOD_NONE => Ok(None),
            None => Err(Failure::AuthFailed { fault: AuthFault::OtherProof }),
        }
    }
}
