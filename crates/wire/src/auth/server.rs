//! The side that is connected to.

use hmac::Mac;

use super::mac::{HmacSha256, MacKey, Side, Transcript, hello_bytes};
use super::{Access, METHOD_NONE, METHOD_SECRET, METHOD_TOKEN, Nonces, Secret, Token};
use crate::error::{AuthFault, Failure};
use crate::messages::{Hello, HelloAck, Proof, Prove};

/// Lets in who knows the cluster's secret.
#[derive(Clone, Debug)]
pub struct Guard {
    secret: Secret,
    key: MacKey,
    nonces: Nonces,
}

/// What one client has been asked; about 300 bytes.
#[derive(Clone)]
pub struct Challenge {
    expected: Box<HmacSha256>,
    access: Access,
}

impl Guard {
    /// Of a cluster with this secret.
    #[must_use]
    pub fn new(secret: &Secret, nonces: Nonces) -> Self {
        Guard { secret: secret.clone(), key: secret.connect_key(), nonces }
    }

    /// Whether a greeting offers what this guard asks for. To be asked before anything else is told.
    ///
    /// # Errors
    /// It does not.
    pub fn admits(hello: &Hello<'_>) -> Result<(), Failure<'static>> {
        match hello.proof_method {
            METHOD_SECRET | METHOD_TOKEN => Ok(()),
            METHOD_NONE => Err(Failure::AuthRequired),
            _ => Err(Failure::AuthFailed { fault: AuthFault::Method }),
        }
    }

    /// Completes the answer to a greeting, of which everything else is set: adds a nonce and the server's proof. Nothing
    /// of the client is taken up before [`Challenge::accept`].
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

    /// The token that this text is, if it was made with the secret: for protocols that show it instead of proving it. Whether
    /// it is still good, the map says. The comparison takes the same time wherever they differ.
    #[must_use]
    pub fn token_shown(&self, text: &[u8]) -> Option<Access> {
        let shown = Token::from_text(text).ok()?;
        (shown == self.secret.token(shown.id)).then_some(Access::Token(shown.id))
    }
}

impl Challenge {
    /// Whether this is the proof that was asked for, and what it opens. The comparison takes the same time wherever they differ.
    ///
    /// # Errors
    /// It is not: who sent it does not know the secret.
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
