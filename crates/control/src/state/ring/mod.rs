//! The ring of instances, and the first placement of a keyspace on it.
//!
//! Neighbours in the ring are in different failure domains as far as possible, and each instance is in the
//! ring as often as its capacity requires. Replicas of a partition are neighbours in the ring. A keyspace's
//! seed turns the ring, so that the same partitions of different keyspaces get different nodes.

mod computed;

use std::collections::{BTreeMap, VecDeque};

use zerohop_placement::{KeyspaceConfig, NodeState, ReplicaGroup};
use zerohop_wire::ids::{InstanceId, NodeId, PartitionEpoch};

use super::ControlState;
use zerohop_base::random::mix64;

/// An instance in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPoint {
    /// The instance.
    pub instance: InstanceId,
    /// Its node.
    pub node: NodeId,
    /// Its failure domain.
    pub domain: u32,
    /// Its share of partitions, relative to others.
    pub weight: u64,
}

/// The instances that may get partitions, in order.
#[derive(Clone, Debug)]
pub struct Ring {
    points: Vec<RingPoint>,
}

/// A node's capacity is divided among its instances in these parts.
const WEIGHT_PARTS: u64 = 256;

/// The weight of each instance of a node.
pub(crate) fn instance_weight(capacity: u32, instances: usize) -> u64 {
    (u64::from(capacity.max(1)) * WEIGHT_PARTS / instances.max(1) as u64).max(1)
}

impl Ring {
    /// The ring of the nodes that are up, as turned by `seed`: the domains are shuffled, and so are the
    /// instances of each.
    pub fn new(state: &ControlState, seed: u64) -> Ring {
        let mut domains: BTreeMap<u32, Vec<RingPoint>> = BTreeMap::new();
        for node in state.map().nodes().filter(|node| node.state() == NodeState::Up) {
            let facts = state.facts(node.id());
            let instances: Vec<InstanceId> = node.instances().map(|instance| instance.id).collect();
            let weight = instance_weight(facts.capacity, instances.len());
            let points = instances.into_iter().map(|instance| RingPoint {
                instance,
                node: node.id(),
                domain: facts.domain,
                weight,
            });
            domains.entry(facts.domain).or_default().extend(points);
        }
        let draw = |word: u64| mix64(mix64(seed) ^ mix64(word));
        let mut queues: Vec<(u64, VecDeque<RingPoint>)> = Vec::new();
        for (domain, mut points) in domains {
            // Instances of one node are spread too, so that a group avoids a second instance of the same
            // node.
            points.sort_by_key(|point| (draw(u64::from(point.instance.get())), point.instance));
            queues.push((draw(u64::from(domain) | 1 << 32), points.into()));
        }
        queues.sort_by_key(|(order, points)| (*order, points.front().map(|point| point.instance)));
        Ring { points: interleaved(queues.into_iter().map(|(_, points)| points).collect()) }
    }

    /// Whether the ring has no instances.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The instances in order.
    pub fn points(&self) -> &[RingPoint] {
        &self.points
    }

    /// Groups for the partitions of a new keyspace: primaries by weight, then the nearest neighbours in the ring. These
    /// are in other domains, or failing that on other nodes, or failing that other instances. Among these, instances
    /// with fewer copies than their weight allows are preferred.
    pub fn spread(&self, config: &KeyspaceConfig) -> Vec<ReplicaGroup> {
        let total: u128 = self.points.iter().map(|point| u128::from(point.weight)).sum();
        let partitions = u128::from(config.partitions.get());
        let copies = partitions * self.points.len().min(usize::from(config.replicas)) as u128;
        let mut primaries = Vec::new();
        let (mut at, mut passed) = (0, 0u128);
        for position in 0..partitions {
            // The point at this partition's place in the sum of all weights.
            let place = position * total / partitions;
            while passed + u128::from(self.points[at].weight) <= place {
                passed += u128::from(self.points[at].weight);
                at += 1;
            }
            primaries.push(at);
        }
        let mut room: Vec<u128> =
            self.points.iter().map(|point| (copies * u128::from(point.weight)).div_ceil(total)).collect();
        for at in &primaries {
            room[*at] = room[*at].saturating_sub(1);
        }
        primaries.into_iter().map(|primary| self.group(primary, config, &mut room)).collect()
    }

    fn group(&self, primary: usize, config: &KeyspaceConfig, room: &mut [u128]) -> ReplicaGroup {
        let mut chosen = vec![primary];
        while chosen.len() < usize::from(config.replicas) {
            let Some(next) = self.neighbour(&chosen, room) else { break };
            room[next] = room[next].saturating_sub(1);
            chosen.push(next);
        }
        let mut members = chosen.into_iter().map(|at| self.points[at].instance);
        let primary = members.next().expect("a primary has been chosen");
        let others: Vec<InstanceId> = members.collect();
        let in_sync = others.len().min(usize::from(config.min_in_sync).saturating_sub(1));
        let (in_sync, followers) = others.split_at(in_sync);
        ReplicaGroup {
            in_sync: in_sync.to_vec(),
            followers: followers.to_vec(),
            ..ReplicaGroup::of_one(PartitionEpoch(1), primary)
        }
    }

    /// The point to add to the chosen ones, of which the first is the primary's.
    fn neighbour(&self, chosen: &[usize], room: &[u128]) -> Option<usize> {
        let mut best: Option<((bool, bool, bool), usize)> = None;
        for step in 1..self.points.len() {
            let at = (chosen[0] + step) % self.points.len();
            if chosen.contains(&at) {
                continue;
            }
            let point = self.points[at];
            let shared = |same: fn(&RingPoint, &RingPoint) -> bool| {
                chosen.iter().any(|other| same(&self.points[*other], &point))
            };
            let faults =
                (shared(|a, b| a.domain == b.domain), shared(|a, b| a.node == b.node), room[at] == 0);
            if faults == (false, false, false) {
                return Some(at);
            }
            if best.is_none_or(|(least, _)| faults < least) {
                best = Some((faults, at));
            }
        }
        best.map(|(_, at)| at)
    }
}

/// One instance of each domain in turn; larger domains more often, evenly through the ring.
fn interleaved(mut queues: Vec<VecDeque<RingPoint>>) -> Vec<RingPoint> {
    let total: usize = queues.iter().map(VecDeque::len).sum();
    let sizes: Vec<u128> = queues.iter().map(|queue| queue.len() as u128).collect();
    let mut points = Vec::with_capacity(total);
    for turn in 1..=total as u128 {
        // The domain that is furthest behind its share of the places so far (largest remainder).
        let furthest = (0..queues.len())
            .filter(|at| !queues[*at].is_empty())
            .max_by_key(|at| {
                let placed = sizes[*at] - queues[*at].len() as u128;
                ((turn * sizes[*at]) as i128 - (placed * total as u128) as i128, std::cmp::Reverse(*at))
            })
            .expect("places are left as long as a partition waits");
        points.extend(queues[furthest].pop_front());
    }
    points
}
