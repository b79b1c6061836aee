//! Changes of one replica group: which node may request them, and what happens to a group when a node dies,
//! returns or starts again.
//!
//! Two rules hold for every request. First, a new primary was in sync in the group before, or recovery chose
//! it. Second, a change is applied to the epoch on which it was decided, or not at all.

use zerohop_placement::{Durability, Group, GroupState, KeyspaceConfig, MapChange, NodeState, ReplicaGroup};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::group_decision::{GroupContext, NextGroup, Recovery};
use super::{ControlState, MapDraft};
use crate::command::{CommandRefusal, GroupStep, Regroup, RegroupOrigin};
use crate::planted::{self, Bug};

/// What a process that has replaced another found on its disks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestartedDisk {
    /// All logs are intact.
    pub(super) intact: bool,
    /// The other process was shut down cleanly, with all of its logs flushed.
    pub(super) closed: bool,
}

impl RestartedDisk {
    /// Whether the disk has everything that the process before it ever acknowledged of a keyspace.
    fn keeps_all(self, durability: Durability) -> bool {
        match durability {
            Durability::Sync => self.intact,
            Durability::Interval { .. } => self.intact && self.closed,
            Durability::Memory => false,
        }
    }
}

impl ControlState {
    /// Applies a requested change.
    pub(super) fn regroup(&self, regroup: &Regroup, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let Regroup { keyspace, partition, .. } = *regroup;
        let group = self.regrouped(regroup, None)?;
        let epoch = group.epoch;
        draft.changes.push(MapChange::SetGroup { keyspace, partition, group });
        Ok(epoch.get())
    }

    /// The group after a requested change. `before` is the group if a change that is not in the map yet has
    /// changed it.
    pub(super) fn regrouped(
        &self,
        regroup: &Regroup,
        before: Option<&ReplicaGroup>,
    ) -> Result<ReplicaGroup, CommandRefusal> {
        let Regroup { keyspace, partition, epoch, by, step } = *regroup;
        let found = self.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let group = found.group(partition).ok_or(CommandRefusal::UnknownPartition)?;
        let group = before.map_or(group, ReplicaGroup::as_group);
        if group.epoch != epoch && !planted::is_planted(Bug::OlderEpochAccepted) {
            return Err(CommandRefusal::StaleEpoch { now: group.epoch });
        }
        self.check_step(group, by, step)?;
        if group.state == GroupState::Recovering {
            return Err(CommandRefusal::Recovering);
        }
        let mut next = group.to_group();
        next.epoch = next.epoch.next();
        self.apply_step(found.config(), partition, &mut next, step)?;
        // A request of a primary may be decided after its node was declared down. A replica that it admits with its
        // last request replaces it at once: nothing else would.
        let context = GroupContext { config: found.config(), state_of: &|instance| self.state_of(instance) };
        let after = context.after_state_change(partition, next.as_group(), None);
        Ok(after.map_or(next.clone(), |after| ReplicaGroup { epoch: next.epoch, ..after.group }))
    }

    fn check_step(&self, group: Group<'_>, by: RegroupOrigin, step: GroupStep) -> Result<(), CommandRefusal> {
        let primarys = matches!(step, GroupStep::Admit(_) | GroupStep::Exclude(_) | GroupStep::RaiseEpoch);
        match by {
            RegroupOrigin::Control if primarys => Err(CommandRefusal::NotPrimary),
            RegroupOrigin::Control => Ok(()),
            RegroupOrigin::Instance(..) if !primarys => Err(CommandRefusal::NotControl),
            RegroupOrigin::Instance(instance, _) if instance != group.primary => {
                Err(CommandRefusal::NotPrimary)
            }
            RegroupOrigin::Instance(instance, incarnation) => {
                let known = self.map().instance(instance).ok_or(CommandRefusal::UnknownInstance)?;
                if known.incarnation == incarnation { Ok(()) } else { Err(CommandRefusal::StaleIncarnation) }
            }
        }
    }

