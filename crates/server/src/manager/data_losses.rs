//! Data that was lost by restarts of nodes: one line for each keyspace, on the nodes that it concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zerohop_control::state;
use zerohop_placement::{ClusterMap, Durability};
use zerohop_wire::ids::{KeyspaceId, NodeId};
use zerohop_wire::plurals::{by_number, counted};

/// The data losses that this node reports, from the control group's record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DataLosses {
    /// All losses that are not acknowledged.
    pub(super) all: Arc<state::Losses>,
    /// This node.
    pub(super) node: Option<NodeId>,
    /// The addresses of the control group's managers: these nodes report losses for all nodes without a manager.
    pub(super) managers: BTreeSet<String>,
}

/// The loss of one keyspace.
#[derive(Debug, Default)]
struct Loss {
    partitions: usize,
    /// Number of partitions without another copy.
    sole_copies: usize,
    /// The nodes that had them.
    nodes: BTreeSet<NodeId>,
}

impl DataLosses {
    /// Whether this node reports losses of these nodes.
    fn reports_for(&self, map: &ClusterMap, nodes: &BTreeSet<NodeId>) -> bool {
        let has_manager =
            |node: &NodeId| map.node(*node).is_some_and(|node| self.managers.contains(node.manager()));
        self.node.is_some_and(|node| nodes.contains(&node)) || !nodes.iter().any(has_manager)
    }

    /// One line for each keyspace that still exists.
    pub(super) fn lines(&self, map: &ClusterMap) -> Vec<String> {
        let mut of: BTreeMap<KeyspaceId, Loss> = BTreeMap::new();
        for ((keyspace, partition), state::Loss { nodes, .. }) in &*self.all {
            let group = map.keyspace(*keyspace).and_then(|found| found.group(*partition));
            if let Some(group) = group.filter(|_| self.reports_for(map, nodes)) {
                let loss = of.entry(*keyspace).or_default();
                loss.partitions += 1;
                loss.sole_copies += usize::from(group.members().count() == 1);
                loss.nodes.extend(nodes);
            }
        }
        let line = |(keyspace, loss): (KeyspaceId, Loss)| {
            let config = map.keyspace(keyspace)?.config();
            let Loss { partitions: count, sole_copies: alone, nodes } = loss;
            let all = counted(config.partitions.get(), "partition");
            let nodes: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
            let word = by_number(nodes.len(), "node", "nodes");
            let nodes = format!("{word} {}", nodes.join(", "));
            let what = match config.durability {
                Durability::Memory if alone == count => {
                    format!("everything of {count} of {all} is gone with the process of {nodes}")
                }
                Durability::Memory => format!(
                    "all nodes with in-sync copies of {count} of {all} have started again: the data may be gone ({nodes})"
                ),
                Durability::Interval { .. } | Durability::Sync => format!(
                    "{count} of {all} {} with a log whose last moments may be missing ({nodes} ended without writing them)",
                    by_number(count, "continues", "continue")
                ),
            };
            Some(format!(
                "keyspace {}: durability {}: {what}. `zerohop recover acknowledge {}` ends this report",
                config.name, config.durability, config.name
            ))
        };
        of.into_iter().filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{
        Address, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
    };
    use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, PartitionEpoch, PartitionId};

    use super::*;

    /// Two nodes, and a keyspace whose partitions are all on node 1 alone.
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
        let create = MapChange::CreateKeyspace { id: KeyspaceId(3), config, groups: groups.into() };
        let changes = vec![MapChange::PutNode(node(1)), MapChange::PutNode(node(2)), create];
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }).unwrap()
    }

    /// The report of a node about 86 partitions of node 1.
    fn report_lines(map: &ClusterMap, node: u32, managers: &[&str]) -> Vec<String> {
        let loss = state::Loss { epoch: MapEpoch(1), nodes: [NodeId(1)].into() };
        let all = (0..86).map(|partition| ((KeyspaceId(3), PartitionId(partition)), loss.clone()));
        let managers = managers.iter().map(|one| (*one).to_owned()).collect();
        let losses = DataLosses { all: Arc::new(all.collect()), node: Some(NodeId(node)), managers };
        losses.lines(map)
    }

    #[test]
    fn loss_report_has_one_line_per_keyspace_with_durability_and_remedy() {
        let memory = map(Durability::Memory);
        let line = "keyspace scratch: durability memory: everything of 86 of 128 partitions is gone with the process of node 1. \
                    `zerohop recover acknowledge scratch` ends this report";
        assert_eq!(report_lines(&memory, 1, &["host-1:1", "host-2:1"]), [line]);
        let interval = report_lines(&map(Durability::Sync), 1, &["host-1:1"]);
        assert!(
            interval.len() == 1 && interval[0].contains("86 of 128 partitions continue with a log"),
            "{interval:?}"
        );
        // The trouble ends when the keyspace is gone.
        assert!(report_lines(&ClusterMap::default(), 1, &[]).is_empty());
    }

    #[test]
    fn losses_are_reported_by_affected_nodes_or_managers() {
        let memory = map(Durability::Memory);
        assert!(report_lines(&memory, 2, &["host-1:1", "host-2:1"]).is_empty(), "node 1 tells it itself");
        assert_eq!(report_lines(&memory, 2, &["host-2:1"]).len(), 1);
    }
}
