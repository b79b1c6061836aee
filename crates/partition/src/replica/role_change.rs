//! A new group: who it is now, what it must wait for, and what it can no longer answer.

use zerohop_engine::EngineResult;
use zerohop_engine::disk::Disk;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};
use zerohop_wire::messages::{Call, Member};

use super::follower_progress::Stream;
use super::limits::KEPT_US;
use super::{Context, GroupView, Replica, ReplicaEffects, Role, unavailable};
use crate::planted::{Bug, is_planted};

/// The mark of the epoch is not in the log yet.
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
        // Whoever is to be admitted in this epoch is told behind it.
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
                // Committed they will be, so that reads go on; but nobody is told that they are safe before enough have them.
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

    /// Whether nobody else can have been primary between the group before and this one.
    fn knows_all_since(&self, before: &GroupView) -> bool {
        // Whom nobody has asked to admit is not in sync, and who was not in sync is not promoted.
        let was_alone = before.in_sync.is_empty() && self.admitting.is_empty();
        was_alone || self.view.epoch == before.epoch.next()
    }

    /// Remembers who may still believe to be primary, until a later one is known to have waited for them.
    fn note_former(&mut self, before: &GroupView, was: Role, now_us: u64) {
        if was == Role::Primary {
            if self.mark <= self.partition.applied() && self.has_waited(now_us) {
                self.former.clear();
                self.has_unknown_former = false;
            } else {
                // Whom it has not waited out yet it must wait for when it is promoted again.
                let waited_for: Vec<_> = self.unwaited(now_us).collect();
                self.former.extend(waited_for);
            }
        } else if before.epoch.0 != 0 && before.primary.instance != self.me.instance {
            self.former.insert(before.primary.instance);
        }
        self.has_unknown_former |= before.epoch.0 == 0 || self.view.epoch != before.epoch.next();
    }

    /// Older primaries that it waits for as a promoted one: what it granted them may still be in use.
    pub(super) fn unwaited(&self, now_us: u64) -> impl Iterator<Item = InstanceId> + '_ {
        self.waits.iter().filter(move |(_, until_us)| now_us < **until_us).map(|(instance, _)| *instance)
    }

    /// The primary of this epoch answers: it has waited for all before it, and so has nobody else to.
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

    /// Logs the mark of the epoch, as soon as there is room for it.
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
            // It hears what of its log goes on.
            _ => self.partition.stand_by(now_us + KEPT_US, &unavailable(), effects),
        }
        self.turn_away(effects);
        self.streams.clear();
        self.waits.clear();
        if self.has_corruption {
            // What it cannot read it must not pass on, and it takes all of it again.
            self.needs_state = true;
        }
        self.owes_yield = true;
        self.say_yield(now_us, effects);
    }

    /// When all that it ever held for readers may be changed, in milliseconds.
    pub(crate) fn holds_end_ms(&self) -> u64 {
        self.partition.holds_end_ms()
    }

    /// Something may be held until then of which its partition knows nothing.
    pub(crate) fn await_holds(&mut self, until_ms: u64) {
        self.partition.await_holds(until_ms);
    }

    /// Answers those that wait for what becomes of an older epoch's end, as far as that is known up to this index, or lets them go.
    pub(super) fn settle_kept(&mut self, index: u64, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.has_copies() {
            self.partition.settle_kept(index, effects);
        }
        if self.partition.kept_until_us() <= now_us {
            self.partition.let_kept_go(&unavailable(), effects);
        }
    }

    /// The new primary need not wait for what this one was granted, nor for what it has held for readers.
    pub(super) fn say_yield(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if self.owes_yield && now_us >= self.yield_us() {
            self.owes_yield = false;
            effects.send(self.view.primary, self.view.epoch, &Call::Yield);
        }
    }

    /// When it may say so.
    pub(super) fn yield_us(&self) -> u64 {
        if is_planted(Bug::HoldIgnored) { 0 } else { self.holds_end_ms().saturating_mul(1_000) }
    }

    /// An older primary acts in this epoch, or a later one: it uses no grant for an older one.
    pub(super) fn take_yield(&mut self, from: Member, epoch: PartitionEpoch) {
        let known = self.yielded.entry(from.instance).or_default();
        *known = epoch.max(*known);
        if epoch >= self.view.epoch || is_planted(Bug::YieldOfAnyEpoch) {
            self.waits.remove(&from.instance);
        }
    }
}
