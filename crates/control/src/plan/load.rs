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
    instances: BTreeMap<InstanceId, InstanceLoad>,
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
                let instance_load = InstanceLoad {
                    node: node.id(),
                    domain: facts.domain,
                    state: node.state(),
                    weight,
                    planned_copies: 0,
                    load: 0,
                };
                tally.instances.insert(instance, instance_load);
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
        self.instances.get(&instance)
    }

    pub(super) fn instances(&self) -> impl Iterator<Item = (InstanceId, &InstanceLoad)> {
        self.instances.iter().map(|(instance, instance_load)| (*instance, instance_load))
    }

    pub(super) fn is(&self, instance: InstanceId, state: NodeState) -> bool {
        self.instances
            .get(&instance)
            .map_or(state == NodeState::Down, |instance_load| instance_load.state == state)
    }

    pub(super) fn add_copies(&mut self, instance: InstanceId, copies: i64) {
        if let Some(instance_load) = self.instances.get_mut(&instance) {
            instance_load.planned_copies += copies;
        }
    }

    pub(super) fn serve(&mut self, from: Option<InstanceId>, to: InstanceId, load: u32) {
        if let Some(instance_load) = from.and_then(|from| self.instances.get_mut(&from)) {
            instance_load.load = instance_load.load.saturating_sub(u64::from(load));
        }
        if let Some(instance_load) = self.instances.get_mut(&to) {
            instance_load.load += u64::from(load);
        }
    }

    /// How far above its share an instance is, in copies times the sum of all weights; all its copies if it
    /// should have none. For comparisons, and to detect a difference of more than one copy
    /// ([`PlacementTally::one`]).
    pub(super) fn excess(&self, instance: InstanceId) -> i128 {
        let Some(instance_load) = self.instances.get(&instance) else { return 0 };
        let share = if instance_load.state == NodeState::Up {
            self.wanted_copies * i128::from(instance_load.weight)
        } else {
            0
        };
        i128::from(instance_load.planned_copies) * self.weights - share
    }

    /// The least [`PlacementTally::excess`] of the instances that may get partitions; `None` without any.
    pub(super) fn least_excess(&self) -> Option<i128> {
        self.up_instances().map(|(instance, _)| self.excess(instance)).min()
    }

    /// Whether the instances that may get partitions are in more than one domain.
    pub(super) fn has_several_domains(&self) -> bool {
        let mut domains = self.up_instances().map(|(_, instance_load)| instance_load.domain);
        let first = domains.next();
        domains.any(|domain| Some(domain) != first)
    }

    fn up_instances(&self) -> impl Iterator<Item = (InstanceId, &InstanceLoad)> {
        self.instances().filter(|(_, instance_load)| instance_load.state == NodeState::Up)
    }

    /// One copy, in the unit of [`PlacementTally::excess`].
    pub(super) fn one(&self) -> i128 {
        self.weights
    }

    /// Whether moving `load` from one instance to the other balances the load of primaries: the larger load
    /// per weight of the two becomes smaller.
    pub(super) fn balances_load(&self, from: InstanceId, to: InstanceId, load: u32) -> bool {
        let (Some(from), Some(to)) = (self.instances.get(&from), self.instances.get(&to)) else {
            return false;
        };
        let after = (u128::from(to.load) + u128::from(load)) * u128::from(from.weight);
        after < u128::from(from.load) * u128::from(to.weight)
    }

    /// The load of the primaries on an instance, per weight.
    pub(super) fn load_per_weight(&self, instance: InstanceId) -> u128 {
        self.load_per_weight_with(instance, 0)
    }

    /// The same after an increase of `load`.
    pub(super) fn load_per_weight_with(&self, instance: InstanceId, load: u32) -> u128 {
        let laden = |instance_load: &InstanceLoad| {
            ((u128::from(instance_load.load) + u128::from(load)) << 32) / u128::from(instance_load.weight)
        };
        self.instances.get(&instance).map_or(u128::MAX, laden)
    }
}
