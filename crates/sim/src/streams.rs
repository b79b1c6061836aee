//! Random numbers: one stream per concern, so that an additional fault does not shift the workload,
//! nor an additional operation the schedule. A failing seed thus keeps failing while it is
//! investigated.

use zerohop_base::random::Random;

/// The streams of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// The features of this run and their amounts.
    pub(crate) scenario: Random,
    /// The order of two events at the same time.
    pub(crate) schedule: Random,
    /// The transport of bytes, and its faults.
    pub(crate) network: Random,
    /// The crashes, stops, pauses and disk faults of nodes.
    pub(crate) node: Random,
    /// The seeds of disks.
    pub(crate) disk: Random,
    /// The requests of clients.
    pub(crate) workload: Random,
    /// The pauses, deaths and returns of clients.
    pub(crate) client: Random,
    /// What programs of the layers above do, and the scenario of their runs.
    pub(crate) programs: Random,
}

impl Streams {
    pub(crate) fn new(seed: u64) -> Self {
        let root = Random::new(seed);
        Self {
            scenario: root.fork(1),
            schedule: root.fork(2),
            network: root.fork(3),
            node: root.fork(4),
            disk: root.fork(5),
            workload: root.fork(6),
            client: root.fork(7),
            programs: root.fork(8),
        }
    }
}

/// Draws that several concerns need.
pub(crate) trait Draw {
    /// From `least` to `most`, both inclusive.
    fn between(&mut self, least: u64, most: u64) -> u64;

    /// The time to the next event with this mean distance: exponential, cut at ten times the mean.
    fn wait(&mut self, mean: u64) -> u64;

    /// One of several.
    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T;
}

impl Draw for Random {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    fn wait(&mut self, mean: u64) -> u64 {
        // In integers, so that every machine draws the same: the number of halvings until a coin
        // shows tails, with linear interpolation between two of them. Its mean is 1.5 half-lives of
        // `mean * 2 / 3`.
        let half_life = (mean * 2 / 3).max(1);
        let halvings = u64::from(self.next_u64().trailing_zeros()).min(9);
        halvings * half_life + self.below(half_life)
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_from_one_stream_do_not_shift_others() {
        let (mut one, mut other) = (Streams::new(5), Streams::new(5));
        for _ in 0..100 {
            one.network.next_u64();
        }
        assert_eq!(one.schedule.next_u64(), other.schedule.next_u64());
        assert_ne!(one.network.next_u64(), other.network.next_u64());
    }

    #[test]
    fn random_waits_have_requested_mean() {
        let mut random = Random::new(1);
        let sum: u64 = (0..10_000).map(|_| random.wait(900)).sum();
        assert!((800..1_000).contains(&(sum / 10_000)), "{}", sum / 10_000);
    }
}
