//! The cluster's secret in this process: what proves it to others, and what asks others for a proof.

use zerohop_wire::auth::{Credential, Guard, Nonces, Secret};

use crate::entropy::random_bytes;

/// Both sides of a proof, for one thread: no two draw the same nonces.
#[derive(Clone, Debug)]
pub(crate) struct Proofs {
    /// Asks who connects.
    pub(crate) guard: Guard,
    /// Answers to whom this process connects.
    pub(crate) credential: Credential,
}

impl Proofs {
    /// Of a cluster with this secret.
    ///
    /// # Errors
    /// In words: the system gives no random bytes.
    pub(crate) fn new(secret: &Secret) -> Result<Proofs, String> {
        Ok(Proofs {
            guard: Guard::new(secret, Nonces::new(random_bytes()?)),
            credential: Credential::of_secret(secret, Nonces::new(random_bytes()?)),
        })
    }
}
