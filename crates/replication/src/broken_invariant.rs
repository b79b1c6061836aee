//! A replica with a broken invariant: its state cannot be trusted. It stops serving and acknowledging, and its log is not
//! written any more. Other members take over, and the process goes on with its other partitions. The replica stays so until the
//! process starts again, which reads its state from the disk.
//!
//! ```text
//!   primary  ──Remove(this member)──> control group ──> an in-sync replica is primary, this one a follower
//!   in sync  ──NeedsState──> primary ──Remove(this member)──> control group ──> this one is a follower
//!   follower ── silent, and therefore never admitted
//! ```

use zerohop_base::invariant::BrokenInvariant;
use zerohop_engine::disk::Disk;
use zerohop_wire::messages::{FollowerReport, PeerBody};

use super::limits::{PROPOSAL_REPEAT_US, REPORT_US};
use super::{Context, GroupChange, Replica, ReplicaEffects, ReplicaEvent, Role, failed, unavailable};

impl Replica {
    /// The broken invariant because of which the replica has stopped.
    #[must_use]
    pub fn broken(&self) -> Option<BrokenInvariant> {
        self.health.broken
    }

    /// An invariant is broken: the replica answers all that waits here, and stops.
    pub(super) fn stop_broken<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        broken: BrokenInvariant,
        effects: &mut dyn ReplicaEffects,
    ) {
        self.health.broken = Some(broken);
        context.engine.stop_broken(self.partition.handle(), broken);
        effects.invariant_broken(broken);
        // Writes that were accepted may have happened, and are not known to be safe.
        self.partition.step_down(&unavailable(), effects);
        self.refuse_all(&unavailable(), effects);
        self.lead.streams.clear();
        self.lead.pending_change = None;
        self.follow.snapshot_install = None;
        self.follow.early.clear();
        self.follow.reported_us = 0;
        self.leave_broken(context.now_us, effects);
    }

    /// Handles an event of a replica that has stopped.
    pub(super) fn step_broken<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) {
        match event {
            ReplicaEvent::Request(request) if self.role == Role::Primary => {
                effects.answer(request.token, &failed(unavailable()));
            }
            ReplicaEvent::Request(request) => effects.wrong_owner(request.token),
            ReplicaEvent::Peer { epoch, .. } if epoch > self.view.epoch => effects.fetch_map(epoch),
            ReplicaEvent::Group(view) if view.epoch > self.view.epoch => {
                // Another member, which becomes primary now, waits for the end of the leases: this one sends no `Yield`.
                self.role = view.role(self.this_member);
                self.is_lone &= self.role == Role::Primary && view.others().next().is_none();
                self.view = view;
                self.lead.pending_change = None;
                self.follow.reported_us = 0;
                self.leave_broken(context.now_us, effects);
            }
            ReplicaEvent::Peer { .. } | ReplicaEvent::Tick => self.leave_broken(context.now_us, effects),
            ReplicaEvent::Group(_)
            | ReplicaEvent::Transaction { .. }
            | ReplicaEvent::PrimaryMoved(_)
            | ReplicaEvent::UnsyncedPrepared(_)
            | ReplicaEvent::AdmissionRequested(_)
            | ReplicaEvent::Flushed
            | ReplicaEvent::FlushFailed
            | ReplicaEvent::Removed(_)
            | ReplicaEvent::Scrub { .. }
            | ReplicaEvent::TokensChanged
            | ReplicaEvent::Disconnected { .. } => {}
        }
    }

    /// Asks, now and then, that this member leave the in-sync set.
    fn leave_broken(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        if now_us < self.broken_due_us() {
            return;
        }
        self.follow.reported_us = now_us.max(1);
        if self.role == Role::Primary {
            effects.propose_change(self.view.epoch, GroupChange::Remove(self.this_member));
        } else {
            let report = PeerBody::ReplicateAck(FollowerReport::NeedsState);
            effects.send(self.view.primary, self.view.epoch, &report);
        }
    }

    /// When a stopped replica next asks for its removal; [`u64::MAX`]: no member can take over from it, or none needs to.
    pub(super) fn broken_due_us(&self) -> u64 {
        let every_us = match self.role {
            Role::Primary if !self.view.in_sync.is_empty() => PROPOSAL_REPEAT_US,
            Role::InSync => REPORT_US,
            _ => return u64::MAX,
        };
        if self.follow.reported_us == 0 { 0 } else { self.follow.reported_us + every_us }
    }
}
