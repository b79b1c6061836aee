//! The replica enters a new group: its role, the older primaries that it must wait for, and the requests that it can no longer
//! answer.

use zerohop_engine::EngineResult;
use zerohop_engine::disk::Disk;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};
use zerohop_wire::messages::{Call, Member};

use super::follower_progress::Stream;
use super::limits::KEPT_US;
use super::{Context, GroupView, Replica, ReplicaEffects, Role, unavailable};
use zerohop_partition::planted::{Bug, is_planted};

/// The epoch marker is not in the log yet.
pub(super) const NO_MARK: u64 = u64::MAX;

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
        let was_damaged_alone = self.is_damaged_alone();
        let before = std::mem::replace(&mut self.view, view);
        let (was, is) = (self.role, self.view.role(self.me));
        let goes_on = was == Role::Primary && is == Role::Primary && self.knows_all_since(&before);
        self.role = is;
        self.hear_of_word(was_damaged_alone);
        self.asked = None;
        // The control group names the member to be admitted in this epoch in an event that follows this one.
        self.wished = None;
        self.admitting.clear();
        self.removing.clear();
        self.matched = None;
        self.told_commit = 0;
        self.ack_due = false;
        self.told_durable = 0;
        self.taking = None;
        self.told_full_us = 0;
        self.repair.begin_again(false);
        self.forget_audit(effects);
        self.settled_us = context.now_us;
        self.note_former(&before, was, context.now_us);
        if was == Role::Primary && is != Role::Primary {
            self.depose(context.now_us, effects);
        }
        if is == Role::Primary {
            if !goes_on {
                if was == Role::Primary {
                    self.partition.stand_down(&unavailable(), effects);
                }
                self.promote(context);
            }
            self.partition.set_members(self.view.entry_epoch(), false);
            self.partition.set_has_copies(self.has_copies());
            if !self.has_copies() {
                // The entries will be committed, so reads continue. But no client is answered that they are safe before enough
                // members have them.
                self.partition.keep_units(context.now_us + KEPT_US, &unavailable(), effects);
            }
            let last = self.last();
            self.streams =
                self.view.others().map(|member| Stream::new(member, last, context.now_us)).collect();
            self.lead(context, effects)?;
        } else {
            self.partition.set_members(self.view.entry_epoch(), false);
            self.partition.set_lacks_room(false);
        }
        Ok(())
    }

    /// Whether no other member can have been primary between the previous group and this one.
    fn knows_all_since(&self, before: &GroupView) -> bool {
        // A member that this replica has not asked to admit is not in sync, and only in-sync replicas are promoted.
        let was_alone = before.in_sync.is_empty() && self.admitting.is_empty();
        was_alone || self.view.epoch == before.epoch.next()
    }

    /// Remembers the members that may still believe to be primary, until a later primary is known to have waited for them.
    fn note_former(&mut self, before: &GroupView, was: Role, now_us: u64) {
        if was == Role::Primary {
            if self.mark <= self.partition.applied() && self.has_waited(now_us) {
                self.former.clear();
                self.has_unknown_former = false;
            } else {
                // This replica must wait again for the older primaries that it has not waited for completely, when it is promoted
                // again.
                let waited_for: Vec<_> = self.unwaited(now_us).collect();
                self.former.extend(waited_for);
            }
        } else if before.epoch.0 != 0 && before.primary.instance != self.me.instance {
            self.former.insert(before.primary.instance);
        }
        self.has_unknown_former |= before.epoch.0 == 0 || self.view.epoch != before.epoch.next();
    }

    /// Older primaries that this replica waits for after its promotion: their leases from it may still be in use.
    pub(super) fn unwaited(&self, now_us: u64) -> impl Iterator<Item = InstanceId> + '_ {
        self.waits.iter().filter(move |(_, until_us)| now_us < **until_us).map(|(instance, _)| *instance)
    }

    /// The primary of this epoch answers, so it has waited for all older primaries. No other member needs to wait for them again.
    pub(super) fn primary_has_started(&mut self) {
        self.former.clear();
        self.has_unknown_former = false;
    }

    fn promote<D: Disk>(&mut self, context: &mut Context<'_, D>) {
        self.counts.promotions += 1;
        self.partition.begin_above(context.leases.begin_above());
        if is_planted(Bug::SessionsForgottenAtPromotion) {
            self.partition.forget_sessions();
        }
        let map_epoch = self.view.map_epoch;
        self.wait_us = 0;
        if self.has_unknown_former {
            self.former.extend(context.leases.holders());
            self.wait_us = context.leases.start_ended_us();
        }
        self.waits.clear();
        for instance in std::mem::take(&mut self.former) {
            let has_yielded = self
                .yielded
                .get(&instance)
                .is_some_and(|epoch| *epoch >= self.view.epoch || is_planted(Bug::YieldOfAnyEpoch));
            if instance != self.me.instance && !has_yielded {
                self.waits.insert(instance, context.leases.ended_us(instance, map_epoch));
            }
        }
        self.mark = NO_MARK;
        self.is_lapsed = false;
        self.owes_yield = false;
    }

    /// Appends the epoch marker as soon as there is room for it.
    pub(super) fn log_mark<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if self.mark == NO_MARK && !self.needs_state {
            self.mark = self.partition.append_mark(context.engine)?;
            effects.flush_wanted();
        }
        Ok(())
    }

    fn depose(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        match self.role {
            Role::Removed => self.partition.stand_down(&unavailable(), effects),
            // As a member of the group this replica will learn which entries of its log remain.
            _ => self.partition.stand_by(now_us + KEPT_US, &unavailable(), effects),
        }
        self.turn_away(effects);
        self.streams.clear();
        self.waits.clear();
        if self.has_corruption {
            // The replica must not pass on entries that it cannot read. It installs a snapshot instead.
            self.needs_state = true;
        }
        self.owes_yield = true;
        self.say_yield(now_us, effects);
    }

    /// When the last read lock that this replica has granted ends, in milliseconds.
    pub fn holds_end_ms(&self) -> u64 {
        self.partition.holds_end_ms()
    }

    /// Records that a read lock unknown to the partition may last until then.
    pub fn await_holds(&mut self, until_ms: u64) {
        self.partition.await_holds(until_ms);
    }

    /// Answers the kept requests that wait for the fate of an older epoch's last entries, as far as it is known up to this index.
    /// Refuses them when their time has ended.
    pub(super) fn settle_kept(&mut self, index: u64, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.has_copies() {
            self.partition.settle_kept(index, effects);
        }
        if self.partition.kept_until_us() <= now_us {
            self.partition.let_kept_go(&unavailable(), effects);
        }
    }

    /// Tells the new primary that it need not wait for the leases and read locks of this former primary.
    pub(super) fn say_yield(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.owes_yield && now_us >= self.yield_us() {
            self.owes_yield = false;
            effects.send(self.view.primary, self.view.epoch, &Call::Yield);
        }
    }

    /// When the former primary may send `Yield`.
    pub(super) fn yield_us(&self) -> u64 {
        if is_planted(Bug::HoldIgnored) { 0 } else { self.holds_end_ms().saturating_mul(1_000) }
    }

    /// A former primary acts in this epoch or a later one, so it uses no lease of an older epoch.
    pub(super) fn take_yield(&mut self, from: Member, epoch: PartitionEpoch) {
        let known = self.yielded.entry(from.instance).or_default();
        *known = epoch.max(*known);
        if epoch >= self.view.epoch || is_planted(Bug::YieldOfAnyEpoch) {
            self.waits.remove(&from.instance);
        }
    }
}
