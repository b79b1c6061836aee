//! Counts in buckets of powers of two: one increment for each value.

/// A histogram of magnitudes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const BUCKETS: usize = USUAL_BUCKETS> {
    /// By number of bits: bucket `n` counts values below `2^n` that are not in an earlier bucket; the last one counts all others.
    buckets: [u64; BUCKETS],
    sum: u64,
}

/// Values up to a quarter of a million are distinguished.
const USUAL_BUCKETS: usize = 20;

/// Times up to 2^25 microseconds (33 s) are distinguished.
const LATENCY_BUCKETS: usize = 27;

/// A histogram of times in microseconds.
pub type LatencyHistogram = Histogram<LATENCY_BUCKETS>;

impl<const BUCKETS: usize> Default for Histogram<BUCKETS> {
    fn default() -> Self {
        Histogram::new()
    }
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    /// A histogram without values.
    #[must_use]
    pub const fn new() -> Self {
        Histogram { buckets: [0; BUCKETS], sum: 0 }
    }

    /// Counts a value.
    #[inline]
    pub fn count(&mut self, value: u64) {
        self.count_times(value, 1);
    }

    /// Counts a value this many times.
    #[inline]
    pub fn count_times(&mut self, value: u64, times: u64) {
        let bits = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bits.min(BUCKETS - 1)] += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }

    /// Sum, count, and the buckets: the upper bound of each, and its count.
    #[must_use]
    pub fn parts(&self) -> (u64, u64, Vec<(f64, u64)>) {
        let greatest =
            |bucket: usize| if bucket == BUCKETS - 1 { f64::MAX } else { ((1u64 << bucket) - 1) as f64 };
        let buckets = self.buckets.iter().enumerate().map(|(bucket, count)| (greatest(bucket), *count));
        (self.sum, self.buckets.iter().sum(), buckets.collect())
    }

    /// The same for values in microseconds, in seconds.
    #[must_use]
    pub fn seconds(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let (sum, count, mut buckets) = self.parts();
        for (bucket, (greatest, _)) in buckets.iter_mut().enumerate().take(BUCKETS - 1) {
            // All values of the bucket are below this power of two.
            *greatest = (1u64 << bucket) as f64 / 1e6;
        }
        (sum as f64 / 1e6, count, buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_counted_in_first_bucket_that_covers_it() {
        let mut histogram: Histogram = Histogram::new();
        for value in [0, 1, 2, 3, 4, 1 << 17, 1 << 18, 1 << 40] {
            histogram.count(value);
        }
        let (sum, count, buckets) = histogram.parts();
        assert_eq!((sum, count), (10 + (1 << 17) + (1 << 18) + (1 << 40), 8));
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        let greatest = f64::from((1 << 18) - 1);
        assert_eq!(filled, [(0.0, 1), (1.0, 1), (3.0, 2), (7.0, 1), (greatest, 1), (f64::MAX, 2)]);
    }

    #[test]
    fn microseconds_are_reported_in_seconds_below_powers_of_two() {
        let mut histogram: Histogram = Histogram::new();
        histogram.count_times(1000, 3);
        histogram.count(1 << 40);
        let (sum, count, buckets) = histogram.seconds();
        assert_eq!((sum, count), (((1u64 << 40) + 3000) as f64 / 1e6, 4));
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.001_024, 3), (f64::MAX, 1)]);
    }
}
