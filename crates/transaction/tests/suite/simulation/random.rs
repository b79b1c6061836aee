//! Random numbers from a seed.

use zerohop_base::random::SplitMix64;

#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed ^ 0x5eed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with this probability, per mille.
    pub fn chance(&mut self, parts: u64) -> bool {
        parts > 0 && self.below(1000) < parts
    }
}
