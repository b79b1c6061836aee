//! Latencies in a log-linear table of fixed size, as in HdrHistogram (Tene). Recording costs a few
//! instructions, and memory does not grow with the number of samples.
//!
//! A power of two is divided into [`PARTS`] equal buckets, so a bucket is at most 1/32 as wide as
//! its values are large.

/// Buckets of each power of two.
const PARTS: u64 = 1 << PARTS_BITS;
const PARTS_BITS: u32 = 5;
/// Up to 2^40 ns, a quarter of an hour; longer values count as that.
const POWERS: u32 = 40;
const BUCKETS: usize = ((POWERS - PARTS_BITS + 1) as usize) << PARTS_BITS;

/// Counts of durations in nanoseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), count: 0, sum: 0, longest: 0 }
    }

    /// Adds `times` samples of one duration.
    pub fn record(&mut self, ns: u64, times: u64) {
        self.counts[bucket(ns)] += times;
        self.count += times;
        self.sum += u128::from(ns) * u128::from(times);
        self.longest = self.longest.max(ns);
    }

    /// Adds all samples of another.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(own, more)| *own += more);
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, exact; 0 without samples.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The duration that a fraction of the samples, from 0 to 1, does not exceed, as the middle of
    /// its bucket; 0 without samples.
    pub fn percentile(&self, part: f64) -> u64 {
        // The rank of the requested sample, from 1.
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(at).min(self.longest);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << POWERS) - 1);
    if ns < PARTS {
        return ns as usize;
    }
    // The bucket is given by the leading bit and the next five.
    let power = ns.ilog2() - PARTS_BITS;
    ((u64::from(power) << PARTS_BITS) + (ns >> power)) as usize
}

fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let power = (bucket >> PARTS_BITS) - 1;
    let least = (PARTS + bucket % PARTS) << power;
    least + (1 << power) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Draws;

    #[test]
    fn every_duration_falls_into_a_bucket_at_most_a_thirtieth_off() {
        let mut draws = Draws::new(1);
        for _ in 0..100_000 {
            let ns = draws.draw() >> (24 + draws.draw() % 40);
            let found = middle(bucket(ns));
            let off = found.abs_diff(ns);
            assert!(off <= ns / 32, "{ns} counts as {found}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!((bucket(0), bucket(31), bucket(32), bucket(63), bucket(64)), (0, 31, 32, 63, 64));
    }

    #[test]
    fn buckets_are_in_the_order_of_their_durations_without_gaps() {
        let mut last = 0;
        for ns in 0..1u64 << 14 {
            let at = bucket(ns);
            assert!(at == last || at == last + 1, "{ns}");
            last = at;
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let mut draws = Draws::new(7);
        let mut samples: Vec<u64> = (0..10_001).map(|_| 1000 + draws.draw() % 1_000_000).collect();
        let mut histogram = Histogram::new();
        for sample in &samples {
            histogram.record(*sample, 1);
        }
        samples.sort_unstable();
        for part in [0.5, 0.99, 0.999, 1.0] {
            let exact = samples[((samples.len() as f64 * part).ceil() as usize) - 1];
            let found = histogram.percentile(part);
            assert!(found.abs_diff(exact) <= exact / 32, "{part}: {found} for {exact}");
        }
    }

    #[test]
    fn samples_recorded_together_weigh_as_many() {
        let mut histogram = Histogram::new();
        histogram.record(10, 98);
        histogram.record(20_000, 2);
        assert_eq!((histogram.count(), histogram.percentile(0.5), histogram.percentile(0.98)), (100, 10, 10));
        assert!(histogram.percentile(0.99) > 19_000);
        assert_eq!(histogram.mean(), 409.8);
    }

    #[test]
    fn empty_histogram_has_zero_percentile_and_mean() {
        assert_eq!((Histogram::new().percentile(0.5), Histogram::new().mean()), (0, 0.0));
    }
}