    fn apply_step(
        &self,
        config: &KeyspaceConfig,
        partition: PartitionId,
        group: &mut ReplicaGroup,
        step: GroupStep,
    ) -> Result<(), CommandRefusal> {
        let min_in_sync = usize::from(config.min_in_sync);
        match step {
            GroupStep::Admit(instance) => {
                let is_target =
                    group.state == GroupState::Admitting && group.followers.first() == Some(&instance);
                if !group.followers.contains(&instance) {
                    return Err(CommandRefusal::NotFollower);
                }
                if !is_target && group.in_sync.len() + 1 >= min_in_sync {
                    return Err(CommandRefusal::NotNeeded);
                }
                if self.state_of(instance) == NodeState::Down {
                    return Err(CommandRefusal::NotUp);
                }
                drop_follower(group, instance);
                group.in_sync.push(instance);
            }
            GroupStep::Exclude(instance) if instance == group.primary => {
                let heir = successor(partition, &group.in_sync, |one| self.state_of(one) == NodeState::Down);
                hand_over(group, heir.ok_or(CommandRefusal::TooFewInSync)?);
            }
            GroupStep::Exclude(instance) => {
                drop_in_sync(group, instance)?;
                group.followers.push(instance);
            }
            GroupStep::RaiseEpoch => {}
            GroupStep::AddFollower { instance, target } => {
                self.map().instance(instance).ok_or(CommandRefusal::UnknownInstance)?;
                if target && group.followers.contains(&instance) {
                    // The instance is a follower already: it is to be in sync beside the others.
                    return self.aim_at(group, instance);
                }
                if group.as_group().members().any(|member| member == instance) {
                    return Err(CommandRefusal::Member);
                }
                if self.state_of(instance) != NodeState::Up {
                    return Err(CommandRefusal::NotUp);
                }
                if !target {
                    group.followers.push(instance);
                } else if group.state == GroupState::Stable {
                    group.followers.insert(0, instance);
                    group.state = GroupState::Admitting;
                } else {
                    return Err(CommandRefusal::Moving);
                }
            }
            GroupStep::RemoveFollower(instance) => {
                if !group.followers.contains(&instance) {
                    return Err(CommandRefusal::NotFollower);
                }
                drop_follower(group, instance);
            }
            GroupStep::Promote(instance) => {
                let follows = group.followers.contains(&instance);
                if planted::is_planted(Bug::FollowerPromoted) && follows {
                    drop_follower(group, instance);
                } else {
                    drop_in_sync(group, instance)?;
                }
                if self.state_of(instance) == NodeState::Down {
                    return Err(CommandRefusal::NotUp);
                }
                let old = std::mem::replace(&mut group.primary, instance);
                group.in_sync.insert(0, old);
            }
            GroupStep::Demote(instance) | GroupStep::Leave(instance) => {
                drop_in_sync(group, instance)?;
                if group.in_sync.len() + 1 < min_in_sync {
                    return Err(CommandRefusal::TooFewInSync);
                }
                if matches!(step, GroupStep::Demote(_)) {
                    group.followers.push(instance);
                }
            }
        }
        Ok(())
    }

    /// A follower becomes the target of a move.
    fn aim_at(&self, group: &mut ReplicaGroup, instance: InstanceId) -> Result<(), CommandRefusal> {
        if self.state_of(instance) != NodeState::Up {
            return Err(CommandRefusal::NotUp);
        }
        if group.state != GroupState::Stable {
            return Err(CommandRefusal::Moving);
        }
        group.followers.retain(|follower| *follower != instance);
        group.followers.insert(0, instance);
        group.state = GroupState::Admitting;
        Ok(())
    }

    /// Sets a group that was decided with others.
    pub(super) fn decide(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        next: NextGroup,
        draft: &mut MapDraft,
    ) {
        if next.group.state == GroupState::Recovering {
            self.recoveries.insert((keyspace, partition), next.recovery);
        } else if next.recovery.chosen_may_lack_end {
            draft.possible_losses.push((keyspace, partition));
        }
        draft.changes.push(MapChange::SetGroup { keyspace, partition, group: next.group });
    }
}

