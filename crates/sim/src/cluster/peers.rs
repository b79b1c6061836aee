//! The network between nodes: messages are lost, repeated, late, reordered, or cut off for a while,
//! in one direction or both. Between two instances of one node none of this occurs.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_base::time::Time;

use super::scenario::{JITTER_US, PeerFaults};

/// See the module.
#[derive(Debug)]
pub(crate) struct Peers {
    random: Random,
    faults: PeerFaults,
    /// No message passes from the first node to the second before then.
    network_cuts: BTreeMap<(usize, usize), Time>,
    is_fault_free: bool,
}

impl Peers {
    pub(crate) fn new(random: Random, faults: PeerFaults) -> Self {
        Self { random, faults, network_cuts: BTreeMap::new(), is_fault_free: false }
    }

    /// The arrival times of a message: none, one or two.
    pub(crate) fn arrivals(&mut self, now: Time, from: usize, to: usize) -> [Option<Time>; 2] {
        if from == to {
            return [Some(now.after_us(20)), None];
        }
        let PeerFaults { loss, repeats, .. } = self.faults;
        if self.is_cut(now, from, to) || self.happens(loss) {
            return [None, None];
        }
        let first = self.delay(now);
        let second = self.happens(repeats).then(|| self.delay(now));
        [Some(first), second]
    }

    /// No message passes from one node to the other until then.
    pub(crate) fn cut(&mut self, from: usize, to: usize, until: Time) {
        let known = self.network_cuts.entry((from, to)).or_insert(until);
        *known = until.max(*known);
    }

    pub(crate) fn is_cut(&self, now: Time, from: usize, to: usize) -> bool {
        self.network_cuts.get(&(from, to)).is_some_and(|until| now < *until)
    }

    /// No network faults occur from now on.
    pub(crate) fn end_faults(&mut self) {
        self.is_fault_free = true;
        self.network_cuts.clear();
    }

    fn delay(&mut self, now: Time) -> Time {
        let PeerFaults { delay_us, jitter_us, late, late_us, .. } = self.faults;
        // Without faults a connection keeps its order nearly always.
        let jitter_us = if self.is_fault_free { jitter_us.min(JITTER_US) } else { jitter_us };
        let mut delay_us = delay_us + self.random.below(jitter_us + 1);
        if self.happens(late) {
            delay_us += self.random.below(late_us + 1);
        }
        now.after_us(delay_us)
    }

    fn happens(&mut self, parts_of_thousand: u64) -> bool {
        parts_of_thousand > 0 && !self.is_fault_free && self.random.chance(parts_of_thousand, 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_cut_is_directed_timed_and_ends_with_faults() {
        let faults = PeerFaults {
            delay_us: 10,
            jitter_us: 5,
            loss: 0,
            repeats: 0,
            late: 0,
            late_us: 0,
            message_entries: None,
            sends_half: false,
            cuts_pairs: false,
            kills_twice: false,
            clock_step_ms: 1,
        };
        let mut peers = Peers::new(Random::new(1), faults);
        peers.cut(0, 1, Time(100));
        assert_eq!(peers.arrivals(Time(50), 0, 1), [None, None]);
        assert!(peers.arrivals(Time(50), 1, 0)[0].is_some_and(|at| at > Time(50)));
        assert!(peers.arrivals(Time(100), 0, 1)[0].is_some());
        peers.cut(0, 1, Time(1000));
        peers.end_faults();
        assert!(peers.arrivals(Time(500), 0, 1)[0].is_some());
    }
}
