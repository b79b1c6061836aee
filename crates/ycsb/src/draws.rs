//! Random numbers, each derived from the number of an operation, and Zipf's law.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The skew of YCSB.
const EXPONENT: f64 = 0.99;

/// The draws of one operation.
pub(crate) struct Draws {
    seed: u64,
    operation: u64,
    drawn: u64,
}

/// Numbers below a count by Zipf's law, the smallest most often, in constant time: Gray and others, Quickly Generating Billion-Record
/// Synthetic Databases, SIGMOD 1994.
#[derive(Debug)]
pub(crate) struct Zipf {
    count: f64,
    sum: f64,
    alpha: f64,
    eta: f64,
}

impl Draws {
    /// Those of this operation.
    pub(crate) fn new(seed: u64, operation: u64) -> Self {
        Self { seed, operation, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.drawn += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.operation.to_le_bytes());
        bytes[8..].copy_from_slice(&self.drawn.to_le_bytes());
        xxh3_64_with_seed(&bytes, self.seed)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Zipf {
    /// Of numbers below `count`, which is at least 1. Takes time in proportion to it.
    pub(crate) fn new(count: u64) -> Self {
        let sum_of = |count: u64| (1..=count).map(|number| (number as f64).powf(-EXPONENT)).sum::<f64>();
        let sum = sum_of(count);
        let all = count as f64;
        let eta = (1.0 - (2.0 / all).powf(1.0 - EXPONENT)) / (1.0 - sum_of(2) / sum);
        Self { count: all, sum, alpha: 1.0 / (1.0 - EXPONENT), eta }
    }

    /// The next number.
    pub(crate) fn draw(&self, draws: &mut Draws) -> u64 {
        let unit = draws.unit();
        let at = unit * self.sum;
        if at < 1.0 || self.count < 2.0 {
            return 0;
        }
        if at < 1.0 + 0.5_f64.powf(EXPONENT) {
            return 1;
        }
        let drawn = self.count * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (drawn as u64).min(self.count as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_draws_each_number_as_often_as_its_law_says() {
        for count in [1, 2, 3, 1000] {
            let (zipf, mut drawn) = (Zipf::new(count), vec![0_u32; count as usize]);
            for number in 0..100_000 {
                drawn[zipf.draw(&mut Draws::new(7, number)) as usize] += 1;
            }
            let sum: f64 = (1..=count).map(|number| (number as f64).powf(-EXPONENT)).sum();
            // Of the first two numbers the algorithm is exact.
            for (at, times) in drawn.iter().enumerate().take(2) {
                let expected = 100_000.0 * ((at + 1) as f64).powf(-EXPONENT) / sum;
                assert!((f64::from(*times) - expected).abs() < 0.05 * expected, "{at} of {count}: {times}");
            }
            assert!(count < 1000 || drawn[500..].iter().sum::<u32>() > 1000);
        }
    }

    #[test]
    fn draws_are_below_their_end_and_reach_it() {
        let mut draws = Draws::new(1, 2);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| draws.below(7)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