impl GroupContext<'_> {
    /// The group after one of its nodes has died or returned. An in-sync replica that is up, if there is one,
    /// replaces a dead primary; dead in-sync replicas become followers. None if nothing changes.
    pub(super) fn after_state_change(
        &self,
        partition: PartitionId,
        group: Group<'_>,
        recovery: Option<&Recovery>,
    ) -> Option<NextGroup> {
        if group.state == GroupState::Recovering {
            let recovery = recovery.cloned().unwrap_or_default();
            return self.try_to_end(&group.to_group(), recovery);
        }
        let mut next = group.to_group();
        if self.is_down(group.primary) {
            let is_down = |instance| self.is_down(instance);
            let follower = || match planted::is_planted(Bug::FollowerPromoted) {
                true => successor(partition, group.followers, is_down),
                false => None,
            };
            let heir = successor(partition, group.in_sync, is_down).or_else(follower)?;
            hand_over(&mut next, heir);
        }
        let (down, up): (Vec<_>, Vec<_>) = next.in_sync.iter().partition(|instance| self.is_down(**instance));
        next.in_sync = up;
        next.followers.extend(down);
        let changed = next.as_group() != group;
        next.epoch = next.epoch.next();
        changed.then(|| NextGroup { group: next, recovery: Recovery::default() })
    }

    /// The group after the processes of some members have been replaced. An in-sync replica that may have
    /// lost the end of its log leaves the in-sync set; if no other is left, the group recovers.
    pub(super) fn after_restart(
        &self,
        group: Group<'_>,
        recovery: Option<&Recovery>,
        restarted: &dyn Fn(InstanceId) -> bool,
        kept: RestartedDisk,
    ) -> NextGroup {
        let mut next = group.to_group();
        next.epoch = next.epoch.next();
        let keeps_all =
            kept.keeps_all(self.config.durability) || planted::is_planted(Bug::RestartedReplicaStaysInSync);
        let lost = |instance: InstanceId| restarted(instance) && !keeps_all;
        let in_sync: Vec<InstanceId> =
            std::iter::once(group.primary).chain(group.in_sync.iter().copied()).collect();
        if group.state == GroupState::Recovering {
            let mut recovery = recovery.cloned().unwrap_or_default();
            for instance in group.members().filter(|instance| restarted(*instance)) {
                if !planted::is_planted(Bug::EarlierReportCounts) {
                    recovery.reports.remove(&instance);
                }
                if !keeps_all {
                    recovery.restarted.insert(instance);
                }
            }
            return self
                .try_to_end(&group.to_group(), recovery.clone())
                .unwrap_or(NextGroup { group: next, recovery });
        }
        let trusted = |instance: &InstanceId| !lost(*instance) && !self.is_down(*instance);
        if let Some(heir) = in_sync.iter().copied().find(trusted) {
            next.primary = heir;
            next.in_sync = in_sync.iter().copied().filter(|one| *one != heir && trusted(one)).collect();
            next.followers.extend(in_sync.iter().copied().filter(|one| !trusted(one)));
            return NextGroup { group: next, recovery: Recovery::default() };
        }
        // If only followers have restarted and the primary is down, the group has lost nothing new.
        let restarted: Vec<InstanceId> = in_sync.into_iter().filter(|instance| lost(*instance)).collect();
        if restarted.is_empty() {
            return NextGroup { group: next, recovery: Recovery::default() };
        }
        next.state = GroupState::Recovering;
        NextGroup {
            group: next,
            recovery: Recovery { restarted: restarted.into_iter().collect(), ..Recovery::default() },
        }
    }
}

/// The successor of a primary: an in-sync replica that is up. The choice rotates with the partition, so that
/// the partitions of one dead primary are spread over different replicas.
fn successor(
    partition: PartitionId,
    in_sync: &[InstanceId],
    is_down: impl Fn(InstanceId) -> bool,
) -> Option<InstanceId> {
    let count = in_sync.len();
    let mut turned = (0..count).map(|at| in_sync[(at + partition.get() as usize) % count]);
    turned.find(|instance| !is_down(*instance))
}

/// An in-sync replica becomes primary, and the old primary becomes a follower.
fn hand_over(group: &mut ReplicaGroup, heir: InstanceId) {
    group.in_sync.retain(|instance| *instance != heir);
    group.followers.retain(|instance| *instance != heir);
    let old = std::mem::replace(&mut group.primary, heir);
    group.followers.push(old);
}

/// Removes a follower; if it is the target of a move, the move ends.
fn drop_follower(group: &mut ReplicaGroup, instance: InstanceId) {
    if group.state == GroupState::Admitting && group.followers.first() == Some(&instance) {
        group.state = GroupState::Stable;
    }
    group.followers.retain(|follower| *follower != instance);
}

fn drop_in_sync(group: &mut ReplicaGroup, instance: InstanceId) -> Result<(), CommandRefusal> {
    let at = group.in_sync.iter().position(|member| *member == instance).ok_or(CommandRefusal::NotInSync)?;
    group.in_sync.remove(at);
    Ok(())
}
