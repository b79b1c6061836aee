//! Groups: members that share the partitions of a log.
//!
//! The record of a group has its generation, its members and their partitions. Every change of the members is one transaction
//! that raises the generation. A commit of offsets confirms the record, so a member of an older generation cannot commit.

mod assignment;
mod expiry;
mod offsets;

use std::ops::Range;

use zerohop_layer_procedure::{OptimisticTransaction, Writes};

pub use expiry::ExpireMembers;
pub use offsets::{
    CommitOffsets, GroupOwner, commit_offsets, commit_offsets_decision, delete_group, fetch_offsets,
};

use crate::error::LogError;
use crate::keys;
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogPause, LogProcedure, LogReads};
use crate::records::{GroupMember, GroupRecord, HeartbeatRecord, LogOptions, MemberId};

/// The most members of a group.
pub const MEMBERS_MAX: usize = 4096;

/// A member that joins.
#[derive(Clone, Debug)]
pub struct JoinGroup {
    /// The name of the group.
    pub group: String,
    /// The member.
    pub member: MemberId,
    /// For how many milliseconds it stays without a heartbeat.
    pub session: u64,
}

/// What a member has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The generation.
    pub generation: u64,
    /// The partitions that it reads.
    pub partitions: Range<u32>,
}

impl GroupRecord {
    /// What a member has to do.
    #[must_use]
    pub fn membership(&self, id: MemberId) -> Option<Membership> {
        let member = self.members.iter().find(|member| member.id == id)?;
        let partitions = member.first..member.first.saturating_add(member.count);
        Some(Membership { generation: self.generation, partitions })
    }
}

/// Makes a member one of the group. Members whose time is over leave it.
///
/// A repeated join of a member changes nothing, unless other members have expired or the log has more partitions.
pub fn join_group(join: JoinGroup) -> impl LogProcedure<Output = Membership> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        let name = keys::check_name(&join.group)?;
        let (group_key, own_key) = (keys::group(name), keys::heartbeat(name, join.member));
        reads.require([keys::options(), group_key.clone(), own_key.clone()])?;
        let options: LogOptions = reads.get(&keys::options())?.ok_or(LogError::NoSuchLog)?;
        let mut group: GroupRecord = reads.get(&group_key)?.unwrap_or_default();
        let others: Vec<MemberId> =
            group.members.iter().map(|member| member.id).filter(|id| *id != join.member).collect();
        reads.require(others.iter().map(|id| keys::heartbeat(name, *id)))?;
        let mut ids = vec![join.member];
        for id in &others {
            let key = keys::heartbeat(name, *id);
            match reads.get::<HeartbeatRecord>(&key)? {
                Some(heartbeat) if heartbeat.until >= now => ids.push(*id),
                Some(_) => writes.remove(key),
                None => {}
            }
        }
        if ids.len() > MEMBERS_MAX {
            return Err(LogError::GroupFull.into());
        }
        let is_member = group.membership(join.member).is_some();
        let is_same = is_member && ids.len() == group.members.len() && group.partitions == options.partitions;
        if !is_same {
            change_members(&mut group, ids, options.partitions);
            writes.put(group_key, &group);
        }
        writes.put(own_key, &HeartbeatRecord { until: now.saturating_add(join.session) });
        Ok(group.membership(join.member).ok_or(LogError::UnknownMember)?)
    })
}

/// Keeps a member alive. The error [`LogError::OldGeneration`] says that it must join again.
pub fn heartbeat(
    group: String,
    owner: GroupOwner,
    session: u64,
) -> impl LogProcedure<Output = Membership> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        let name = keys::check_name(&group)?;
        let membership = check_owner(reads, name, owner)?;
        let until = now.saturating_add(session);
        writes.put(keys::heartbeat(name, owner.member), &HeartbeatRecord { until });
        Ok(membership)
    })
}

/// Ends a membership. There is no error if it has ended.
pub fn leave_group(group: String, member: MemberId) -> impl LogProcedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, writes: &mut Writes| {
        let name = keys::check_name(&group)?;
        remove_members(reads, writes, name, &[member])
    })
}

/// Takes members out of a group.
fn remove_members(
    reads: &mut LogReads,
    writes: &mut Writes,
    name: &str,
    removed: &[MemberId],
) -> Result<(), LogPause> {
    let key = keys::group(name);
    let mut group: GroupRecord = reads.get(&key)?.unwrap_or_default();
    let ids = group.members.iter().map(|member| member.id);
    let left: Vec<MemberId> = ids.filter(|id| !removed.contains(id)).collect();
    removed.iter().for_each(|id| writes.remove(keys::heartbeat(name, *id)));
    if left.len() < group.members.len() {
        let partitions = group.partitions;
        change_members(&mut group, left, partitions);
        writes.put(key, &group);
    }
    Ok(())
}

/// Begins a generation.
fn change_members(group: &mut GroupRecord, mut ids: Vec<MemberId>, partitions: u32) {
    ids.sort_unstable();
    let ranges = assignment::ranges(partitions, ids.len());
    let members = ids.into_iter().zip(ranges);
    group.members = members
        .map(|(id, range)| GroupMember { id, first: range.start, count: range.end - range.start })
        .collect();
    group.partitions = partitions;
    if !is_planted(Bug::GenerationStays) || group.generation == 0 {
        group.generation += 1;
    }
}

/// Confirms that a member is one of its generation.
fn check_owner(reads: &mut LogReads, name: &str, owner: GroupOwner) -> Result<Membership, LogPause> {
    let group: GroupRecord = reads.get(&keys::group(name))?.unwrap_or_default();
    let membership = group.membership(owner.member).ok_or(LogError::UnknownMember)?;
    if membership.generation != owner.generation && !is_planted(Bug::OldGenerationCommits) {
        return Err(LogError::OldGeneration { generation: membership.generation }.into());
    }
    Ok(membership)
}
