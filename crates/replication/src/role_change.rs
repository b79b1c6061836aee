//! The replica enters a new group: its role, the older primaries that it must wait for, and the requests that it can no longer
//! answer.

use zerohop_engine::EngineResult;
use zerohop_engine::disk::Disk;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};
use zerohop_wire::messages::{Member, PeerBody};

use super::follower_progress::Stream;
use super::limits::RETAINED_REPLY_US;
use super::{Context, GroupView, Replica, ReplicaEffects, Role, unavailable};
use zerohop_partition::planted::{Bug, is_planted};

/// The epoch marker is not in the log yet.
pub(super) const NO_EPOCH_MARKER: u64 = u64::MAX;

impl Replica {
    pub(super) fn set_group<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        view: GroupView,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if view.epoch <= self.view.epoch {
            if view.epoch == self.view.epoch {
                self.view.min_in_sync = view.min_in_sync;
            }
            return Ok(());
        }
        let was_damaged_alone = self.is_damaged_sole_copy();
        let before = std::mem::replace(&mut self.view, view);
        let (was, is) = (self.role, self.view.role(self.this_member));
        let goes_on = was == Role::Primary && is == Role::Primary && self.knows_all_since(&before);
        self.role = is;
        self.check_loss_accepted(was_damaged_alone);
        self.lead.pending_change = None;
        // The control group names the member to be admitted in this epoch in an event that follows this one.
        self.lead.admission_requested = None;
        self.lead.admitting.clear();
        self.lead.removing.clear();
        self.follow.matched = None;
        self.follow.reported_commit = 0;
        self.follow.ack_due = false;
        self.follow.reported_durable = 0;
        self.follow.snapshot_install = None;
        self.follow.full_reported_us = 0;
        self.health.repair.begin_again(false);
        self.drop_audit_requests(effects);
        self.role_changed_us = context.now_us;
        self.remember_former_primaries(&before, was, context.now_us);
        if was == Role::Primary && is != Role::Primary {
            self.depose(context.now_us, effects);
        }
        if is == Role::Primary {
            if !goes_on {
                if was == Role::Primary {
                    self.partition.step_down(&unavailable(), effects);
                }
                self.promote(context);
            }
            self.partition.set_members(self.view.entry_epoch(), false);
            self.partition.set_has_copies(self.has_copies());
            if !self.has_copies() {
                // The entries will be committed, so reads continue. But no client is answered that they are safe before enough
                // members have them.
                self.partition.retain_batch_replies(
                    context.now_us + RETAINED_REPLY_US,
                    &unavailable(),
                    effects,
                );
            }
            let last = self.last();
            self.lead.streams =
                self.view.others().map(|member| Stream::new(member, last, context.now_us)).collect();
            self.step_as_primary(context, effects)?;
        } else {
            self.lead.waiting_messages.drop_through(self.view.epoch);
            self.partition.set_members(self.view.entry_epoch(), false);
            self.partition.set_lacks_disk_space(false);
        }
        Ok(())
    }

    /// Whether no other member can have been primary between the previous group and this one.
    fn knows_all_since(&self, before: &GroupView) -> bool {
        // A member that this replica has not asked to admit is not in sync, and only in-sync replicas are promoted.
        let was_alone = before.in_sync.is_empty() && self.lead.admitting.is_empty();
        was_alone || self.view.epoch == before.epoch.next()
    }

    /// Remembers the members that may still believe to be primary, until a later primary is known to have waited for them.
    fn remember_former_primaries(&mut self, before: &GroupView, was: Role, now_us: u64) {
        if was == Role::Primary {
            if self.lead.epoch_marker <= self.partition.applied() && self.has_waited(now_us) {
                self.former.instances.clear();
                self.former.has_unknown = false;
            } else {
                // This replica must wait again for the older primaries that it has not waited for completely, when it is promoted
                // again.
                let waited_for: Vec<_> = self.unwaited(now_us).collect();
                self.former.instances.extend(waited_for);
            }
        } else if before.epoch.0 != 0 && before.primary.instance != self.this_member.instance {
            self.former.instances.insert(before.primary.instance);
        }
        self.former.has_unknown |= before.epoch.0 == 0 || self.view.epoch != before.epoch.next();
    }

    /// Older primaries that this replica waits for after its promotion: their leases from it may still be in use.
    pub(super) fn unwaited(&self, now_us: u64) -> impl Iterator<Item = InstanceId> + '_ {
        self.former
            .waits
            .iter()
            .filter(move |(_, until_us)| now_us < **until_us)
            .map(|(instance, _)| *instance)
    }

    /// The primary of this epoch answers, so it has waited for all older primaries. No other member needs to wait for them again.
    pub(super) fn primary_has_started(&mut self) {
        self.former.instances.clear();
        self.former.has_unknown = false;
    }

    fn promote<D: Disk>(&mut self, context: &mut Context<'_, D>) {
        self.counts.promotions += 1;
        self.partition.begin_above(context.leases.begin_above());
        if is_planted(Bug::SessionTableEmptyAtPromotion) {
            self.partition.clear_sessions();
        }
        let map_epoch = self.view.map_epoch;
        self.former.wait_us = 0;
        if self.former.has_unknown {
            self.former.instances.extend(context.leases.holders());
            self.former.wait_us = context.leases.start_ended_us();
        }
        self.former.waits.clear();
        for instance in std::mem::take(&mut self.former.instances) {
            let has_yielded = self
                .former
                .yielded
                .get(&instance)
                .is_some_and(|epoch| *epoch >= self.view.epoch || is_planted(Bug::YieldEpochNotChecked));
            if instance != self.this_member.instance && !has_yielded {
                self.former.waits.insert(instance, context.leases.ended_us(instance, map_epoch));
            }
        }
        self.lead.epoch_marker = NO_EPOCH_MARKER;
        self.lead.is_lapsed = false;
        self.former.yield_due = false;
    }

    /// Appends the epoch marker as soon as there is room for it.
    pub(super) fn log_epoch_marker<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if self.lead.epoch_marker == NO_EPOCH_MARKER && !self.health.needs_state {
            self.lead.epoch_marker = self.partition.append_epoch_marker(context.engine)?;
            effects.flush_wanted();
        }
        Ok(())
    }

    fn depose(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        match self.role {
            Role::Removed => self.partition.step_down(&unavailable(), effects),
            // As a member of the group this replica will learn which entries of its log remain.
            _ => self.partition.step_down_in_group(now_us + RETAINED_REPLY_US, &unavailable(), effects),
        }
        self.reject_queued(effects);
        self.lead.streams.clear();
        self.former.waits.clear();
        if self.health.has_corruption {
            // The replica must not pass on entries that it cannot read. It installs a snapshot instead.
            self.health.needs_state = true;
        }
        self.former.yield_due = true;
        self.send_yield(now_us, effects);
    }

    /// When the last read lock that this replica has granted ends, in milliseconds.
    pub fn read_locks_end_ms(&self) -> u64 {
        self.partition.read_locks_end_ms()
    }

    /// Records that a read lock unknown to the partition may last until then.
    pub fn await_read_locks(&mut self, until_ms: u64) {
        self.partition.await_read_locks(until_ms);
    }

    /// Answers the kept requests that wait for the fate of an older epoch's last entries, as far as it is known up to this index.
    /// Refuses them when their time has ended.
    pub(super) fn resolve_retained(&mut self, index: u64, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.has_copies() {
            self.partition.resolve_retained(index, effects);
        }
        if self.partition.retained_until_us() <= now_us {
            self.partition.fail_retained(&unavailable(), effects);
        }
    }

    /// Tells the new primary that it need not wait for the leases and read locks of this former primary.
    pub(super) fn send_yield(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.former.yield_due && now_us >= self.yield_us() {
            self.former.yield_due = false;
            effects.send(self.view.primary, self.view.epoch, &PeerBody::Yield);
        }
    }

    /// When the former primary may send `Yield`.
    pub(super) fn yield_us(&self) -> u64 {
        if is_planted(Bug::ReadLockIgnored) { 0 } else { self.read_locks_end_ms().saturating_mul(1_000) }
    }

    /// A former primary acts in this epoch or a later one, so it uses no lease of an older epoch.
    pub(super) fn handle_yield(&mut self, from: Member, epoch: PartitionEpoch) {
        let known = self.former.yielded.entry(from.instance).or_default();
        *known = epoch.max(*known);
        if epoch >= self.view.epoch || is_planted(Bug::YieldEpochNotChecked) {
            self.former.waits.remove(&from.instance);
        }
    }
}
