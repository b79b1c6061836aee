//! What changed between two epochs of the map.

use zerohop_wire::ids::{KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::{ClusterMap, Groups, MapError, Node, ReplicaGroup, TokenEntry};
use crate::keyspace::KeyspaceConfig;
use crate::limits::CHANGES_MAX;

/// The changes from one epoch of the map to a later one, in order. From epoch zero it is a whole map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDelta {
    /// The epoch that the changes apply to; zero for a whole map.
    pub from: MapEpoch,
    /// The epoch that they lead to.
    pub to: MapEpoch,
    /// The changes.
    pub changes: Vec<MapChange>,
}

/// One change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// A node is new, or is now like this.
    PutNode(Node),
    /// A node is gone; no group may name its instances any more.
    RemoveNode(NodeId),
    /// A keyspace is new.
    CreateKeyspace {
        /// Its id, never used before.
        id: KeyspaceId,
        /// What it is.
        config: KeyspaceConfig,
        /// The group of every partition.
        groups: Groups,
    },
    /// A keyspace has another configuration.
    AlterKeyspace {
        /// Its id.
        id: KeyspaceId,
        /// What it is now.
        config: KeyspaceConfig,
    },
    /// A keyspace is gone.
    DropKeyspace(KeyspaceId),
    /// A partition has another group, of a higher epoch.
    SetGroup {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// Its group now.
        group: ReplicaGroup,
    },
    /// A keyspace has twice as many partitions: each is cut by the next bit of the hashes, and both children have the
    /// members of their parent, at an epoch above that of any partition before.
    SplitKeyspace(KeyspaceId),
    /// A keyspace that this delta creates was split so often before. Part of whole maps.
    HasSplit {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// How often: at least once, and no more than it has bits that name a partition.
        splits: u8,
    },
    /// A keyspace is being dropped: nothing begins in it any more, and it goes once nothing is under way.
    CloseKeyspace(KeyspaceId),
    /// A token is new, or permits something else.
    PutToken(TokenEntry),
    /// A token is revoked.
    RemoveToken(u64),
}

impl MapDelta {
    /// Whether this describes a whole map rather than a change of one.
    pub fn is_whole(&self) -> bool {
        self.from == MapEpoch(0)
    }

    /// This delta and the one after it as one, so that whoever is several epochs behind gets a single answer.
    pub fn join(mut self, next: &MapDelta) -> Result<MapDelta, MapError> {
        if next.from != self.to {
            return Err(MapError::WrongBase { map: self.to, delta: next.from });
        }
        if self.changes.len() + next.changes.len() > CHANGES_MAX {
            return Err(MapError::TooManyChanges { changes: self.changes.len() + next.changes.len() });
        }
        self.to = next.to;
        self.changes.extend(next.changes.iter().cloned());
        Ok(self)
    }
}

impl ClusterMap {
    /// The whole map as a delta from nothing.
    pub fn to_delta(&self) -> MapDelta {
        let nodes = self.nodes().map(|node| MapChange::PutNode(node.to_node()));
        let keyspaces = self.keyspaces().flat_map(|(id, keyspace)| {
            let create = MapChange::CreateKeyspace {
                id,
                config: keyspace.config().clone(),
                groups: Groups::of(&keyspace.groups),
            };
            let splits = keyspace.splits();
            let has_split = (splits > 0).then_some(MapChange::HasSplit { keyspace: id, splits });
            let close = keyspace.is_closing().then_some(MapChange::CloseKeyspace(id));
            std::iter::once(create).chain(has_split).chain(close)
        });
        let tokens = self.tokens().map(|token| MapChange::PutToken(token.clone()));
        MapDelta {
            from: MapEpoch(0),
            to: self.epoch(),
            changes: nodes.chain(keyspaces).chain(tokens).collect(),
        }
    }
}
