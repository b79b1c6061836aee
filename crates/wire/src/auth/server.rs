//! The server's side of a handshake.

use hmac::Mac;

use super::mac::{HmacSha256, MacKey, Side, Transcript, hello_bytes};
use super::{Access, METHOD_NONE, METHOD_SECRET, METHOD_TOKEN, Nonces, Secret, Token};
use crate::error::{AuthFault, Failure};
use crate::messages::{Hello, HelloAck, Proof, Prove};

/// Admits clients that know the cluster's secret.
#[derive(Clone, Debug)]
pub struct Guard {
    secret: Secret,
    key: MacKey,
    nonces: Nonces,
}

/// The state of the handshake with one client; about 300 bytes.
#[derive(Clone)]
pub struct Challenge {
    expected: Box<HmacSha256>,
    access: Access,
}

impl Guard {
    /// Creates the guard of a cluster with this secret.
    #[must_use]
    pub fn new(secret: &Secret, nonces: Nonces) -> Self {
        Guard { secret: secret.clone(), key: secret.connect_key(), nonces }
    }

    /// Checks that a greeting offers a proof. The server must call this before it reveals anything.
    ///
    /// # Errors
    /// The greeting offers none.
    pub fn admits(hello: &Hello<'_>) -> Result<(), Failure<'static>> {
        match hello.proof_method {
            METHOD_SECRET | METHOD_TOKEN => Ok(()),
            METHOD_NONE => Err(Failure::AuthRequired),
            _ => Err(Failure::AuthFailed { fault: AuthFault::Method }),
        }
    }

    /// Completes the reply to a greeting, whose other fields are all set: adds a nonce and the server's proof. The server keeps no state of the
    /// client before [`Challenge::accept`].
    ///
    /// # Errors
    /// As [`Guard::admits`].
    pub fn challenge(
        &mut self,
        hello: &Hello<'_>,
        ack: &mut HelloAck,
    ) -> Result<Challenge, Failure<'static>> {
        Guard::admits(hello)?;
        ack.proof = Proof { method: hello.proof_method, nonce: self.nonces.draw(), proof: [0; 32] };
        let (key, access) = match hello.proof_method {
            METHOD_TOKEN => {
                let [n0, n1, n2, n3, n4, n5, n6, n7, ..] = hello.nonce;
                let token = self.secret.token(u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]));
                (token.key, Access::Token(token.id))
            }
            _ => (self.key.clone(), Access::All),
        };
        let transcript = Transcript::new(hello_bytes(hello)?, ack);
        ack.proof.proof = transcript.proof(&key, Side::Server);
        Ok(Challenge { expected: Box::new(transcript.mac(&key, Side::Client)), access })
    }

    /// Returns the access of a token that was made with the secret, for protocols that send the token instead of a proof. The map says whether it
    /// is still valid. The comparison takes constant time.
    #[must_use]
    pub fn token_access(&self, text: &[u8]) -> Option<Access> {
        let shown = Token::from_text(text).ok()?;
        (shown == self.secret.token(shown.id)).then_some(Access::Token(shown.id))
    }
}

impl Challenge {
    /// Checks the client's proof, and returns its access. The comparison takes constant time.
    ///
    /// # Errors
    /// The proof is wrong: the sender does not know the secret.
    pub fn accept(self, prove: &Prove) -> Result<Access, Failure<'static>> {
        let access = self.access;
        self.expected
            .verify_slice(&prove.proof)
            .map(|()| access)
            .map_err(|_| Failure::AuthFailed { fault: AuthFault::Proof })
    }
}

impl std::fmt::Debug for Challenge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Challenge(not shown)")
    }
}
