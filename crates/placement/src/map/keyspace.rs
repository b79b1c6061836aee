//! A keyspace in a map: its configuration, its division into partitions, and the replica group of each partition.

use zerohop_wire::ids::PartitionId;

use super::{Group, GroupTable, PendingSplit, Table};
use crate::division::Division;
use crate::keyspace::{KeyOrder, KeyspaceConfig};

/// A keyspace in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    pub(super) config: KeyspaceConfig,
    /// Invariant: it has the order, the partitions and the separators of the configuration.
    pub(super) division: Division,
    pub(super) splits: u8,
    pub(super) is_dropping: bool,
    pub(super) pending_split: Option<PendingSplit>,
    /// By position: the number of a partition, or the place of a region in the order of keys.
    pub(super) groups: GroupTable,
}

impl Keyspace {
    pub(super) fn new(config: KeyspaceConfig, groups: GroupTable) -> Keyspace {
        Keyspace {
            division: Division::new(&config),
            config,
            splits: 0,
            is_dropping: false,
            pending_split: None,
            groups,
        }
    }

    /// The keyspace's configuration.
    pub fn config(&self) -> &KeyspaceConfig {
        &self.config
    }

    /// How the keys are divided among the partitions.
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// How often the keyspace was split since it was created. Together with the number of a partition this permanently identifies a hash range. An
    /// ordered keyspace splits by region, and this stays 0.
    pub fn splits(&self) -> u8 {
        self.splits
    }

    /// Whether the keyspace is being dropped: it accepts no new work, and is removed once nothing is pending.
    pub fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// The split that waits until the primaries of its partitions are ready. A keyspace that is being dropped has none.
    pub fn pending_split(&self) -> Option<&PendingSplit> {
        self.pending_split.as_ref()
    }

    /// The partition of a key ([`Division::partition`]).
    pub fn partition(&self, key: &[u8]) -> PartitionId {
        self.division.partition(key)
    }

    /// The number of splits, modulo 256, that led to a partition.
    pub fn generation(&self, partition: PartitionId) -> u8 {
        let position = || self.division.position(partition);
        match self.config.order {
            KeyOrder::Hashed => self.splits,
            KeyOrder::Ordered => {
                position().map_or(0, |position| self.division.regions().generation(position))
            }
        }
    }

    /// The replica group of a partition, if there is such a partition.
    pub fn group(&self, partition: PartitionId) -> Option<Group<'_>> {
        self.groups.get(PartitionId(self.division.position(partition)?))
    }

    /// The table of its groups, for the codec.
    pub(crate) fn table(&self) -> &Table {
        &self.groups
    }

    /// The replica groups of all partitions, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (PartitionId, Group<'_>)> {
        self.groups.iter().map(|(at, group)| (self.division.at(at.get()), group))
    }
}
