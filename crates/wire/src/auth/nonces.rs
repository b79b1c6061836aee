//! Nonces.

use hmac::Mac;

use super::mac::{MacKey, keyed};

/// Draws nonces: hashes of a counter with a random seed, so that they are unique and unpredictable.
#[derive(Clone, Debug)]
pub struct Nonces {
    seed: MacKey,
    next: u64,
}

impl Nonces {
    /// Creates a source from a seed, which must not be used for anything else.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Nonces { seed: MacKey::new(seed), next: 0 }
    }

    /// The next nonce.
    pub fn draw(&mut self) -> [u8; 32] {
        let mut mac = keyed(self.seed.bytes());
        mac.update(&self.next.to_le_bytes());
        self.next += 1;
        mac.finalize().into_bytes().into()
    }
}
