//! Offsets that groups commit.

use zerohop_layer_procedure::{Decide, OptimisticTransaction, Writes};

use super::check_owner;
use crate::error::LogError;
use crate::keys;
use crate::procedure::{LogPause, LogProcedure, LogReads};
use crate::records::{GroupRecord, LogOptions, MemberId, OffsetRecord};

/// A member of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOwner {
    /// The member.
    pub member: MemberId,
    /// The generation in which it got its partitions.
    pub generation: u64,
}

/// A commit of offsets.
#[derive(Clone, Debug)]
pub struct CommitOffsets {
    /// The name of the group.
    pub group: String,
    /// The member. A group without members takes offsets of clients that are none.
    pub owner: Option<GroupOwner>,
    /// Partitions, and the offset of the next record to read in each.
    pub offsets: Vec<(u32, u64)>,
}

/// Commits offsets in one transaction, if the generation of the member is still the current one.
pub fn commit_offsets(commit: CommitOffsets) -> impl LogProcedure<Output = ()> + Send {
    OptimisticTransaction::new(commit_offsets_decision(commit))
}

/// The decision of a commit of offsets, for a transaction that has other parts too.
pub fn commit_offsets_decision(commit: CommitOffsets) -> impl Decide<LogError, Output = ()> + Send {
    move |now: u64, reads: &mut LogReads, writes: &mut Writes| commit_in(now, reads, writes, &commit)
}

fn commit_in(
    now: u64,
    reads: &mut LogReads,
    writes: &mut Writes,
    commit: &CommitOffsets,
) -> Result<(), LogPause> {
    let name = keys::check_name(&commit.group)?;
    let partitions = match commit.owner {
        Some(owner) => check_owner(reads, name, owner)?.partitions,
        None => {
            reads.require([keys::options(), keys::group(name)])?;
            let options: LogOptions = reads.get(&keys::options())?.ok_or(LogError::NoSuchLog)?;
            let group = reads.get::<GroupRecord>(&keys::group(name))?;
            if group.is_some_and(|group| !group.members.is_empty()) {
                return Err(LogError::GroupHasMembers.into());
            }
            0..options.partitions
        }
    };
    let generation = commit.owner.map_or(0, |owner| owner.generation);
    for (partition, offset) in &commit.offsets {
        if !partitions.contains(partition) {
            return Err(LogError::NotAssigned { partition: *partition }.into());
        }
        let record = OffsetRecord { offset: *offset, generation, committed: now };
        writes.put(keys::group_offset(*partition, name), &record);
    }
    Ok(())
}

/// Reads what a group has committed in these partitions. With a member, its generation is confirmed.
///
/// The group is read before the offsets: what an older generation has committed up to its end is seen.
pub fn fetch_offsets(
    group: String,
    owner: Option<GroupOwner>,
    partitions: Vec<u32>,
) -> impl LogProcedure<Output = Vec<Option<OffsetRecord>>> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, _: &mut Writes| {
        let name = keys::check_name(&group)?;
        if let Some(owner) = owner {
            check_owner(reads, name, owner)?;
        }
        let all = partitions.iter().map(|partition| keys::group_offset(*partition, name));
        let all: Vec<_> = all.collect();
        reads.require(all.iter().cloned())?;
        all.iter().map(|key| reads.get::<OffsetRecord>(key)).collect()
    })
}

/// Removes a group without members, and what it has committed. There is no error if it does not exist.
pub fn delete_group(group: String) -> impl LogProcedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, writes: &mut Writes| {
        let name = keys::check_name(&group)?;
        reads.require([keys::options(), keys::group(name)])?;
        let options: LogOptions = reads.get(&keys::options())?.ok_or(LogError::NoSuchLog)?;
        let record = reads.get::<GroupRecord>(&keys::group(name))?;
        if record.as_ref().is_some_and(|group| !group.members.is_empty()) {
            return Err(LogError::GroupHasMembers.into());
        }
        let offsets = (0..options.partitions).map(|partition| keys::group_offset(partition, name));
        let offsets: Vec<_> = offsets.collect();
        reads.require(offsets.iter().cloned())?;
        if record.is_some() {
            writes.remove(keys::group(name));
        }
        for key in offsets {
            if reads.get::<OffsetRecord>(&key)?.is_some() {
                writes.remove(key);
            }
        }
        Ok(())
    })
}
