//! The cluster map: nodes, instances, keyspaces and the replica group of every partition, at one epoch.
//!
//! A map is an immutable value. [`ClusterMap::apply`] creates the next one, which shares all unchanged parts with it. Keeping the last few, or
//! giving one to every thread, therefore costs little. The contents of a map are valid: its groups name existing instances, its keyspaces are
//! valid, and no epoch has decreased.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zerohop_wire::AuthFault;
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};

mod address;
mod apply;
mod delta;
mod encoded_bytes;
mod error;
mod group;
mod groups;
mod history;
mod initial_map;
mod keyspace;
mod node;
mod pending_split;
mod ring_placement;
mod table;
mod token;

pub use address::{Address, AddressError};
pub use apply::MapBounds;
pub use delta::{MapChange, MapDelta};
pub use error::MapError;
pub use group::{Group, GroupFault, GroupState, ReplicaGroup};
pub use groups::Groups;
pub use history::{MapDifference, MapHistory};
pub use initial_map::{DEFAULT_KEYSPACE, LOCAL_KEYSPACE};
pub use keyspace::Keyspace;
pub use node::{InstanceRef, Node, NodeRef, NodeState};
pub use pending_split::PendingSplit;
pub use ring_placement::Ring;
pub use token::{Grant, Permissions, TokenEntry, TokenExpiry};

use node::NodeTable;
use table::GroupTable;
pub(crate) use table::{GroupShape, GroupTable as Table, Members};

/// Everything that is needed to send a request directly to the instance of the data's primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMap {
    epoch: MapEpoch,
    nodes: Arc<NodeTable>,
    keyspaces: BTreeMap<KeyspaceId, Arc<Keyspace>>,
    tokens: Arc<BTreeMap<u64, TokenEntry>>,
}

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The partition of the key.
    pub partition: PartitionId,
    /// Its epoch, which the request contains.
    pub epoch: PartitionEpoch,
    /// Its primary.
    pub instance: InstanceId,
    /// The address of that instance.
    pub addr: &'a str,
}

impl ClusterMap {
    /// The epoch of the map; zero if no map is known yet, and then the map is empty.
    pub fn epoch(&self) -> MapEpoch {
        self.epoch
    }

    /// The destination of requests for a key.
    pub fn route(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Route<'_>, RouteError> {
        let found = self.keyspaces.get(&keyspace).ok_or(RouteError { keyspace, epoch: self.epoch })?;
        let partition = found.partition(key);
        let Group { epoch, primary, .. } =
            found.group(partition).expect("a keyspace has a group of every partition");
        let instance = self.nodes.instance(primary).expect("groups name instances of the map");
        Ok(Route { partition, epoch, instance: primary, addr: instance.addr })
    }

    /// The nodes, by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeRef<'_>> {
        self.nodes.iter()
    }

    /// The node of this id.
    pub fn node(&self, id: NodeId) -> Option<NodeRef<'_>> {
        self.nodes.get(id)
    }

    /// The instance of this id.
    pub fn instance(&self, id: InstanceId) -> Option<InstanceRef<'_>> {
        self.nodes.instance(id)
    }

    /// The keyspaces, by id.
    pub fn keyspaces(&self) -> impl ExactSizeIterator<Item = (KeyspaceId, &Keyspace)> {
        self.keyspaces.iter().map(|(id, keyspace)| (*id, &**keyspace))
    }

    /// The keyspace of this id.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Keyspace> {
        self.keyspaces.get(&id).map(|keyspace| &**keyspace)
    }

    /// The keyspace of this name. This searches all keyspaces, so it is meant for opening one, not for every request.
    pub fn keyspace_named(&self, name: &str) -> Option<(KeyspaceId, &Keyspace)> {
        self.keyspaces().find(|(_, keyspace)| keyspace.config.name.as_str() == name)
    }

    /// The token of this number, if it is valid.
    ///
    /// # Errors
    /// The token is unknown, was revoked, or has expired.
    pub fn token(&self, id: u64) -> Result<&TokenEntry, AuthFault> {
        match self.tokens.get(&id) {
            Some(token) if token.has_expired() => Err(AuthFault::TokenExpired),
            Some(token) => Ok(token),
            None => Err(AuthFault::Token),
        }
    }

    /// The tokens, by number, including those that have expired.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &TokenEntry> {
        self.tokens.values()
    }

    /// The tokens with an expiry that has not passed, by number, with its time in milliseconds since 1970.
    pub fn expiring(&self) -> impl Iterator<Item = (u64, u64)> {
        self.tokens().filter_map(|token| match token.expiry {
            Some(TokenExpiry { at_ms, has_passed: false }) => Some((token.id, at_ms)),
            _ => None,
        })
    }

    /// The partitions whose group names this instance, in any role.
    pub fn partitions_of(
        &self,
        instance: InstanceId,
    ) -> impl Iterator<Item = (KeyspaceId, PartitionId, Group<'_>)> {
        self.keyspaces().flat_map(move |(id, keyspace)| {
            keyspace
                .groups()
                .filter(move |(_, group)| group.members().any(|member| member == instance))
                .map(move |(partition, group)| (id, partition, group))
        })
    }

    /// Whether a group waits for members that are down. No replica serves it until one of them returns, or until the operator declares that they
    /// will not return (`zerohop recover`). A primary that is down does not count if an in-sync replica is up, because that replica takes over at
    /// once.
    pub fn is_unavailable(&self, group: Group<'_>) -> bool {
        let mut in_sync = std::iter::once(group.primary).chain(group.in_sync.iter().copied());
        match group.state {
            GroupState::Stable | GroupState::Admitting => in_sync.all(|instance| self.is_down(instance)),
            // If the other members were sufficient, the recovery would have ended.
            GroupState::Recovering => in_sync.any(|instance| self.is_down(instance)),
        }
    }

    /// Whether the node of an instance is down, or was removed.
    pub fn is_down(&self, instance: InstanceId) -> bool {
        let node = self.instance(instance).and_then(|instance| self.node(instance.node));
        node.is_none_or(|node| node.state() == NodeState::Down)
    }

    /// Number of bytes of [`ClusterMap::encode`], without encoding.
    pub(crate) fn encoded_bytes(&self) -> usize {
        encoded_bytes::of_map(self)
    }

    /// The number of nodes, and the encoded length of all their addresses in bytes.
    pub(crate) fn nodes_encoded(&self) -> (usize, usize) {
        self.nodes.encoded()
    }

    /// Bytes on the heap for nodes without their addresses, for the addresses, and for replica groups.
    pub fn memory_bytes(&self) -> (usize, usize, usize) {
        let (nodes, addresses) = self.nodes.memory_bytes();
        let groups: usize = self.keyspaces.values().map(|keyspace| keyspace.groups.memory_bytes()).sum();
        // An order that several keyspaces share counts once.
        let orders: BTreeMap<_, _> = self
            .keyspaces
            .values()
            .filter_map(|keyspace| keyspace.groups.ring())
            .map(|(_, order)| (order.as_ptr(), size_of_val(&**order)))
            .collect();
        (nodes, addresses, groups + orders.values().sum::<usize>())
    }
}

/// The error for a key of a keyspace that is not in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The requested keyspace.
    pub keyspace: KeyspaceId,
    /// The epoch of the map.
    pub epoch: MapEpoch,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteError { keyspace, epoch } = self;
        write!(
            f,
            "the map of epoch {epoch} has no keyspace {keyspace}: it was dropped, or created later; fetch a newer map \
             and open the keyspace by its name"
        )
    }
}

impl std::error::Error for RouteError {}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
