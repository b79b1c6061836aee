//! The side that is connected to.

use hmac::Mac;

use super::mac::{HmacSha256, Key, Side, Transcript, hello_bytes};
use super::{METHOD_NONE, METHOD_SECRET, Nonces, Secret};
use crate::error::{AuthFault, Failure};
use crate::messages::{Hello, HelloAck, Proof, Prove};

/// Lets in who knows the cluster's secret.
#[derive(Clone, Debug)]
pub struct Guard {
    key: Key,
    nonces: Nonces,
}

/// What one client has been asked; about 300 bytes.
#[derive(Clone)]
pub struct Challenge {
    expected: Box<HmacSha256>,
}

impl Guard {
    /// Of a cluster with this secret.
    #[must_use]
    pub fn new(secret: &Secret, nonces: Nonces) -> Self {
        Guard { key: secret.connect_key(), nonces }
    }

    /// Whether a greeting offers what this guard asks for. To be asked before anything else is told.
    ///
    /// # Errors
    /// It does not.
    pub fn admits(hello: &Hello<'_>) -> Result<(), Failure<'static>> {
        match hello.proof_method {
            METHOD_SECRET => Ok(()),
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
        ack.proof = Proof { method: METHOD_SECRET, nonce: self.nonces.draw(), proof: [0; 32] };
        let transcript = Transcript::new(hello_bytes(hello)?, ack);
        ack.proof.proof = transcript.proof(&self.key, Side::Server);
        Ok(Challenge { expected: Box::new(transcript.mac(&self.key, Side::Client)) })
    }
}

impl Challenge {
    /// Whether this is the proof that was asked for. The comparison takes the same time wherever they differ.
    ///
    /// # Errors
    /// It is not: who sent it does not know the secret.
    pub fn accept(self, prove: &Prove) -> Result<(), Failure<'static>> {
        self.expected.verify_slice(&prove.proof).map_err(|_| Failure::AuthFailed { fault: AuthFault::Proof })
    }
}

impl std::fmt::Debug for Challenge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Challenge(not shown)")
    }
}
