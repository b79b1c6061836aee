//! Keyspaces are made, altered, cut and dropped.

use zerohop_placement::{Change, GroupState, KeyspaceConfig};
use zerohop_wire::ids::KeyspaceId;

use super::{Draft, State};
use crate::command::Refusal;
use crate::plan;

impl State {
    /// Makes a keyspace, its partitions spread over the nodes that are up. No more copies are asked for than there are
    /// nodes: on two nodes, writes that wait for three copies would wait for ever.
    pub(super) fn create_keyspace(
        &mut self,
        config: &KeyspaceConfig,
        draft: &mut Draft,
    ) -> Result<u64, Refusal> {
        let id = KeyspaceId(self.next_keyspace);
        self.next_keyspace = self.next_keyspace.checked_add(1).ok_or(Refusal::UnknownKeyspace)?;
        config.check().map_err(|error| Refusal::Map(error.to_string()))?;
        let ring = plan::Ring::new(self, config.seed);
        if ring.is_empty() {
            return Err(Refusal::NoNodes);
        }
        let groups = ring.place(config);
        draft.changes.push(Change::CreateKeyspace { id, config: config.clone(), groups });
        Ok(u64::from(id.get()))
    }

    /// Changes a keyspace in use. Not when entries of a group of several survive a crash: its members do not follow that yet,
    /// and what one of them acknowledged before is not as durable as who readmits it after would believe.
    pub(super) fn alter_keyspace(
        &self,
        id: KeyspaceId,
        config: &KeyspaceConfig,
        draft: &mut Draft,
    ) -> Result<u64, Refusal> {
        let found = self.map().keyspace(id).ok_or(Refusal::UnknownKeyspace)?;
        let is_shared = || found.groups().any(|(_, group)| group.members().count() > 1);
        if found.config().durability != config.durability && is_shared() {
            let text = "the durability of a keyspace with several copies cannot be changed: \
                        make another keyspace with the one that is wanted, and copy the records";
            return Err(Refusal::Map(text.into()));
        }
        if found.config() != config {
            draft.changes.push(Change::AlterKeyspace { id, config: config.clone() });
        }
        Ok(u64::from(id.get()))
    }

    /// Drops a keyspace.
    pub(super) fn drop_keyspace(&self, id: KeyspaceId, draft: &mut Draft) -> Result<u64, Refusal> {
        self.map().keyspace(id).ok_or(Refusal::UnknownKeyspace)?;
        draft.changes.push(Change::DropKeyspace(id));
        Ok(u64::from(id.get()))
    }

    /// Cuts every partition in two. Not while one of them moves or recovers: what the target of a move copies, and what
    /// a member was asked about its log, is told by partition.
    pub(super) fn split_keyspace(&self, id: KeyspaceId, draft: &mut Draft) -> Result<u64, Refusal> {
        let found = self.map().keyspace(id).ok_or(Refusal::UnknownKeyspace)?;
        if found.is_closing() {
            return Err(Refusal::Map("the keyspace is being dropped".into()));
        }
        for (_, group) in found.groups() {
            match group.state {
                GroupState::Settled => {}
                GroupState::Admitting => return Err(Refusal::Moving),
                GroupState::Recovering => return Err(Refusal::Recovering),
            }
        }
        draft.changes.push(Change::SplitKeyspace(id));
        Ok(u64::from(id.get()))
    }
}
