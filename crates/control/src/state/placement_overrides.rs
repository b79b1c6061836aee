//! Pinned partitions: an operator has chosen their place. The plan moves such a partition there and makes
//! that instance primary. Then the plan leaves it there until the operator releases it, or its node is
//! drained, gone for long, or fails to accept the copy.

use zerohop_placement::{GroupState, MapChange, MapDelta, NodeState};
use zerohop_wire::ids::{InstanceId, KeyspaceId, NodeId, PartitionId};

use super::ControlState;
use crate::command::{CommandRefusal, ControlCommand, GroupStep, MovePartition};
use crate::limits::PLACEMENT_OVERRIDES_MAX;

/// The place that an operator has chosen for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementOverride {
    /// The instance that is to be primary.
    pub to: InstanceId,
    /// The instance that leaves the group.
    pub from: InstanceId,
}

impl ControlState {
    /// The pin of a partition, if it is pinned.
    pub fn placement_override(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> Option<PlacementOverride> {
        self.placement_overrides.get(&(keyspace, partition)).copied()
    }

    /// All pinned partitions.
    pub fn placement_overrides(
        &self,
    ) -> impl Iterator<Item = (KeyspaceId, PartitionId, PlacementOverride)> + '_ {
        self.placement_overrides.iter().map(|((keyspace, partition), pin)| (*keyspace, *partition, *pin))
    }

    /// Pins a partition as the operator requests; the returned number is that of the instance.
    pub(super) fn move_partition(&mut self, request: &MovePartition) -> Result<u64, CommandRefusal> {
        let MovePartition { keyspace, partition, to, instance } = *request;
        let found = self.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let group = found.group(partition).ok_or(CommandRefusal::UnknownPartition)?;
        let place = (keyspace, partition);
        let Some(node) = to else {
            let pin = self.placement_overrides.remove(&place).ok_or_else(|| {
                refused("no operator has moved the partition, so that there is nothing to release".into())
            })?;
            return Ok(u64::from(pin.to.get()));
        };
        match group.state {
            GroupState::Stable => {}
            GroupState::Admitting => return Err(CommandRefusal::Moving),
            GroupState::Recovering => return Err(CommandRefusal::Recovering),
        }
        if self.state_of(group.primary) == NodeState::Down {
            return Err(refused("no node serves the partition now, so there is no copy to copy from".into()));
        }
        let members: Vec<InstanceId> = group.members().collect();
        let to = self.target(node, instance, &members)?;
        let from = self.replica_to_remove_for(to, node, &members)?;
        if self.placement_overrides.len() >= PLACEMENT_OVERRIDES_MAX
            && !self.placement_overrides.contains_key(&place)
        {
            return Err(refused(format!(
                "operators have moved {PLACEMENT_OVERRIDES_MAX} partitions: release some first"
            )));
        }
        self.placement_overrides.insert(place, PlacementOverride { to, from });
        Ok(u64::from(to.get()))
    }

    /// The instance of a node that gets the partition: the named one, or else the one that has the fewest
    /// partitions.
    fn target(
        &self,
        id: NodeId,
        instance: Option<InstanceId>,
        members: &[InstanceId],
    ) -> Result<InstanceId, CommandRefusal> {
        let node = self.map().node(id).ok_or(CommandRefusal::UnknownNode)?;
        let own: Vec<InstanceId> = node.instances().map(|instance| instance.id).collect();
        if let Some(named) = instance.filter(|named| !own.contains(named)) {
            let own = own.iter().map(InstanceId::to_string).collect::<Vec<_>>().join(", ");
            return Err(refused(format!("instance {named} is not of node {id}, which has {own}")));
        }
        match node.state() {
            NodeState::Up => {}
            NodeState::Draining => {
                return Err(refused(format!(
                    "node {id} is being drained: make it up again first, or name another"
                )));
            }
            NodeState::Down => return Err(refused(format!("node {id} is down: name one that is up"))),
        }
        let holds = |one: &InstanceId| members.contains(one);
        if let Some(holder) = instance
            .filter(holds)
            .or_else(|| own.iter().copied().find(|one| instance.is_none() && holds(one)))
        {
            let what = if members.first() == Some(&holder) { "is its primary" } else { "has a copy of it" };
            return Err(refused(format!(
                "the partition is there already: instance {holder} of node {id} {what}"
            )));
        }
        let copies = |one: &InstanceId| self.map().partitions_of(*one).count();
        // A node has instances.
        instance
            .or_else(|| own.into_iter().min_by_key(|one| (copies(one), *one)))
            .ok_or(CommandRefusal::UnknownInstance)
    }

