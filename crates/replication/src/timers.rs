//! When a replica needs a tick though no event arrives. All its other waits end with messages, flushes, a new group, or a lease
//! that starts or ends.

use zerohop_engine::disk::Disk;

use super::follower_progress::Stream;
use super::limits::{DEFERRED_CHECK_US, LAG_US, POLL_US, PROPOSAL_REPEAT_US, REPORT_US, STEP_PAUSE_US_MIN};
use super::role_change::NO_EPOCH_MARKER;
use super::{Context, GroupChange, PendingChange, Replica, Role};

impl Replica {
    /// The time of the next tick in microseconds of the monotonic clock; [`u64::MAX`]: the replica only waits for events.
    pub(super) fn next_tick_us<D: Disk>(&self, context: &mut Context<'_, D>) -> u64 {
        if self.health.broken.is_some() {
            return self.broken_due_us();
        }
        if self.is_lone() {
            return self.lone_wake_us(context);
        }
        let now_us = context.now_us;
        let mut wake_us = match self.role {
            Role::Primary => self.primary_due_us(context),
            Role::InSync | Role::Follower if self.needs_snapshot() => self.follow.reported_us + REPORT_US,
            Role::Follower if self.has_to_flush() => now_us + DEFERRED_CHECK_US,
            _ => u64::MAX,
        };
        wake_us = wake_us.min(self.repair_due_us(now_us)).min(self.disk_full_due_us(now_us));
        wake_us = wake_us.min(self.health.damage.due_us(now_us));
        wake_us = wake_us.min(self.partition.retained_until_us());
        if self.former.yield_due {
            wake_us = wake_us.min(self.yield_us());
        }
        wake_us = wake_us
            .min(self.follow.snapshot_install.as_ref().map_or(u64::MAX, |install| install.due_us(now_us)));
        // Other partitions may be writing checkpoints, or entries may not be committed yet.
        if context.engine.needs_checkpoint(self.partition.handle()) == Ok(true) {
            wake_us = wake_us.min(now_us + DEFERRED_CHECK_US);
        }
        wake_us
    }

    /// Whether its group is healthy and the replica only waits for the next event. Then it needs no tick after every message.
    pub(super) fn is_steady(&self) -> bool {
        let is_well = !self.health.needs_state
            && !self.health.has_corruption
            && self.health.broken.is_none()
            && self.health.repair.is_idle()
            && self.follow.snapshot_install.is_none();
        is_well
            && match self.role {
                Role::Primary => {
                    self.lead.epoch_marker <= self.partition.applied()
                        && self.lead.pending_change.is_none()
                        && self.lead.admission_requested.is_none()
                        && self.lead.wait_queue.len() == 0
                        && self.lead.waiting_messages.is_empty()
                        && self.audit.client_requests.is_empty()
                        && self.has_copies()
                        && self.lead.streams.iter().all(|stream| stream.is_found && stream.sending.is_none())
                }
                Role::InSync | Role::Follower => self.follow.matched.is_some(),
                _ => false,
            }
    }

    fn primary_due_us<D: Disk>(&self, context: &Context<'_, D>) -> u64 {
        let now_us = context.now_us;
        let mut wake_us = u64::MAX;
        let mut at = |us: u64| wake_us = wake_us.min(us);
        at(self.compare_due_us().max(now_us + POLL_US));
        if self.lead.epoch_marker == NO_EPOCH_MARKER && !self.health.needs_state
            || self.lead.wait_queue.len() > 0
            || !self.lead.waiting_messages.is_empty()
        {
            at(now_us + POLL_US);
        }
        if !self.has_waited(now_us) {
            at(self.former.waits.values().copied().fold(self.former.wait_us, u64::max));
        }
        if let Some(wake_ms) = self.partition.next_maintenance_ms() {
            // A primary that may not answer neither times out waits nor expires records. The lease that it lacks wakes it.
            let soonest_us = if self.may_answer(context) { 0 } else { now_us + DEFERRED_CHECK_US };
            at((now_us + wake_ms.saturating_sub(context.now.ms) * 1_000).max(soonest_us));
        }
        if let Some(pending) = &self.lead.pending_change {
            at(pending.sent_us + PROPOSAL_REPEAT_US);
            if pending.since_us + LAG_US > now_us {
                at(pending.since_us + LAG_US);
            }
        }
        let is_removing =
            matches!(self.lead.pending_change, Some(PendingChange { change: GroupChange::Remove(_), .. }));
        for stream in &self.lead.streams {
            at(self.member_due_us(context, stream));
            if !is_removing && self.view.in_sync.contains(&stream.member) {
                at(self.report_unresponsive_at_us(context, stream));
            }
        }
        wake_us
    }

    fn member_due_us<D: Disk>(&self, context: &Context<'_, D>, stream: &Stream) -> u64 {
        if let Some(sending) = &stream.sending {
            return sending.due_us();
        }
        if stream.coalesce_until_us != 0 && self.may_coalesce(stream) && stream.next <= self.last() {
            return stream.coalesce_until_us;
        }
        let has_room = stream.next <= stream.window_end();
        if stream.is_found && stream.next <= self.last() && has_room {
            return context.now_us + STEP_PAUSE_US_MIN;
        }
        let is_there = context.leases.is_valid(context.now_us, stream.member);
        self.heartbeat_due_us(stream, is_there).min(stream.resend_due_us(is_there))
    }
}
