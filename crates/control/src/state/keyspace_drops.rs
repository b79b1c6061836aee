//! Keyspaces that are being dropped. A keyspace is closed first, so that no new work starts in it, and
//! removed once every primary has reported that it has no pending work there.
//!
//! A primary's report is valid if the groups of the keyspace are the same in its map as now. Otherwise an instance that
//! has become primary since has not reported. A drained partition stays drained, as no primary of a closed keyspace
//! starts new work.

use std::collections::BTreeSet;

use zerohop_placement::{MapChange, MapDelta};
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionId};

use super::{ControlState, MapDraft};
use crate::command::{CommandRefusal, KeyspaceDrained};

/// The reports about a keyspace that is being dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppingKeyspace {
    /// The map in which the keyspace was closed, or one of its groups changed last.
    pub since: MapEpoch,
    /// Instances that have no pending work there, by that map or a later one.
    pub drained: BTreeSet<InstanceId>,
}

impl ControlState {
    /// The keyspaces that are being dropped.
    pub fn dropping_keyspaces(&self) -> impl Iterator<Item = (KeyspaceId, &DroppingKeyspace)> {
        self.dropping.iter().map(|(id, dropping)| (*id, dropping))
    }

    /// Partitions of a keyspace that is being dropped whose primary has not reported that it is drained.
    pub fn undrained(&self, id: KeyspaceId) -> Vec<PartitionId> {
        let (Some(found), Some(dropping)) = (self.map().keyspace(id), self.dropping.get(&id)) else {
            return Vec::new();
        };
        let open = found.groups().filter(|(_, group)| !dropping.drained.contains(&group.primary));
        open.map(|(partition, _)| partition).collect()
    }

    /// Closes a keyspace. A repeated close changes nothing.
    pub(super) fn begin_drop_keyspace(
        &self,
        id: KeyspaceId,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        if !found.is_dropping() {
            draft.changes.push(MapChange::BeginDropKeyspace(id));
        }
        Ok(u64::from(id.get()))
    }

    /// An instance has no pending work in a closed keyspace; after the last such report the keyspace is
    /// removed.
    pub(super) fn drained(
        &mut self,
        drained: &KeyspaceDrained,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let KeyspaceDrained { keyspace, instance, map } = *drained;
        let found = self.history.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let dropping = self.dropping.get_mut(&keyspace);
        let Some(dropping) = dropping.filter(|dropping| map >= dropping.since) else {
            return Err(CommandRefusal::Map(
                "the keyspace is not being dropped, or its groups have changed since".into(),
            ));
        };
        if !found.groups().any(|(_, group)| group.primary == instance) {
            return Err(CommandRefusal::Map("it is no primary of the keyspace, and is not asked".into()));
        }
        dropping.drained.insert(instance);
        if found.groups().all(|(_, group)| dropping.drained.contains(&group.primary)) {
            draft.changes.push(MapChange::DropKeyspace(keyspace));
        }
        Ok(u64::from(keyspace.get()))
    }

    /// Updates the records after a change of the map.
    pub(super) fn update_dropping(&mut self, delta: &MapDelta) {
        for change in &delta.changes {
            match change {
                MapChange::BeginDropKeyspace(id) => {
                    self.dropping
                        .insert(*id, DroppingKeyspace { since: delta.to, ..DroppingKeyspace::default() });
                }
                MapChange::DropKeyspace(id) => drop(self.dropping.remove(id)),
                MapChange::SetGroup { keyspace, .. } => {
                    if let Some(dropping) = self.dropping.get_mut(keyspace) {
                        *dropping = DroppingKeyspace { since: delta.to, ..DroppingKeyspace::default() };
                    }
                }
                _ => {}
            }
        }
    }
}
