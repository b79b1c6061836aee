//! What an operator asks of the control group itself: who is to sit in it, and what it remembers of earlier words.

use std::sync::Arc;

use zerohop_placement::{Address, NodeState};
use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionId};

use super::Agent;
use crate::command::{ControlCommand, ManagerInfo};
use crate::manager;
use crate::state::{Losses, Pin};

impl Agent {
    /// The command by which these nodes are the control group. A node that has a manager keeps it; another gets a new one, of an id
    /// above any that it has had.
    ///
    /// # Errors
    /// In words, why they cannot be.
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
                Some(sits) => sits.clone(),
                None if node.state() != NodeState::Up => {
                    return Err(format!("node {id} is {}: name one that is up", node.state()));
                }
                None => {
                    let addr = Address::new(node.manager()).map_err(|error| error.to_string())?;
                    ManagerInfo { id: manager::id_on(*id, self.group.mark + 1), addr }
                }
            });
        }
        Ok(ControlCommand::SetManagers(managers))
    }

    /// Where operators want partitions of a keyspace; `None`: this node has no part in the control group, which alone knows.
    pub fn pins(&self, keyspace: KeyspaceId) -> Option<Vec<(PartitionId, Pin)>> {
        let state = self.seat.as_ref()?.state();
        Some(state.pins().filter(|(of, ..)| *of == keyspace).map(|(_, at, pin)| (at, pin)).collect())
    }

    /// What is missing of partitions, and is not acknowledged; none if this node has no part in the control group, which alone knows.
    pub fn losses(&self) -> Arc<Losses> {
        self.seat.as_ref().map(|seat| Arc::clone(seat.state().losses())).unwrap_or_default()
    }

    /// Partitions that the drop of a keyspace waits for; `None`: this node has no part in the control group, which alone knows.
    pub fn undrained(&self, keyspace: KeyspaceId) -> Option<Vec<PartitionId>> {
        Some(self.seat.as_ref()?.state().undrained(keyspace))
    }
}
