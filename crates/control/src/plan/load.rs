//! The copies of each instance, relative to its share.

use std::collections::BTreeMap;

use zerohop_placement::NodeState;
use zerohop_wire::ids::{InstanceId, NodeId};

use crate::state::{ControlState, instance_weight};

/// An instance as a plan sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstanceLoad {
    pub(super) node: NodeId,
    pub(super) domain: u32,
    pub(super) state: NodeState,
    weight: u64,
    /// Its copies, after what is planned.
    planned_copies: i64,
    /// The load of the primaries on it.
    load: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PlacementTally {
    seats: BTreeMap<InstanceId, InstanceLoad>,
    /// Wanted copies of all partitions together.
    wanted_copies: i128,
    /// Weights of the instances that may get partitions.
    weights: i128,
    /// The number of those instances.
    up: usize,
}

impl PlacementTally {
    pub(super) fn new(state: &ControlState) -> PlacementTally {
        let mut tally = PlacementTally::default();
        for node in state.map().nodes() {
            let facts = state.facts(node.id());
            let instances: Vec<InstanceId> = node.instances().map(|instance| instance.id).collect();
            let weight = instance_weight(facts.capacity, instances.len());
            for instance in instances {
                let seat = InstanceLoad {
                    node: node.id(),
                    domain: facts.domain,
                    state: node.state(),
                    weight,
                    planned_copies: 0,
                    load: 0,
                };
                tally.seats.insert(instance, seat);
                if node.state() == NodeState::Up {
                    tally.weights += i128::from(weight);
                    tally.up += 1;
                }
            }
        }
        tally
    }

    pub(super) fn add_wanted(&mut self, copies: usize) {
        self.wanted_copies += copies as i128;
    }

    /// Number of instances that may get partitions.
    pub(super) fn up(&self) -> usize {
        self.up
    }

    pub(super) fn load_of(&self, instance: InstanceId) -> Option<&InstanceLoad> {
        self.seats.get(&instance)
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = (InstanceId, &InstanceLoad)> {
        self.seats.iter().map(|(instance, seat)| (*instance, seat))
    }

    pub(super) fn is(&self, instance: InstanceId, state: NodeState) -> bool {
        self.seats.get(&instance).map_or(state == NodeState::Down, |seat| seat.state == state)
    }

    pub(super) fn add_copies(&mut self, instance: InstanceId, copies: i64) {
        if let Some(seat) = self.seats.get_mut(&instance) {
            seat.planned_copies += copies;
        }
    }

    pub(super) fn serve(&mut self, from: Option<InstanceId>, to: InstanceId, load: u32) {
        if let Some(seat) = from.and_then(|from| self.seats.get_mut(&from)) {
            seat.load = seat.load.saturating_sub(u64::from(load));
        }
        if let Some(seat) = self.seats.get_mut(&to) {
            seat.load += u64::from(load);
        }
    }

    /// How far above its share an instance is, in copies times the sum of all weights; all its copies if it
    /// should have none. For comparisons, and to detect a difference of more than one copy
    /// ([`PlacementTally::one`]).
    pub(super) fn excess(&self, instance: InstanceId) -> i128 {
        let Some(seat) = self.seats.get(&instance) else { return 0 };
        let share =
            if seat.state == NodeState::Up { self.wanted_copies * i128::from(seat.weight) } else { 0 };
        i128::from(seat.planned_copies) * self.weights - share
    }

    /// The least [`PlacementTally::excess`] of the instances that may get partitions; `None` without any.
    pub(super) fn least_excess(&self) -> Option<i128> {
        self.up_seats().map(|(instance, _)| self.excess(instance)).min()
    }

    /// Whether the instances that may get partitions are in more than one domain.
    pub(super) fn has_several_domains(&self) -> bool {
        let mut domains = self.up_seats().map(|(_, seat)| seat.domain);
        let first = domains.next();
        domains.any(|domain| Some(domain) != first)
    }

    fn up_seats(&self) -> impl Iterator<Item = (InstanceId, &InstanceLoad)> {
        self.seats().filter(|(_, seat)| seat.state == NodeState::Up)
    }

    /// One copy, in the unit of [`PlacementTally::excess`].
    pub(super) fn one(&self) -> i128 {
        self.weights
    }

    /// Whether moving `load` from one instance to the other balances the load of primaries: the larger load
    /// per weight of the two becomes smaller.
    pub(super) fn balances_load(&self, from: InstanceId, to: InstanceId, load: u32) -> bool {
        let (Some(from), Some(to)) = (self.seats.get(&from), self.seats.get(&to)) else { return false };
        let after = (u128::from(to.load) + u128::from(load)) * u128::from(from.weight);
        after < u128::from(from.load) * u128::from(to.weight)
    }

    /// The load of the primaries on an instance, per weight.
    pub(super) fn load_per_weight(&self, instance: InstanceId) -> u128 {
        self.load_per_weight_with(instance, 0)
    }

    /// The same after an increase of `load`.
    pub(super) fn load_per_weight_with(&self, instance: InstanceId, load: u32) -> u128 {
        let laden = |seat: &InstanceLoad| {
            ((u128::from(seat.load) + u128::from(load)) << 32) / u128::from(seat.weight)
        };
        self.seats.get(&instance).map_or(u128::MAX, laden)
    }
}
