//! The cluster's secret in this process: its use as a client and as a server.

use zerohop_system::entropy::random_bytes;
use zerohop_wire::auth::{Credential, Guard, Nonces, Secret};

/// Both sides of a proof, for one thread: no two threads draw the same nonces.
#[derive(Clone, Debug)]
pub struct Proofs {
    /// Verifies clients.
    pub guard: Guard,
    /// Authenticates this process to servers.
    pub credential: Credential,
}

impl Proofs {
    /// The proofs of a cluster with this secret.
    ///
    /// # Errors
    /// In words: the system provides no random bytes.
    pub fn new(secret: &Secret) -> Result<Proofs, String> {
        Ok(Proofs {
            guard: Guard::new(secret, Nonces::new(random_bytes()?)),
            credential: Credential::of_secret(secret, Nonces::new(random_bytes()?)),
        })
    }
}
