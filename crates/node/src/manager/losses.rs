//! What is missing since nodes were started again: one line for each keyspace, on the nodes that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{ClusterMap, Durability};
use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionId};

/// See the module. It lasts as long as the process.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<KeyspaceId, Loss>);

#[derive(Debug, Default)]
struct Loss {
    partitions: BTreeSet<PartitionId>,
    /// Partitions that were nowhere else.
    alone: BTreeSet<PartitionId>,
    /// The nodes that held them.
    nodes: BTreeSet<NodeId>,
}

/// The node that takes note.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noting<'a> {
    pub(super) node: Option<NodeId>,
    /// The start of it before this one ended in order.
    pub(super) is_closed: bool,
    /// Where managers of the control group listen: these nodes take note for all that have no manager.
    pub(super) managers: &'a BTreeSet<&'a str>,
}

impl Losses {
    /// A partition goes on with a log of which the end may be missing. Whether that is to be told here.
    pub(super) fn note(
        &mut self,
        map: &ClusterMap,
        (keyspace, partition): (KeyspaceId, PartitionId),
        noting: Noting<'_>,
    ) -> bool {
        let Some(found) = map.keyspace(keyspace) else { return false };
        let Some(group) = found.group(partition) else { return false };
        let owner = |instance| map.instance(instance).map(|found| found.node);
        let nodes: BTreeSet<NodeId> = group.members().filter_map(owner).collect();
        let is_own = noting.node.is_some_and(|node| nodes.contains(&node));
        let has_manager =
            |node: &NodeId| map.node(*node).is_some_and(|node| noting.managers.contains(node.manager()));
        if !is_own && nodes.iter().any(has_manager) {
            return false;
        }
        // Such a keyspace begins empty with each start, and this one was stopped by somebody who knew.
        if is_own && noting.is_closed && found.config().durability == Durability::Memory {
            return false;
        }
        let loss = self.0.entry(keyspace).or_default();
        loss.partitions.insert(partition);
        if nodes.len() == 1 {
            loss.alone.insert(partition);
        }
        loss.nodes.extend(nodes);
        true
    }

    /// A line for each keyspace that is still there.
    pub(super) fn lines(&self, map: &ClusterMap) -> Vec<String> {
        let line = |(keyspace, loss): (&KeyspaceId, &Loss)| {
            let config = map.keyspace(*keyspace)?.config();
            let Loss { partitions, alone, nodes } = loss;
            let (count, all) = (partitions.len(), config.partitions.get());
            let nodes: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
            let word = if nodes.len() == 1 { "node" } else { "nodes" };
            let nodes = format!("{word} {}", nodes.join(", "));
            let what = match config.durability {
                Durability::Memory if alone.len() == count => {
                    format!("everything of {count} of {all} partitions is gone with the process of {nodes}")
                }
                Durability::Memory => format!(
                    "all that held {count} of {all} partitions in sync have started again: what was in them may be gone ({nodes})"
                ),
                Durability::Interval { .. } | Durability::Sync => format!(
                    "{count} of {all} partitions go on with a log of which the last moments may be missing ({nodes} ended without \
                     writing them)"
                ),
            };
            Some(format!("keyspace {}: durability {}: {what}", config.name, config.durability))
        };
        self.0.iter().filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{
        Address, Change, KeyspaceConfig, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
    };
    use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, PartitionEpoch};

    use super::*;

    /// Two nodes, and a keyspace of which node 1 has all partitions alone.
    fn map(durability: Durability) -> ClusterMap {
        let node = |id: u32| Node {
            id: NodeId(id),
            state: NodeState::Up,
            incarnation: Incarnation(u64::from(id)),
            manager: Address::new(&format!("host-{id}:1")).unwrap(),
            first_instance: InstanceId(id),
            instances: vec![Address::new(&format!("host-{id}:2")).unwrap()],
        };
        let partitions = PartitionCount::new(128).unwrap();
        let config =
            KeyspaceConfig { partitions, durability, ..KeyspaceConfig::new("scratch".parse().unwrap(), 7) };
        let groups: Vec<ReplicaGroup> =
            (0..128).map(|_| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(1))).collect();
        let create = Change::CreateKeyspace { id: KeyspaceId(3), config, groups: groups.into() };
        let changes = vec![Change::PutNode(node(1)), Change::PutNode(node(2)), create];
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }).unwrap()
    }

    fn noted(map: &ClusterMap, node: u32, is_closed: bool, managers: &[&str]) -> Vec<String> {
        let managers = managers.iter().copied().collect();
        let noting = Noting { node: Some(NodeId(node)), is_closed, managers: &managers };
        let mut losses = Losses::default();
        for partition in (0..86).map(PartitionId) {
            losses.note(map, (KeyspaceId(3), partition), noting);
        }
        losses.lines(map)
    }

    #[test]
    fn a_keyspace_has_one_line_with_its_name_and_what_is_true_of_its_durability() {
        let memory = map(Durability::Memory);
        let line = "keyspace scratch: durability memory: everything of 86 of 128 partitions is gone with the process of node 1";
        assert_eq!(noted(&memory, 1, false, &["host-1:1", "host-2:1"]), [line]);
        let interval = noted(&map(Durability::Sync), 1, false, &["host-1:1"]);
        assert!(
            interval.len() == 1 && interval[0].contains("86 of 128 partitions go on with a log"),
            "{interval:?}"
        );
        // It is no trouble any more once the keyspace is gone.
        let mut losses = Losses::default();
        let managers = BTreeSet::new();
        let noting = Noting { node: Some(NodeId(1)), is_closed: false, managers: &managers };
        assert!(losses.note(&memory, (KeyspaceId(3), PartitionId(0)), noting));
        assert!(losses.lines(&ClusterMap::default()).is_empty());
    }

    #[test]
    fn only_nodes_that_it_concerns_tell_it_and_managers_for_nodes_without_one() {
        let memory = map(Durability::Memory);
        assert!(noted(&memory, 2, false, &["host-1:1", "host-2:1"]).is_empty(), "node 1 tells it itself");
        assert_eq!(noted(&memory, 2, false, &["host-2:1"]).len(), 1);
    }

    #[test]
    fn what_is_in_memory_only_is_no_trouble_after_a_stop_in_order() {
        assert!(noted(&map(Durability::Memory), 1, true, &["host-1:1"]).is_empty());
        assert_eq!(noted(&map(Durability::Sync), 1, true, &["host-1:1"]).len(), 1, "that is not expected");
    }
}
