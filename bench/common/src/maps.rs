//! Cluster maps for servers that are not a cluster.

use zerohop_placement::{Address, ClusterMap, Node, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

use crate::failure::Failure;

/// The map of a cluster of one instance, which is its own manager, at `address`.
///
/// # Errors `address` is invalid.
pub fn map_of_one(address: &str) -> Result<ClusterMap, Failure> {
    let no_map = |error: String| Failure::Usage(format!("no map of a node at {address}: {error}"));
    let address = Address::new(address).map_err(|error| no_map(error.to_string()))?;
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(1),
        manager: address.clone(),
        first_instance: InstanceId(1),
        instances: vec![address],
    };
    ClusterMap::of_one_node(node, 1).map_err(|error| no_map(error.to_string()))
}
