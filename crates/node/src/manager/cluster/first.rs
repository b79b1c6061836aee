//! The first keyspace of a cluster: `default`, which every cluster has. Whoever has founded the control group asks for it
//! once the nodes are there; of several who do, one is heard.

use zerohop_control::command::ControlCommand;
use zerohop_placement::{ClusterMap, Durability, KeyspaceConfig, KeyspaceName, NodeState};

use super::FirstKeyspace;

/// Nodes of the list that do not come are not waited for longer than this.
const NODES_WAIT_MS: u64 = 3_000;
/// Between two who would make it.
const TURN_MS: u64 = 500;

impl FirstKeyspace {
    /// The command, once it is time; `None`: not yet. `since_ms`: for how long there was a map.
    pub(super) fn command(
        self,
        map: &ClusterMap,
        since_ms: u64,
        seed: u64,
        in_memory: bool,
    ) -> Option<ControlCommand> {
        let up = map.nodes().filter(|node| node.state() == NodeState::Up).count();
        let is_time = up >= self.nodes || since_ms >= NODES_WAIT_MS;
        if up == 0 || !is_time || since_ms < u64::from(self.place) * TURN_MS {
            return None;
        }
        let mut config = KeyspaceConfig::default_keyspace(seed).fitted_to(up);
        if in_memory {
            config.durability = Durability::Memory;
        }
        Some(ControlCommand::CreateKeyspace(config))
    }

    /// Whether there is nothing left to do.
    pub(super) fn is_done(map: &ClusterMap) -> bool {
        map.keyspace_named(KeyspaceName::default_keyspace().as_str()).is_some()
    }
}
