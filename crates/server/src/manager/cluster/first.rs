//! The first keyspace of a cluster: `default`, which every cluster has. The nodes that have bootstrapped the control group request it once the
//! nodes have joined; only one of the requests takes effect.

use zerohop_control::command::ControlCommand;
use zerohop_placement::{ClusterMap, Durability, KeyspaceConfig, KeyspaceName, NodeState};

use super::FirstKeyspace;

/// Maximum wait for nodes of the list that do not join.
const NODES_WAIT_MS: u64 = 3_000;
/// Interval between the requests of two nodes.
const REQUEST_STAGGER_MS: u64 = 500;

impl FirstKeyspace {
    /// The command, once it is due; `None`: not yet. `since_ms`: the time since the first map.
    pub(super) fn command(
        self,
        map: &ClusterMap,
        since_ms: u64,
        seed: u64,
        in_memory: bool,
    ) -> Option<ControlCommand> {
        let up = map.nodes().filter(|node| node.state() == NodeState::Up).count();
        let is_time = up >= self.nodes || since_ms >= NODES_WAIT_MS;
        if up == 0 || !is_time || since_ms < u64::from(self.create_order) * REQUEST_STAGGER_MS {
            return None;
        }
        let mut config = KeyspaceConfig::default_keyspace(seed).fitted_to(up);
        if in_memory {
            config.durability = Durability::Memory;
        }
        Some(ControlCommand::CreateKeyspace(config))
    }

    /// Whether nothing is left to do.
    pub(super) fn is_done(map: &ClusterMap) -> bool {
        map.keyspace_named(KeyspaceName::default_keyspace().as_str()).is_some()
    }
}
