//! When a replica needs a tick though no event arrives. All its other waits end with messages, flushes, a new group, or a lease
//! that starts or ends.

use zerohop_engine::disk::Disk;

use super::follower_progress::Stream;
use super::limits::{ASK_AGAIN_US, LAG_US, NAP_US, POLL_US, REPORT_US, SETTLE_US, WINDOW_ENTRIES};
use super::role_change::NO_MARK;
use super::{Context, GroupChange, PendingChange, Replica, Role};

impl Replica {
    /// The time of the next tick in microseconds of the monotonic clock; [`u64::MAX`]: the replica only waits for events.
    pub(super) fn next_wake_us<D: Disk>(&self, context: &mut Context<'_, D>) -> u64 {
        if self.is_lone() {
            return self.lone_wake_us(context);
        }
        let now_us = context.now_us;
        let mut wake_us = match self.role {
            Role::Primary => self.primary_wake_us(context),
            Role::InSync | Role::Follower if self.wants_state() => self.reported_us + REPORT_US,
            Role::Follower if self.has_to_flush() => now_us + SETTLE_US,
            _ => u64::MAX,
        };
        wake_us = wake_us.min(self.repair_wake_us(now_us)).min(self.room_wake_us(now_us));
        wake_us = wake_us.min(self.damage.wake_us(now_us));
        wake_us = wake_us.min(self.partition.kept_until_us());
        if self.owes_yield {
            wake_us = wake_us.min(self.yield_us());
        }
        wake_us = wake_us.min(self.taking.as_ref().map_or(u64::MAX, |taking| taking.wake_us(now_us)));
        // Other partitions may be writing checkpoints, or entries may not be committed yet.
        if context.engine.checkpoint_is_wanted(self.partition.handle()) == Ok(true) {
            wake_us = wake_us.min(now_us + SETTLE_US);
        }
        wake_us
    }

    /// Whether its group is healthy and the replica only waits for the next event. Then it needs no tick after every message.
    pub(super) fn is_steady(&self) -> bool {
        let is_well =
            !self.needs_state && !self.has_corruption && self.repair.is_idle() && self.taking.is_none();
        is_well
            && match self.role {
                Role::Primary => {
                    self.mark <= self.partition.applied()
                        && self.asked.is_none()
                        && self.wished.is_none()
                        && self.parked.len() == 0
                        && self.audit.wanted.is_empty()
                        && self.has_copies()
                        && self.streams.iter().all(|stream| stream.is_found && stream.sending.is_none())
                }
                Role::InSync | Role::Follower => self.matched.is_some(),
                _ => false,
            }
    }

    fn primary_wake_us<D: Disk>(&self, context: &Context<'_, D>) -> u64 {
        let now_us = context.now_us;
        let mut wake_us = u64::MAX;
        let mut at = |us: u64| wake_us = wake_us.min(us);
        at(self.compare_wake_us().max(now_us + POLL_US));
        if self.mark == NO_MARK && !self.needs_state || self.parked.len() > 0 {
            at(now_us + POLL_US);
        }
        if !self.has_waited(now_us) {
            at(self.waits.values().copied().fold(self.wait_us, u64::max));
        }
        if let Some(wake_ms) = self.partition.next_upkeep_ms() {
            // A primary that may not answer neither times out waits nor expires records. The lease that it lacks wakes it.
            let soonest_us = if self.may_answer(context) { 0 } else { now_us + SETTLE_US };
            at((now_us + wake_ms.saturating_sub(context.now.ms) * 1_000).max(soonest_us));
        }
        if let Some(asked) = &self.asked {
            at(asked.sent_us + ASK_AGAIN_US);
            if asked.since_us + LAG_US > now_us {
                at(asked.since_us + LAG_US);
            }
        }
        let is_removing = matches!(self.asked, Some(PendingChange { change: GroupChange::Remove(_), .. }));
        for stream in &self.streams {
            at(self.stream_wake_us(context, stream));
            if !is_removing && self.view.in_sync.contains(&stream.member) {
                at(self.blame_due_us(context, stream));
            }
        }
        wake_us
    }

    fn stream_wake_us<D: Disk>(&self, context: &Context<'_, D>, stream: &Stream) -> u64 {
        if let Some(sending) = &stream.sending {
            return sending.wake_us();
        }
        if stream.gathered_us != 0 && self.may_gather(stream) && stream.next <= self.last() {
            return stream.gathered_us;
        }
        let has_room = stream.next <= stream.matched + WINDOW_ENTRIES;
        if stream.is_found && stream.next <= self.last() && has_room {
            return context.now_us + NAP_US;
        }
        let is_there = context.leases.holds(context.now_us, stream.member);
        self.beat_due_us(stream, is_there).min(stream.resend_due_us(is_there))
    }
}
