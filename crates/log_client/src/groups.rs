//! Groups of a log.

use std::collections::BTreeMap;

use zerohop_client::Transaction;
use zerohop_layer_driver::decide_within;
use zerohop_layer_log::{
    self as layer, Bounds, CommitOffsets, ExpireMembers, GroupOwner, GroupRecord, JoinGroup, LogError,
    MemberId, Membership, OffsetRecord, keys,
};
use zerohop_layer_procedure::Record;

use crate::client::LogClient;
use crate::layer::{Logs, failed};

/// The most records of a page of a list.
const PAGE_RECORDS: usize = 1000;
/// The bytes of records that end a page of a list.
const PAGE_BYTES: usize = 1 << 20;

/// A group and how far it has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSummary {
    /// The generation; 0 without members so far.
    pub generation: u64,
    /// The members with their partitions.
    pub members: Vec<(MemberId, Membership)>,
    /// What it has committed, by partition.
    pub offsets: Vec<PartitionOffset>,
}

impl GroupSummary {
    /// The records that the group has not read, of the partitions where it has committed an offset.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.offsets.iter().map(PartitionOffset::lag).sum()
    }
}

/// An offset that a group has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOffset {
    /// The partition.
    pub partition: u32,
    /// The offset of the next record to read.
    pub offset: u64,
    /// The offset of the first record that is left.
    pub first: u64,
    /// The offset of the next record that will be appended.
    pub next: u64,
}

impl PartitionOffset {
    /// The records that the group has not read. Those that are gone do not count.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.next.saturating_sub(self.offset.max(self.first))
    }
}

/// The extent of a partition, and what groups have committed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionGroups {
    /// The extent, which was read after the offsets.
    pub bounds: Bounds,
    /// Groups, each with the offset of the next record that it reads.
    pub offsets: Vec<(String, u64)>,
    /// There are more groups than were read.
    pub is_partial: bool,
}

impl LogClient {
    /// Random bytes for the id of a member.
    #[must_use]
    pub fn new_member(&self) -> MemberId {
        MemberId(self.store.random())
    }

    /// Joins a group.
    ///
    /// # Errors
    /// [`LogError::BadName`], [`LogError::GroupFull`], and those of the store.
    pub async fn join(&self, join: JoinGroup) -> Result<Membership, LogError> {
        self.run(layer::join_group(join)).await
    }

    /// Keeps a member alive for `session` milliseconds.
    ///
    /// # Errors
    /// [`LogError::OldGeneration`], [`LogError::UnknownMember`]: the member joins again. And those of the store.
    pub async fn heartbeat(
        &self,
        group: String,
        owner: GroupOwner,
        session: u64,
    ) -> Result<Membership, LogError> {
        self.run(layer::heartbeat(group, owner, session)).await
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn leave(&self, group: String, member: MemberId) -> Result<(), LogError> {
        self.run(layer::leave_group(group, member)).await
    }

    /// Removes the members of a group whose time is over. Result: how many.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn expire(&self, group: String) -> Result<usize, LogError> {
        self.run(ExpireMembers::new(group)).await
    }

    /// Commits offsets of a group.
    ///
    /// # Errors
    /// [`LogError::OldGeneration`], [`LogError::NotAssigned`], [`LogError::GroupHasMembers`], and those of the store.
    pub async fn commit(&self, commit: CommitOffsets) -> Result<(), LogError> {
        self.run(layer::commit_offsets(commit)).await
    }

    /// Commits offsets in a transaction: they count if it commits, and only then. So records are processed exactly once if their effects
    /// are in the transaction too.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_within(
        &self,
        transaction: &Transaction,
        commit: CommitOffsets,
    ) -> Result<(), LogError> {
        let decision = layer::commit_offsets_decision(commit);
        decide_within::<Logs, _>(&self.store, transaction, decision).await
    }

    /// What a group has committed in these partitions.
    ///
    /// # Errors
    /// [`LogError::OldGeneration`], and those of the store.
    pub async fn fetch(
        &self,
        group: String,
        owner: Option<GroupOwner>,
        partitions: Vec<u32>,
    ) -> Result<Vec<Option<OffsetRecord>>, LogError> {
        self.run(layer::fetch_offsets(group, owner, partitions)).await
    }

    /// Removes a group without members.
    ///
    /// # Errors
    /// [`LogError::GroupHasMembers`], and those of the store.
    pub async fn delete_group(&self, group: String) -> Result<(), LogError> {
        self.run(layer::delete_group(group)).await
    }

    /// All groups by name: those with members, and those that have committed an offset.
    ///
    /// # Errors
    /// A record is corrupt, and those of the store.
    pub async fn groups(&self) -> Result<BTreeMap<String, GroupSummary>, LogError> {
        let mut groups: BTreeMap<String, GroupSummary> = BTreeMap::new();
        for (key, value) in self.all(keys::groups()).await? {
            let (Some(name), Some(group)) = (keys::name_of(&key), GroupRecord::decode(&value)) else {
                return Err(LogError::Corrupt(key));
            };
            let ids = group.members.iter().map(|member| member.id);
            let members = ids.filter_map(|id| Some((id, group.membership(id)?))).collect();
            let summary = GroupSummary { generation: group.generation, members, offsets: Vec::new() };
            groups.insert(name.to_owned(), summary);
        }
        for partition in 0..self.options().partitions {
            let offsets = self.all(keys::group_offsets(partition)).await?;
            if offsets.is_empty() {
                continue;
            }
            let Bounds { first, next, .. } = self.bounds(partition).await?;
            for (key, value) in offsets {
                let (Some(name), Some(record)) = (keys::name_of(&key), OffsetRecord::decode(&value)) else {
                    return Err(LogError::Corrupt(key));
                };
                let offset = PartitionOffset { partition, offset: record.offset, first, next };
                groups.entry(name.to_owned()).or_default().offsets.push(offset);
            }
        }
        Ok(groups)
    }

    /// The extent of a partition and the offsets of up to a thousand groups, in two requests.
    ///
    /// # Errors
    /// A record is corrupt, and those of the store.
    pub async fn partition_groups(&self, partition: u32) -> Result<PartitionGroups, LogError> {
        let prefix = keys::group_offsets(partition);
        let end = keys::end_of(&prefix);
        let page = self.store.scan(prefix, end, PAGE_RECORDS, PAGE_BYTES).await;
        let (entries, next) = page.map_err(failed)?;
        let mut offsets = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match (keys::name_of(&key), OffsetRecord::decode(&value)) {
                (Some(name), Some(record)) => offsets.push((name.to_owned(), record.offset)),
                _ => return Err(LogError::Corrupt(key)),
            }
        }
        Ok(PartitionGroups { bounds: self.bounds(partition).await?, offsets, is_partial: next.is_some() })
    }

    /// All records whose keys begin with `prefix`.
    async fn all(&self, prefix: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, LogError> {
        let (end, mut from, mut all) = (keys::end_of(&prefix), Some(prefix), Vec::new());
        while let Some(start) = from {
            let page = self.store.scan(start, end.clone(), PAGE_RECORDS, PAGE_BYTES).await;
            let (entries, next) = page.map_err(failed)?;
            all.extend(entries);
            from = next;
        }
        Ok(all)
    }
}
