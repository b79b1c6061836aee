//! The first map of a start: the initial map, or the saved one with the node's new incarnation and addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use zerohop_placement::{
    Address, ClusterMap, Durability, MapChange, MapDelta, MapError, Node, NodeState, ReplicaGroup,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId};
use zerohop_wire::messages::ClusterId;

use crate::error::StartError;
use crate::node_files::persisted::SavedNode;

/// The id of the node that bootstraps a cluster.
const FIRST_NODE: NodeId = NodeId(1);
/// The id of its first instance. Zero is reserved: in a greeting it means that the answer is not from an instance.
const FIRST_INSTANCE: InstanceId = InstanceId(1);

/// The parameters of a start.
#[derive(Clone, Debug)]
pub(super) struct Start<'a> {
    pub(super) incarnation: Incarnation,
    pub(super) manager: SocketAddr,
    pub(super) instances: &'a [SocketAddr],
}

impl Start<'_> {
    /// The map of a node that bootstraps a cluster of this id: the node itself, and the keyspace `default`.
    pub(super) fn first(
        &self,
        cluster: ClusterId,
        seed: u64,
        in_memory: bool,
    ) -> Result<SavedNode, StartError> {
        let node = self.node(FIRST_NODE, FIRST_INSTANCE)?;
        let mut map = ClusterMap::of_one_node(node, seed).map_err(StartError::Map)?;
        if in_memory {
            map = without_disk_keyspaces(&map).map_err(StartError::Map)?;
        }
        let next_keyspace = map.keyspaces().map(|(id, _)| id.0 + 1).max().map_or(KeyspaceId(1), KeyspaceId);
        Ok(SavedNode { cluster, node: FIRST_NODE, next_keyspace, map: Arc::new(map) })
    }

    /// The map of a node that has run before. A restarted process is a new member (ARCHITECTURE.md, "Replica groups"): every group that names its
    /// instances gets the next epoch. The groups have one member, so no other node needs to agree.
    pub(super) fn restarted(&self, saved: &SavedNode) -> Result<SavedNode, StartError> {
        let Some(before) = saved.map.node(saved.node).map(|node| node.to_node()) else {
            // This was checked when the state was decoded.
            return Err(StartError::Map(MapError::UnknownNode { node: saved.node }));
        };
        let now = Node { state: before.state, ..self.node(saved.node, before.first_instance)? };
        let first = before.first_instance.0;
        let own_instances = first..first.saturating_add(before.instances.len() as u32);
        let raised = |mut group: ReplicaGroup| {
            if group.as_group().members().any(|member| own_instances.contains(&member.0)) {
                group.epoch = group.epoch.next();
            }
            group
        };
        // The delta is a complete map, because the groups of a large map would exceed the limit of individual changes.
        let mut delta = MapDelta { to: saved.map.epoch().next(), ..saved.map.to_delta() };
        for change in &mut delta.changes {
            match change {
                MapChange::PutNode(node) if node.id == now.id => *node = now.clone(),
                MapChange::CreateKeyspace { groups, .. } => *groups = groups.iter().map(raised).collect(),
                _ => {}
            }
        }
        let map = ClusterMap::default().apply(&delta).map_err(StartError::Map)?;
        Ok(SavedNode { map: Arc::new(map), ..saved.clone() })
    }

    fn node(&self, id: NodeId, first_instance: InstanceId) -> Result<Node, StartError> {
        Ok(Node {
            id,
            state: NodeState::Up,
            incarnation: self.incarnation,
            manager: address(self.manager)?,
            first_instance,
            instances: self.instances.iter().copied().map(address).collect::<Result<_, StartError>>()?,
        })
    }
}

/// The same map without keyspaces that need a disk.
fn without_disk_keyspaces(map: &ClusterMap) -> Result<ClusterMap, MapError> {
    let changes = map.keyspaces().map(|(id, keyspace)| MapChange::AlterKeyspace {
        id,
        config: zerohop_placement::KeyspaceConfig {
            durability: Durability::Memory,
            ..keyspace.config().clone()
        },
    });
    let from: MapEpoch = map.epoch();
    map.apply(&MapDelta { from, to: from.next(), changes: changes.collect() })
}

fn address(address: SocketAddr) -> Result<Address, StartError> {
    Address::new(&address.to_string())
        .map_err(|error| StartError::Listen { address: address.to_string(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start<'a>(incarnation: u64, instances: &'a [SocketAddr]) -> Start<'a> {
        Start { incarnation: Incarnation(incarnation), manager: "127.0.0.1:7400".parse().unwrap(), instances }
    }

    fn addresses(ports: [u16; 2]) -> [SocketAddr; 2] {
        ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn the_first_map_has_this_node_and_the_default_keyspace() {
        let instances = addresses([7401, 7402]);
        let saved = start(7, &instances).first(ClusterId([3; 16]), 5, false).unwrap();
        let node = saved.map.node(FIRST_NODE).unwrap();
        assert_eq!((node.incarnation(), node.instances().count()), (Incarnation(7), 2));
        let (id, keyspace) = saved.map.keyspace_named("default").unwrap();
        assert_eq!((id.0 + 1, keyspace.config().durability), (saved.next_keyspace.0, Durability::DEFAULT));
        let memory = start(7, &instances).first(ClusterId([3; 16]), 5, true).unwrap();
        assert_eq!(memory.map.keyspace(id).unwrap().config().durability, Durability::Memory);
    }

    #[test]
    fn restart_raises_every_epoch_and_moves_no_partition() {
        let before = addresses([7401, 7402]);
        let saved = start(7, &before).first(ClusterId([3; 16]), 5, false).unwrap();
        let after = addresses([8401, 8402]);
        let again = start(8, &after).restarted(&saved).unwrap();
        assert_eq!(again.map.epoch(), saved.map.epoch().next());
        let node = again.map.node(FIRST_NODE).unwrap();
        assert_eq!(node.incarnation(), Incarnation(8));
        let addrs: Vec<&str> = node.instances().map(|instance| instance.addr).collect();
        assert_eq!(addrs, ["127.0.0.1:8401", "127.0.0.1:8402"]);
        for (id, keyspace) in saved.map.keyspaces() {
            let now = again.map.keyspace(id).unwrap();
            assert_eq!(now.config(), keyspace.config());
            for ((_, old), (_, new)) in keyspace.groups().zip(now.groups()) {
                assert_eq!((new.epoch, new.primary), (old.epoch.next(), old.primary));
            }
        }
        assert_eq!(SavedNode { map: saved.map.clone(), ..again }, saved);
    }
}
