//! An operator's requests about the control group itself: its members, and its record of earlier operator
//! decisions.

use std::sync::Arc;

use zerohop_placement::{Address, NodeState};
use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionId};

use super::Agent;
use crate::command::{ControlCommand, ManagerInfo};
use crate::manager;
use crate::state::{Losses, PlacementOverride};

impl Agent {
    /// The command that makes these nodes the control group. A node that has a manager keeps it; another node
    /// gets a new manager with an id above all ids that it has had.
    ///
    /// # Errors
    /// In words, why these nodes cannot be the control group, or would not stay it.
    pub fn managers_on(&self, nodes: &[NodeId]) -> Result<ControlCommand, String> {
        if !matches!(nodes.len(), 1 | 3 | 5) {
            return Err(format!(
                "{} nodes: a control group has 1, 3 or 5, so that more than half of it is left when one or two are gone",
                nodes.len()
            ));
        }
        let mut managers = Vec::new();
        for (at, id) in nodes.iter().enumerate() {
            if nodes[..at].contains(id) {
                return Err(format!("node {id} is named twice"));
            }
            let node = self.map().node(*id).ok_or_else(|| {
                format!("there is no node {id}: `zerohop node list` has those that there are")
            })?;
            let found = self.managers().iter().find(|one| one.addr.as_str() == node.manager());
            managers.push(match found {
                Some(manager) => manager.clone(),
                None if node.state() != NodeState::Up => {
                    return Err(format!("node {id} is {}: name one that is up", node.state()));
                }
                None => {
                    let addr = Address::new(node.manager()).map_err(|error| error.to_string())?;
                    ManagerInfo { id: manager::id_on(*id, self.group.mark() + 1), addr }
                }
            });
        }
        let is_up = |id: &&NodeId| self.map().node(**id).is_some_and(|node| node.state() != NodeState::Down);
        if 2 * nodes.iter().filter(is_up).count() <= nodes.len() {
            let down: Vec<String> = nodes.iter().filter(|id| !is_up(id)).map(ToString::to_string).collect();
            return Err(format!(
                "node {} down: a control group decides nothing unless more than half of its nodes are up",
                match down.len() {
                    1 => format!("{} is", down[0]),
                    _ => format!("{} are", down.join(" and ")),
                }
            ));
        }
        let up = self.map().nodes().filter(|node| node.state() == NodeState::Up).count();
        refuse_too_few(nodes.len(), up)?;
        Ok(ControlCommand::SetManagers(managers))
    }

    /// The pinned partitions of a keyspace; `None`: this node is not in the control group, which alone knows
    /// them.
    pub fn placement_overrides(&self, keyspace: KeyspaceId) -> Option<Vec<(PartitionId, PlacementOverride)>> {
        let state = self.manager.as_ref()?.state();
        Some(
            state
                .placement_overrides()
                .filter(|(of, ..)| *of == keyspace)
                .map(|(_, at, pin)| (at, pin))
                .collect(),
        )
    }

    /// Partitions with data loss that is not acknowledged; none if this node is not in the control group,
    /// which alone knows them.
    pub fn losses(&self) -> Arc<Losses> {
        self.manager.as_ref().map(|manager| Arc::clone(manager.state().losses())).unwrap_or_default()
    }

    /// Partitions that the drop of a keyspace waits for; `None`: this node is not in the control group, which
    /// alone knows them.
    pub fn undrained(&self, keyspace: KeyspaceId) -> Option<Vec<PartitionId>> {
        Some(self.manager.as_ref()?.state().undrained(keyspace))
    }
}

/// Refuses a number of managers that the leader would raise again: see `ManagerReplacement`.
fn refuse_too_few(managers: usize, nodes_up: usize) -> Result<(), String> {
    let needed = manager::managers_needed(nodes_up);
    if managers >= needed {
        return Ok(());
    }
    Err(format!(
        "the cluster would add managers again: while {nodes_up} nodes are up, its control group has at least {needed}. Name {needed} nodes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_group_that_the_cluster_would_enlarge_is_refused() {
        for (managers, nodes_up) in [(1, 1), (1, 2), (3, 1), (3, 3), (3, 8), (5, 9)] {
            assert_eq!(refuse_too_few(managers, nodes_up), Ok(()), "{managers} {nodes_up}");
        }
        for (managers, nodes_up, words) in
            [(1, 3, "at least 3. Name 3 nodes"), (1, 9, "at least 5"), (3, 9, "at least 5")]
        {
            let refused = refuse_too_few(managers, nodes_up).unwrap_err();
            assert!(refused.contains(words) && refused.contains("add managers again"), "{refused}");
        }
    }
}
