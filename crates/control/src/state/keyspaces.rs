//! Keyspaces are created, altered, split and dropped.

use zerohop_placement::{KeyOrder, KeyspaceConfig, MapChange, PendingSplit, RegionTable};
use zerohop_wire::ids::KeyspaceId;

use super::{ControlState, MapDraft, Ring};
use crate::command::CommandRefusal;

impl ControlState {
    /// Creates a keyspace and spreads its partitions over the nodes that are up. The number of copies is at
    /// most the number of nodes: on two nodes, writes that wait for three copies would never complete.
    pub(super) fn create_keyspace(
        &mut self,
        config: &KeyspaceConfig,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let id = KeyspaceId(self.next_keyspace);
        self.next_keyspace = self.next_keyspace.checked_add(1).ok_or(CommandRefusal::UnknownKeyspace)?;
        config.check().map_err(|error| CommandRefusal::Map(error.to_string()))?;
        let ring = Ring::new(self, config.seed);
        if ring.is_empty() {
            return Err(CommandRefusal::NoNodes);
        }
        let groups = ring.groups_for(config);
        draft.changes.push(MapChange::CreateKeyspace { id, config: config.clone(), groups });
        Ok(u64::from(id.get()))
    }

    /// Changes a keyspace in use. Refused if it changes whether entries of a group of several members survive
    /// a crash. The members do not follow that change yet, and entries that a member acknowledged before
    /// would be less durable than the primary that readmits it assumes.
    pub(super) fn alter_keyspace(
        &self,
        id: KeyspaceId,
        config: &KeyspaceConfig,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        let is_shared = || found.groups().any(|(_, group)| group.members().count() > 1);
        if found.config().durability != config.durability && is_shared() {
            let text = "the durability of a keyspace with several copies cannot be changed: \
                        make another keyspace with the one that is requested, and copy the records";
            return Err(CommandRefusal::Map(text.into()));
        }
        let config = config.clone().with_separators_of(found.config());
        if *found.config() != config {
            // The map keeps the separators, so the change need not have them.
            let keeps_separators = config.separators == found.config().separators;
            let is_shorter = keeps_separators && config.order == KeyOrder::Ordered;
            let config = if is_shorter { config.ordered() } else { config };
            draft.changes.push(MapChange::AlterKeyspace { id, config });
        }
        Ok(u64::from(id.get()))
    }

    /// Drops a keyspace.
    pub(super) fn drop_keyspace(&self, id: KeyspaceId, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        draft.changes.push(MapChange::DropKeyspace(id));
        Ok(u64::from(id.get()))
    }

    /// Splits partitions without preparation, as earlier programs propose it.
    pub(super) fn split_at_once(
        &self,
        id: KeyspaceId,
        split: &PendingSplit,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        self.check_splittable(id, split)?;
        draft.changes.push(split.clone().into_change(id));
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        let count = found.config().partitions.get();
        Ok(u64::from(match split {
            PendingSplit::Keyspace => id.get(),
            PendingSplit::Region { .. } => {
                found.division().regions().table().map_or(count, RegionTable::next)
            }
        }))
    }
}
