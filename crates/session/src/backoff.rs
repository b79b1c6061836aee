//! Exponential back-off with jitter, and the random numbers for the jitter.

use zerohop_base::random::SplitMix64;

/// Deterministic numbers for jitter. Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    stream: SplitMix64,
}

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self { stream: SplitMix64::new(seed) }
    }

    /// A time between half of `us` and all of it, so that clients that failed together do not return together.
    pub(crate) fn spread(&mut self, us: u64) -> u64 {
        let half = us / 2;
        half + self.stream.next_u64() % (us - half + 1)
    }

    /// The pause after `failures` failures in a row: `least`, doubled by each failure after the first, at most `most`.
    pub(crate) fn pause_us(&mut self, failures: u32, least: u64, most: u64) -> u64 {
        let doublings = failures.saturating_sub(1).min(32);
        self.spread(least.saturating_mul(1 << doublings).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_with_jitter() {
        let mut jitter = Jitter::new(1);
        for (failures, whole) in [(1, 1000), (2, 2000), (4, 8000), (20, 50_000), (u32::MAX, 50_000)] {
            let pauses: Vec<u64> = (0..100).map(|_| jitter.pause_us(failures, 1000, 50_000)).collect();
            assert!(pauses.iter().all(|pause| (whole / 2..=whole).contains(pause)), "{failures}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        }
    }

    #[test]
    fn same_seed_gives_same_jitter() {
        let (mut one, mut same) = (Jitter::new(7), Jitter::new(7));
        assert!((0..100).all(|_| one.spread(1 << 40) == same.spread(1 << 40)));
    }
}
