//! Counts in buckets of powers of two: one increment for each value.

/// A histogram of magnitudes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// By number of bits: bucket `n` counts values below `2^n` that are not in an earlier bucket; the last one counts all others.
    buckets: [u64; BUCKETS],
    sum: u64,
}

/// Values up to a quarter of a million are distinguished.
const BUCKETS: usize = 20;

impl Histogram {
    pub(crate) const fn new() -> Self {
        Histogram { buckets: [0; BUCKETS], sum: 0 }
    }

    #[inline]
    pub(crate) fn count(&mut self, value: u64) {
        let bits = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bits.min(BUCKETS - 1)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Sum, count, and the buckets: the upper bound of each, and its count.
    pub(crate) fn parts(&self) -> (u64, u64, Vec<(f64, u64)>) {
        let greatest =
            |bucket: usize| if bucket == BUCKETS - 1 { f64::MAX } else { ((1u64 << bucket) - 1) as f64 };
        let buckets = self.buckets.iter().enumerate().map(|(bucket, count)| (greatest(bucket), *count));
        (self.sum, self.buckets.iter().sum(), buckets.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_counted_in_first_bucket_that_covers_it() {
        let mut histogram = Histogram::new();
        for value in [0, 1, 2, 3, 4, 1 << 17, 1 << 18, 1 << 40] {
            histogram.count(value);
        }
        let (sum, count, buckets) = histogram.parts();
        assert_eq!((sum, count), (10 + (1 << 17) + (1 << 18) + (1 << 40), 8));
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        let greatest = f64::from((1 << 18) - 1);
        assert_eq!(filled, [(0.0, 1), (1.0, 1), (3.0, 2), (7.0, 1), (greatest, 1), (f64::MAX, 2)]);
    }
}
