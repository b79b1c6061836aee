//! Random numbers of the simulation.

use zerohop_base::random::SplitMix64;

/// One stream of a run.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    stream: SplitMix64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { seed, stream: SplitMix64::new(seed) }
    }

    pub(crate) fn fork(&self, stream: u64) -> Random {
        Random::new(SplitMix64::new(self.seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93)).next_u64())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound.max(1))) >> 64) as u64
    }

    /// True with this probability, per mille.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }
}
