//! Nodes join, restart, die, return and leave.

use zerohop_placement::limits::INSTANCES_PER_NODE_MAX;
use zerohop_placement::{MapChange, Node, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};
use zerohop_wire::plurals::counted;

use super::group_decision::GroupContext;
use super::groups::RestartedDisk;
use super::{ControlState, MapDraft, NodeRecord};
use crate::command::{CommandRefusal, JoinNode};

impl ControlState {
    /// A node joins. Its groups are decided again if it has restarted, and checked if it had been considered
    /// dead.
    pub(super) fn join(&mut self, join: &JoinNode, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let count = join.instances.len();
        if !(1..=INSTANCES_PER_NODE_MAX).contains(&count) {
            return Err(CommandRefusal::Map(format!(
                "a node has 1 to {INSTANCES_PER_NODE_MAX} instances, not {count}"
            )));
        }
        let id = match join.node {
            None => return self.join_new(join, draft),
            Some(id) => id,
        };
        let known = self.map().node(id).ok_or(CommandRefusal::UnknownNode)?.to_node();
        if known.incarnation != join.replaces {
            return Err(CommandRefusal::StaleIncarnation);
        }
        if known.instances.len() != count {
            return Err(CommandRefusal::Map(format!(
                "node {id} has {} in the map and started with {count}: start it with as many",
                counted(known.instances.len(), "instance")
            )));
        }
        let draining = self.facts(id).draining;
        let node = Node {
            state: if draining { NodeState::Draining } else { NodeState::Up },
            incarnation: join.incarnation,
            manager: join.manager.clone(),
            instances: join.instances.clone(),
            ..known.clone()
        };
        let was_doubted = self.facts(id).unconfirmed;
        let is_another = known.incarnation != join.incarnation;
        let kept = RestartedDisk { intact: join.intact, closed: join.closed && !was_doubted };
        let restarted = is_another.then_some(kept);
        let unconfirmed = was_doubted && !is_another;
        let (domain, capacity) = (join.domain, join.capacity.max(1));
        let closed = if is_another { kept.closed } else { self.facts(id).closed };
        self.facts.insert(id, NodeRecord { domain, capacity, draining, unconfirmed, closed });
        if node != known {
            self.put_node(node, restarted, draft);
        }
        Ok(u64::from(id.get()))
    }

    fn join_new(&mut self, join: &JoinNode, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let too_many = || CommandRefusal::Map("no ids are left".to_owned());
        let id = match self.expected_nodes.remove(&join.manager) {
            Some(id) => id,
            None => {
                let id = NodeId(self.next_node);
                self.next_node = self.next_node.checked_add(1).ok_or_else(too_many)?;
                id
            }
        };
        let first_instance = InstanceId(self.next_instance);
        let count = join.instances.len() as u32;
        self.next_instance = self.next_instance.checked_add(count).ok_or_else(too_many)?;
        draft.changes.push(MapChange::PutNode(Node {
            id,
            state: NodeState::Up,
            incarnation: join.incarnation,
            manager: join.manager.clone(),
            first_instance,
            instances: join.instances.clone(),
        }));
        let (domain, capacity) = (join.domain, join.capacity.max(1));
        self.facts
            .insert(id, NodeRecord { domain, capacity, draining: false, unconfirmed: false, closed: false });
        Ok(u64::from(id.get()))
    }

    /// A verdict of the control group, or the operator's request to drain a node.
    pub(super) fn set_node_state(
        &mut self,
        id: NodeId,
        incarnation: Incarnation,
        state: NodeState,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let node = self.map().node(id).ok_or(CommandRefusal::UnknownNode)?.to_node();
        if node.incarnation != incarnation {
            return Err(CommandRefusal::StaleIncarnation);
        }
        let mut facts = self.facts(id);
        if state != NodeState::Down {
            facts.draining = state == NodeState::Draining;
        }
        self.facts.insert(id, facts);
        if node.state != state {
            self.put_node(Node { state, ..node }, None, draft);
        }
        Ok(u64::from(id.get()))
    }

    /// A node that is in no group leaves; the map refuses to remove others.
    pub(super) fn remove_node(&mut self, id: NodeId, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let node = self.map().node(id).ok_or(CommandRefusal::UnknownNode)?;
        let replicas: usize =
            node.instances().map(|instance| self.map().partitions_of(instance.id).count()).sum();
        if replicas > 0 {
            let what = match node.state() {
                NodeState::Down => "made again within a minute, but for those that `zerohop recover` names",
                NodeState::Up | NodeState::Draining => "drain it first",
            };
            return Err(CommandRefusal::Map(format!(
                "node {id} still has {}: {what}",
                counted(replicas, "replica")
            )));
        }
        let manager = node.manager();
        if self.managers.iter().any(|member| member.addr.as_str() == manager) {
            return Err(CommandRefusal::InControlGroup);
        }
        draft.changes.push(MapChange::RemoveNode(id));
        self.facts.remove(&id);
        Ok(u64::from(id.get()))
    }

    /// Puts a node that is in the map already, and decides again all groups that the change concerns.
    /// `restarted` is set if the node's process is new: what the disk has kept.
    fn put_node(&mut self, node: Node, restarted: Option<RestartedDisk>, draft: &mut MapDraft) {
        let first = node.first_instance.get();
        let own = first..first + node.instances.len() as u32;
        let is_own = |instance: InstanceId| own.contains(&instance.get());
        let mut regrouped = Vec::new();
        for (keyspace, found) in self.map().keyspaces() {
            for (partition, group) in found.groups() {
                if !group.members().any(is_own) {
                    continue;
                }
                let view = GroupContext {
                    config: found.config(),
                    state_of: &|instance| match is_own(instance) {
                        true => node.state,
                        false => self.state_of(instance),
                    },
                };
                let recovery = self.recoveries.get(&(keyspace, partition));
                let next = match restarted {
                    Some(kept) => Some(view.after_restart(group, recovery, &is_own, kept)),
                    None => view.after_state_change(partition, group, recovery),
                };
                if let Some(next) = next {
                    regrouped.push((keyspace, partition, next));
                }
            }
        }
        draft.changes.push(MapChange::PutNode(node));
        for (keyspace, partition, next) in regrouped {
            self.decide(keyspace, partition, next, draft);
        }
    }
}
