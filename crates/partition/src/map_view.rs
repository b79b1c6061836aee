//! What a step of a partition may ask about the cluster map.

use zerohop_placement::{ClusterMap, Durability as KeyspaceDurability, PendingSplit};
use zerohop_transaction::{Durability, TransactionPart};
use zerohop_wire::ids::KeyspaceId;

use crate::hash_range::HashRange;

/// A view of the map that an instance knows. It reads, and changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'m>(Option<&'m ClusterMap>);

impl<'m> MapView<'m> {
    /// The view of an owner without a map: every keyspace exists, and none is being dropped.
    pub const NONE: MapView<'static> = MapView(None);

    /// The view of a map.
    #[must_use]
    pub const fn of(map: &'m ClusterMap) -> MapView<'m> {
        MapView(Some(map))
    }

    /// The first of these parts, if any, for which the map differs: it has no such keyspace, the keyspace is being dropped, or
    /// its durability is another.
    #[must_use]
    pub fn misplaced(self, parts: &[TransactionPart]) -> Option<u32> {
        let map = self.0?;
        let is_placed = |part: &TransactionPart| {
            map.keyspace(part.routing_key.keyspace).filter(|found| !found.is_dropping()).is_some_and(
                |found| {
                    part.durability
                        == match found.config().durability {
                            KeyspaceDurability::Memory => Durability::Memory,
                            KeyspaceDurability::Interval { .. } => Durability::Interval,
                            KeyspaceDurability::Sync => Durability::Sync,
                        }
                },
            )
        };
        parts.iter().position(|part| !is_placed(part)).map(|part| part as u32)
    }

    /// Whether the map has a keyspace.
    #[must_use]
    pub fn has_keyspace(self, keyspace: KeyspaceId) -> bool {
        self.0.is_none_or(|map| map.keyspace(keyspace).is_some())
    }

    /// Whether the map has a keyspace that is being dropped.
    #[must_use]
    pub fn is_dropping(self, keyspace: KeyspaceId) -> bool {
        self.0.is_some_and(|map| map.keyspace(keyspace).is_some_and(|found| found.is_dropping()))
    }

    /// Whether the map has a pending split of the partition with this range.
    #[must_use]
    pub fn awaits_split(self, range: &HashRange) -> bool {
        let found = self.0.and_then(|map| map.keyspace(range.keyspace_range().keyspace));
        match found.and_then(|found| found.pending_split()) {
            None => false,
            Some(PendingSplit::Keyspace) => true,
            Some(PendingSplit::Region { region, .. }) => range.region() == Some(*region),
        }
    }
}
