//! Stalled connections between nodes: messages from one to another wait, in order, and arrive all
//! at once when the connection goes on, perhaps just after another member has become primary. Old
//! messages must do no harm then.

use zerohop_base::time::Time;

use super::faults::ClusterFault;
use super::node_end::NodeEnd;
use super::traffic::Traffic;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Messages that wait for one connection; more are lost, as buffers are full.
const WAITING_MAX: usize = 8_192;

/// A stalled connection.
#[derive(Debug)]
struct Stall {
    number: u64,
    from: usize,
    /// The receiver; `None`: all.
    to: Option<usize>,
    /// The senders whose messages wait; `None`: all.
    traffic: Option<Traffic>,
    waiting: Vec<ClusterEvent>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    numbers: u64,
    now: Vec<Stall>,
}

impl Stalls {
    /// Begins a stall and returns its number.
    fn begin(&mut self, from: usize, to: Option<usize>, traffic: Option<Traffic>) -> u64 {
        self.numbers += 1;
        self.now.push(Stall { number: self.numbers, from, to, traffic, waiting: Vec::new() });
        self.numbers
    }

    /// The stall that a message must wait in, if there is one.
    fn find(&mut self, from: usize, to: usize, traffic: Traffic) -> Option<&mut Stall> {
        self.now.iter_mut().find(|stall| {
            stall.from == from
                && stall.to.is_none_or(|only| only == to)
                && stall.traffic.is_none_or(|only| only == traffic)
        })
    }

    /// Ends the selected stalls. Returns the messages that have waited, in order.
    fn end(&mut self, which: impl Fn(&Stall) -> bool) -> Vec<ClusterEvent> {
        self.now.extract_if(.., |stall| which(stall)).flat_map(|stall| stall.waiting).collect()
    }
}

impl SimulatedCluster {
    /// Sends a message from one node to another: it may be lost, repeated, delayed or stalled.
    pub(super) fn post(
        &mut self,
        sent: Time,
        (from, to): (usize, usize),
        traffic: Traffic,
        make: &dyn Fn() -> ClusterEvent,
    ) {
        let [first, second] = self.peers.arrivals(sent, from, to);
        let again = first.and_then(|first| self.repeat_election_message(first, (from, to), traffic));
        for at in [first, second, again].into_iter().flatten() {
            match self.stalls.find(from, to, traffic).filter(|_| from != to) {
                Some(stall) if stall.waiting.len() < WAITING_MAX => stall.waiting.push(make()),
                Some(_) => {}
                None => self.event_queue.at(at, make()),
            }
        }
    }

    /// Stalls a node's messages to one other node or to all. Often the node is killed meanwhile.
    pub(super) fn stall(&mut self, from: usize) {
        let now = self.now();
        let others: Vec<usize> = (0..self.hosts.len()).filter(|at| *at != from).collect();
        let to = match self.streams.node.below(3) {
            0 => None,
            _ => Some(*self.streams.node.pick(&others)),
        };
        let traffic = *self.streams.node.pick(&[
            None,
            Some(Traffic::Agents),
            Some(Traffic::Instances),
            Some(Traffic::Instances),
        ]);
        let longest = *self.streams.node.pick(&[300 * MS, 2 * SECOND, 6 * SECOND]);
        let until = now.after_us(self.streams.node.between(20 * MS, longest));
        self.begin_stall(from, to, traffic, until);
        let after_us = self.streams.node.below(400 * MS);
        if self.scenario.has(FaultKind::Kills) && self.streams.node.chance(1, 2) {
            let life = self.hosts[from].life;
            self.event_queue
                .at(now.after_us(after_us), ClusterEvent::Fault(ClusterFault::Kill { host: from, life }));
        }
    }

    /// Begins a stall that ends at a given time.
    pub(super) fn begin_stall(
        &mut self,
        from: usize,
        to: Option<usize>,
        traffic: Option<Traffic>,
        until: Time,
    ) {
        let number = self.stalls.begin(from, to, traffic);
        self.trace
            .record(self.now(), format_args!("STALL of n{from} to {to:?}, {traffic:?}, until {}", until.0));
        self.event_queue.at(until, ClusterEvent::Fault(ClusterFault::StallEnds { number }));
    }

    pub(super) fn end_stall(&mut self, number: u64) {
        let waited = self.stalls.end(|stall| stall.number == number);
        self.deliver_stalled(waited);
    }

    /// Ends all stalls, as faults have ended.
    pub(super) fn end_all_stalls(&mut self) {
        let waited = self.stalls.end(|_| true);
        self.deliver_stalled(waited);
    }

    fn deliver_stalled(&mut self, waited: Vec<ClusterEvent>) {
        let now = self.now();
        if !waited.is_empty() {
            self.trace.record(now, format_args!("{} messages that have waited come", waited.len()));
        }
        for (at, event) in waited.into_iter().enumerate() {
            self.event_queue.at(now.after_us(1 + at as u64), event);
        }
    }

    /// A node is no longer primary of some partition, as another member is: its stalled messages
    /// may arrive at about this moment.
    pub(super) fn draw_late_messages(&mut self, of: usize) {
        let chance = self.streams.network.chance(2, 3);
        if !chance || self.phase != ClusterPhase::Faults {
            return;
        }
        let numbers: Vec<u64> =
            self.stalls.now.iter().filter(|stall| stall.from == of).map(|stall| stall.number).collect();
        for number in numbers {
            let longest = *self.streams.network.pick(&[MS, 20 * MS, 100 * MS]);
            let at = self.now().after_us(self.streams.network.below(longest));
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::StallEnds { number }));
        }
    }

    /// A process is killed and restarts soon.
    pub(super) fn crash_and_restart(&mut self, at: usize, down_us: u64) {
        let power = self.scenario.has(FaultKind::PowerLosses) && self.streams.node.chance(1, 2);
        self.end_process_for(at, if power { NodeEnd::Power } else { NodeEnd::Killed }, down_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_messages_wait_per_direction_and_keep_order() {
        let mut stalls = Stalls::default();
        let number = stalls.begin(1, Some(2), Some(Traffic::Instances));
        assert!(
            stalls.find(2, 1, Traffic::Instances).is_none()
                && stalls.find(1, 3, Traffic::Instances).is_none()
        );
        assert!(stalls.find(1, 2, Traffic::Agents).is_none());
        for host in 0..3 {
            stalls.find(1, 2, Traffic::Instances).unwrap().waiting.push(ClusterEvent::Start(host));
        }
        assert!(stalls.end(|stall| stall.number != number).is_empty());
        let order: Vec<usize> = stalls
            .end(|stall| stall.number == number)
            .into_iter()
            .map(|event| if let ClusterEvent::Start(host) = event { host } else { usize::MAX })
            .collect();
        assert_eq!(order, [0, 1, 2]);
        assert!(stalls.find(1, 2, Traffic::Instances).is_none());
        stalls.begin(4, None, None);
        assert!(stalls.find(4, 0, Traffic::Agents).is_some());
    }
}
