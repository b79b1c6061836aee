//! A latency histogram with a relative error of at most 1/64, so that a percentile is exact to 1.6
//! %.
//!
//! Values below 64 have a bucket each; above, each power of two is divided into 64 buckets (the
//! idea of HdrHistogram).

use std::time::Duration;

const CUT_BITS: u32 = 6;
const CUTS: usize = 1 << CUT_BITS;
/// Up to 2^40 ns, which is 18 minutes; longer latencies count as that.
const POWERS: usize = 40 - CUT_BITS as usize + 1;

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Histogram { buckets: vec![0; CUTS * (POWERS + 1)], count: 0, sum_ns: 0, max_ns: 0 }
    }

    pub(super) fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, its)| *mine += its);
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn mean_us(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1000.0 }
    }

    pub(super) fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1000.0
    }

    /// The latency that this fraction of the operations (0 to 1) did not exceed.
    pub(super) fn percentile_us(&self, part: f64) -> f64 {
        let requested = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= requested {
                return (end_of(at).min(self.max_ns)) as f64 / 1000.0;
            }
        }
        self.max_us()
    }
}

fn bucket(ns: u64) -> usize {
    let power = (u64::BITS - ns.leading_zeros()).saturating_sub(CUT_BITS) as usize;
    match power {
        0 => ns as usize,
        // The highest bit selects the power; the next ones select the bucket in it.
        _ if power <= POWERS => power * CUTS + ((ns >> (power - 1)) as usize & (CUTS - 1)),
        _ => CUTS * (POWERS + 1) - 1,
    }
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let (power, cut) = (bucket / CUTS, bucket % CUTS);
    match power {
        0 => cut as u64,
        _ => (((CUTS + cut + 1) as u64) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bucket_ends_close_above_each_value() {
        let mut last = 0;
        for ns in (0..5000).chain((1..40).map(|power| (1 << power) - 1)).chain([123_456_789, (1 << 40) - 1]) {
            let at = bucket(ns);
            assert!(end_of(at) >= ns && end_of(at) <= ns + ns / 63, "{ns} in {at}, to {}", end_of(at));
        }
        for ns in 0..100_000 {
            assert!(bucket(ns) == last || bucket(ns) == last + 1, "{ns}");
            last = bucket(ns);
        }
        assert_eq!(bucket(u64::MAX), CUTS * (POWERS + 1) - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|us| histogram.record(Duration::from_micros(us)));
        for (part, us) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = histogram.percentile_us(part);
            assert!(found >= us && found <= us * 1.016, "{part}: {found}");
        }
        assert_eq!((histogram.count(), histogram.mean_us(), histogram.max_us()), (1000, 500.5, 1000.0));
        let mut both = Histogram::new();
        both.add(&histogram);
        both.add(&histogram);
        assert_eq!((both.count(), both.percentile_us(0.5)), (2000, histogram.percentile_us(0.5)));
        assert_eq!((Histogram::new().percentile_us(0.5), Histogram::new().mean_us()), (0.0, 0.0));
    }
}
