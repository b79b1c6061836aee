//! How evenly keys fill the partitions: Pearson's chi-square against the uniform spread.

use serde::Serialize;
use zerohop_placement::hash::finalise;
use zerohop_placement::{PartitionCount, partition_of};

use crate::Candidate;
use crate::keys::KeySet;

const PARTITIONS: [u32; 3] = [256, 1024, 16_384];

/// Trials of a seeded function.
const SEEDS: u64 = 16;

/// Most standard deviations from chance of an even spread. With 63 spreads, 3 would now and then be
/// exceeded by chance; 4 is not (3e-5 each).
const EVEN_MAX: f64 = 4.0;

/// One function on one set of keys.
#[derive(Serialize)]
pub(crate) struct Spread {
    pub(crate) hash: &'static str,
    pub(crate) key_set: String,
    pub(crate) keys: usize,
    pub(crate) partitions: u32,
    /// Seeds tried: 1 if the seed does not matter.
    pub(crate) seeds: u64,
    /// Chi-square over its degrees of freedom, mean over the seeds; 1 is expected by chance.
    pub(crate) ratio: f64,
    /// The seeds' normal deviates, combined (Stouffer): positive is less even than chance, negative
    /// more.
    pub(crate) deviate: f64,
    /// Probability that chance alone is at least this uneven.
    pub(crate) p: f64,
    /// Keys in the fullest partition over the mean, worst of the seeds.
    pub(crate) fullest: f64,
    pub(crate) verdict: &'static str,
}

pub(crate) fn measure(candidates: &[Candidate], sets: &[KeySet]) -> Vec<Spread> {
    let mut spreads = Vec::new();
    for set in sets {
        for candidate in candidates {
            let seeds = if candidate.seeded { SEEDS } else { 1 };
            let trials: Vec<Vec<u64>> = (0..seeds)
                .map(|seed| set.keys.iter().map(|key| (candidate.hash)(finalise(seed + 1), key)).collect())
                .collect();
            // Valid by construction: the list above holds powers of two.
            for count in PARTITIONS.into_iter().filter_map(|partitions| PartitionCount::new(partitions).ok())
            {
                spreads.push(spread(candidate.name, &set.name, &trials, count));
            }
        }
    }
    spreads
}

fn spread(hash: &'static str, key_set: &str, trials: &[Vec<u64>], count: PartitionCount) -> Spread {
    let freedom = f64::from(count.get() - 1);
    let seeds = trials.len() as f64;
    let (mut ratio, mut deviate, mut fullest) = (0.0, 0.0, 0.0_f64);
    for hashes in trials {
        let mut filled = vec![0u64; count.get() as usize];
        for hash in hashes {
            filled[partition_of(*hash, count).get() as usize] += 1;
        }
        let mean = hashes.len() as f64 / f64::from(count.get());
        let chi_square: f64 = filled.iter().map(|n| (*n as f64 - mean).powi(2) / mean).sum();
        ratio += chi_square / freedom / seeds;
        deviate += normal_deviate(chi_square, freedom) / seeds.sqrt();
        fullest = filled.iter().map(|n| *n as f64 / mean).fold(fullest, f64::max);
    }
    let verdict = match deviate {
        z if z > EVEN_MAX => "UNEVEN",
        z if z < -EVEN_MAX => "more even than chance",
        _ => "even",
    };
    Spread {
        hash,
        key_set: key_set.to_owned(),
        keys: trials.first().map_or(0, Vec::len),
        partitions: count.get(),
        seeds: trials.len() as u64,
        ratio,
        deviate,
        p: upper_tail(deviate),
        fullest,
        verdict,
    }
}

/// The chi-square statistic as a normal deviate (Wilson and Hilferty 1931): exact to three digits from 30 degrees of
/// freedom on, and here there are at least 255.
fn normal_deviate(chi_square: f64, freedom: f64) -> f64 {
    let variance = 2.0 / (9.0 * freedom);
    ((chi_square / freedom).cbrt() - (1.0 - variance)) / variance.sqrt()
}

/// Probability that a normal deviate exceeds `z` (Abramowitz and Stegun 26.2.17, error below 1e-7).
fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let polynomial = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_probabilities_are_those_of_the_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.158_655), (1.96, 0.024_998), (3.0, 0.001_350), (-1.0, 0.841_345)] {
            assert!((upper_tail(z) - p).abs() < 1e-6, "{z}: {}", upper_tail(z));
        }
    }

    #[test]
    fn chi_square_quantiles_are_those_of_the_tables() {
        // 255 degrees of freedom: 5 % lie above 293.248, 0.1 % above 330.520.
        assert!((upper_tail(normal_deviate(293.248, 255.0)) - 0.05).abs() < 1e-3);
        assert!((upper_tail(normal_deviate(330.520, 255.0)) - 0.001).abs() < 1e-4);
    }

    #[test]
    fn verdicts_distinguish_uneven_even_and_more_even_than_chance() {
        let count = PartitionCount::DEFAULT;
        let verdict = |hashes: Vec<u64>| spread("", "", &[hashes], count).verdict;
        let random = |seed: u64| (0..100_000u64).map(move |n| finalise(n + seed));
        assert_eq!(verdict(random(1).collect()), "even");
        assert_eq!(verdict(random(1).chain((0..2000).map(|_| 0)).collect()), "UNEVEN");
        assert_eq!(verdict((0..100_000u64).map(|n| n << 56).collect()), "more even than chance");
    }
}