    /// The member that leaves in favour of an instance of this node: the primary, or a member in the same
    /// failure domain. Refused if the instance would share a domain with another copy though some other node
    /// that is up would not.
    fn replica_to_remove_for(
        &self,
        to: InstanceId,
        id: NodeId,
        members: &[InstanceId],
    ) -> Result<InstanceId, CommandRefusal> {
        let node_of = |one: InstanceId| self.map().instance(one).map(|found| found.node);
        let shared = |node: NodeId, replica_to_remove: InstanceId| {
            let domain = self.facts(node).domain;
            let others =
                members.iter().filter(|one| **one != replica_to_remove).filter_map(|one| node_of(*one));
            others.filter(|other| *other == node || self.facts(*other).domain == domain).count()
        };
        let least = |node: NodeId| {
            members.iter().map(|one| (shared(node, *one), *one)).min_by_key(|(count, _)| *count)
        };
        // Of several, the first: the primary.
        let Some((count, replica_to_remove)) = least(id) else { return Err(CommandRefusal::NotUp) };
        let is_free = |one: InstanceId| one != to && !members.contains(&one);
        let better = self.map().nodes().find(|node| {
            node.state() == NodeState::Up
                && node.id() != id
                && node.instances().any(|instance| is_free(instance.id))
                && least(node.id()).is_some_and(|(other, _)| other < count)
        });
        match better {
            Some(better) => Err(refused(format!(
                "node {id} is in the failure domain of another copy; node {}, for example, is not",
                better.id()
            ))),
            None => Ok(replica_to_remove),
        }
    }

    /// Drops the placement overrides of partitions that the map has split.
    pub(super) fn drop_split_pins(&mut self, delta: &MapDelta) {
        for change in &delta.changes {
            match change {
                MapChange::SplitKeyspace(id) => {
                    self.placement_overrides.retain(|(keyspace, _), _| keyspace != id)
                }
                MapChange::SplitRegion { keyspace, region, .. } => {
                    self.placement_overrides.remove(&(*keyspace, *region));
                }
                _ => {}
            }
        }
    }

    /// Drops the placement overrides that a completed command has made void.
    pub(super) fn drop_void_pins(&mut self, command: &ControlCommand) {
        match command {
            // The move has failed, or the copy was abandoned.
            ControlCommand::Regroup(regroup) => {
                let place = (regroup.keyspace, regroup.partition);
                if let GroupStep::RemoveFollower(gone) = regroup.step
                    && self.placement_overrides.get(&place).is_some_and(|pin| pin.to == gone)
                {
                    self.placement_overrides.remove(&place);
                }
            }
            ControlCommand::DropKeyspace(_)
            | ControlCommand::SetNodeState { .. }
            | ControlCommand::RemoveNode(_) => {
                let map = std::sync::Arc::clone(self.map());
                let facts = &self.facts;
                self.placement_overrides.retain(|(keyspace, _), pin| {
                    let node = map.instance(pin.to).map(|instance| instance.node);
                    let is_draining = |node: NodeId| facts.get(&node).is_some_and(|facts| facts.draining);
                    map.keyspace(*keyspace).is_some() && node.is_some_and(|node| !is_draining(node))
                });
            }
            _ => {}
        }
    }
}

fn refused(why: String) -> CommandRefusal {
    CommandRefusal::Map(why)
}
