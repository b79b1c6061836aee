//! The changes between two epochs of the map.

use zerohop_wire::ids::{KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::{ClusterMap, Groups, MapError, Node, PendingSplit, ReplicaGroup, TokenEntry};
use crate::keyspace::KeyspaceConfig;
use crate::limits::CHANGES_MAX;
use crate::regions::RegionTable;

/// The changes from one epoch of the map to a later one, in order. From epoch zero it is a complete map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDelta {
    /// The epoch to which the changes apply; zero for a complete map.
    pub from: MapEpoch,
    /// The epoch after the changes.
    pub to: MapEpoch,
    /// The changes.
    pub changes: Vec<MapChange>,
}

/// One change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// A node is added or replaced.
    PutNode(Node),
    /// A node is removed; no group may name its instances any more.
    RemoveNode(NodeId),
    /// A keyspace is created.
    CreateKeyspace {
        /// Its id, never used before.
        id: KeyspaceId,
        /// Its configuration.
        config: KeyspaceConfig,
        /// The group of every partition.
        groups: Groups,
    },
    /// A keyspace's configuration changes.
    AlterKeyspace {
        /// Its id.
        id: KeyspaceId,
        /// Its new configuration. That of an ordered keyspace may leave out the separators, which stay as they are.
        config: KeyspaceConfig,
    },
    /// A keyspace is removed.
    DropKeyspace(KeyspaceId),
    /// A partition gets another group, with a higher epoch.
    SetGroup {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// Its new group.
        group: ReplicaGroup,
    },
    /// The number of a keyspace's partitions doubles: each is split by the next hash bit. Both children have the members of their parent, with an
    /// epoch above that of any partition before.
    SplitKeyspace(KeyspaceId),
    /// A keyspace that this delta creates was split this often before. Part of complete maps.
    HasSplit {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The number of splits: at least one, and at most the number of bits that name a partition.
        splits: u8,
    },
    /// A region of an ordered keyspace is split into two, which get the next numbers. Both have the members of their parent, and an epoch above
    /// its own.
    SplitRegion {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The region.
        region: PartitionId,
        /// The lowest key of the right child: above the lowest of the region, and below its end.
        separator: Box<[u8]>,
        /// The left child's share of the points, of 256. A child that will not be split again needs few.
        share: u8,
    },
    /// The regions of an ordered keyspace that this delta creates. Part of complete maps, if a region was split.
    HasRegions {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The table.
        table: Box<RegionTable>,
    },
    /// A keyspace is being dropped: it accepts no new work, and is removed once nothing is pending.
    BeginDropKeyspace(KeyspaceId),
    /// A keyspace or a region is to be split once no primary has an unfinished unit over several keys. At most one split of a keyspace is
    /// pending.
    BeginSplit {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partitions to split.
        split: PendingSplit,
    },
    /// The pending split of a keyspace is given up.
    CancelSplit(KeyspaceId),
    /// A token is added, or its permissions change.
    PutToken(TokenEntry),
    /// A token is revoked.
    RemoveToken(u64),
}

impl PendingSplit {
    /// The change of the map that splits the partitions.
    #[must_use]
    pub fn into_change(self, keyspace: KeyspaceId) -> MapChange {
        match self {
            PendingSplit::Keyspace => MapChange::SplitKeyspace(keyspace),
            PendingSplit::Region { region, separator, share } => {
                MapChange::SplitRegion { keyspace, region, separator, share }
            }
        }
    }
}

impl MapDelta {
    /// Whether this is a complete map instead of a change.
    pub fn is_complete(&self) -> bool {
        self.from == MapEpoch(0)
    }

    /// Combines this delta and the next one, so that a client that is several epochs behind gets a single answer.
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
    /// The complete map as a delta from epoch zero.
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
            let table = keyspace.division().regions().table().cloned().map(Box::new);
            let has_regions = table.map(|table| MapChange::HasRegions { keyspace: id, table });
            let close = keyspace.is_dropping().then_some(MapChange::BeginDropKeyspace(id));
            let begin = keyspace.pending_split().cloned();
            let begin = begin.map(|split| MapChange::BeginSplit { keyspace: id, split });
            std::iter::once(create).chain(has_split).chain(has_regions).chain(close).chain(begin)
        });
        let tokens = self.tokens().map(|token| MapChange::PutToken(token.clone()));
        MapDelta {
            from: MapEpoch(0),
            to: self.epoch(),
            changes: nodes.chain(keyspaces).chain(tokens).collect(),
        }
    }
}
