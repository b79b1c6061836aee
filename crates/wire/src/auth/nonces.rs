//! Numbers used once.

use hmac::Mac;

use super::mac::{MacKey, keyed};

/// Draws nonces: hashes of a count under a random seed, so that none comes twice and nobody foresees one.
#[derive(Clone, Debug)]
pub struct Nonces {
    seed: MacKey,
    next: u64,
}

impl Nonces {
    /// From a seed that nothing else uses.
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
