//! A partition with a single copy: a replica without other members. It is its own quorum. It has no lease, no epoch marker and no
//! stream, and it answers as soon as its own log has an entry at the keyspace's durability.
//!
//! The replica is lone from its opening until a map gives it another member. It never becomes lone again while it is
//! open, because former members may know of entries that it must still agree about.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineResult, PartitionId};

use super::replica_state::FormerPrimaries;
use super::{Context, GroupView, Replica, ReplicaEffects, ReplicaEvent, Role, failed, unavailable};
use zerohop_partition::InheritedHistory;
use zerohop_partition::MemberOptions;
use zerohop_partition::Partition;
use zerohop_partition::{PartitionEvent, RecordRequest};
use zerohop_wire::Message;
use zerohop_wire::ids::PartitionEpoch;

/// The end of a request at a lone replica.
pub(super) enum LoneOutcome {
    /// It serves on.
    Still(EngineResult<()>),
    /// An invariant is broken.
    Broken(EngineResult<()>),
}

impl Replica {
    /// Makes a replica of a partition whose only member is this instance. `view` is its group.
    pub fn lone(
        mut partition: Partition,
        id: PartitionId,
        view: GroupView,
        options: MemberOptions,
    ) -> Replica {
        partition.begin_lone();
        let replica = Replica::new(partition, view.primary, id, options);
        let former = FormerPrimaries { has_unknown: false, ..FormerPrimaries::default() };
        Replica { view, role: Role::Primary, former, is_lone: true, ..replica }
    }

    /// Whether it has had no other member since it was opened.
    #[must_use]
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.is_lone
    }

    /// Handles an event of a lone replica.
    pub(super) fn step_lone<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let event = match event {
            ReplicaEvent::Request(request) => return self.request_lone(context, request, effects),
            ReplicaEvent::Transaction { message, .. } => PartitionEvent::Transaction(message),
            ReplicaEvent::PrimaryMoved(range) => PartitionEvent::PrimaryMoved(range),
            ReplicaEvent::UnsyncedPrepared(message) => PartitionEvent::UnsyncedPrepared(message),
            ReplicaEvent::Flushed => PartitionEvent::Flushed,
            ReplicaEvent::FlushFailed => PartitionEvent::FlushFailed,
            ReplicaEvent::Tick => PartitionEvent::Tick,
            ReplicaEvent::TokensChanged => PartitionEvent::TokensChanged,
            ReplicaEvent::Disconnected { connection } => PartitionEvent::Disconnected { connection },
            ReplicaEvent::Removed(failure) => {
                self.partition.release(&failure, effects);
                return Ok(());
            }
            ReplicaEvent::Group(view)
                if view.primary == self.this_member && view.others().next().is_none() =>
            {
                if view.epoch > self.view.epoch {
                    self.partition.raise_epoch(view.epoch);
                    self.view = view;
                }
                return Ok(());
            }
            ReplicaEvent::Group(_) => {
                self.is_lone = false;
                let forget = PartitionEvent::ForgetUnsynced;
                self.partition.step(context.engine, context.at(), forget, effects)?;
                return self.step(context, event, effects);
            }
            // The map that names other members has not arrived here, or a former group's messages are late.
            ReplicaEvent::Peer { .. } | ReplicaEvent::AdmissionRequested(_) => {
                return self.handle_event(context, event, effects);
            }
            // There is no other member to compare with, or to get a corrupt entry from.
            ReplicaEvent::Scrub { .. } => return Ok(()),
        };
        self.partition.step(context.engine, context.at(), event, effects)
    }

    /// The epoch of a lone replica that serves.
    pub(super) fn lone_epoch(&self) -> Option<PartitionEpoch> {
        (self.is_lone && self.health.broken.is_none()).then_some(self.view.epoch)
    }

    /// Handles a request of a client that knows no newer epoch, at a lone replica that serves. A read changes nothing that the
    /// check at the end of a step compares, so a release build checks after writes only.
    #[inline]
    pub(super) fn serve_lone<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: RecordRequest<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> LoneOutcome {
        let is_checked = cfg!(debug_assertions) || !matches!(request.message, Message::Read { .. });
        let result =
            self.partition.step(context.engine, context.at(), PartitionEvent::Request(request), effects);
        if is_checked && self.end_lone_write(context, effects) {
            return LoneOutcome::Broken(result);
        }
        LoneOutcome::Still(result)
    }

    /// Handles a request at a lone replica.
    fn request_lone<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: RecordRequest<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if self.health.broken.is_some() {
            self.step_broken(context, ReplicaEvent::Request(request), effects);
            return Ok(());
        }
        if request.envelope.partition_epoch > self.view.epoch {
            return self.answer_newer(&request, effects);
        }
        let result =
            self.partition.step(context.engine, context.at(), PartitionEvent::Request(request), effects);
        self.end_step(context, effects);
        result
    }

    /// The client has learned of a change of the group that has not arrived here yet.
    pub(super) fn answer_newer(
        &mut self,
        request: &RecordRequest<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        effects.fetch_map(request.envelope.partition_epoch);
        effects.answer(request.token, &failed(unavailable()));
        Ok(())
    }

    /// When a lone replica has something to do that has a deadline, in microseconds of the monotonic clock.
    pub(super) fn lone_deadline_us<D: Disk>(&self, context: &Context<'_, D>) -> u64 {
        let wake_ms = self.partition.next_tick_ms().filter(|_| self.health.broken.is_none());
        wake_ms.map_or(u64::MAX, |wake_ms| at_us(context, wake_ms))
    }

    /// When a lone replica next needs a tick though no event arrives, in microseconds of the monotonic clock.
    pub(super) fn lone_wake_us<D: Disk>(&self, context: &Context<'_, D>) -> u64 {
        self.partition.next_maintenance_ms().map_or(u64::MAX, |wake_ms| at_us(context, wake_ms))
    }

    /// Changes when entries of the only copy survive a crash ([`Partition::set_durability`]). With several members nothing
    /// changes: the control group refuses such a change.
    ///
    /// # Errors
    /// As there.
    pub(super) fn set_durability<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        durability: Durability,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if !self.partition.is_single_copy() || self.health.broken.is_some() {
            return Ok(());
        }
        self.partition.set_durability(engine, durability, effects)
    }

    /// Starts a checkpoint of a lone replica.
    pub(super) fn checkpoint_lone<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        if self.is_lone { self.partition.checkpoint(engine) } else { Ok(()) }
    }

    /// Ends as the only copy of a partition that is split. Returns the log index of its state, the state, and the changes that it keeps. The
    /// waiting requests must have been [released](ReplicaEvent::Removed).
    pub fn pass_on_lone(self) -> (u64, Vec<u8>, Option<InheritedHistory>) {
        let history = self.partition.history();
        let (applied, state) = self.partition.state_for_children();
        (applied, state, history)
    }
}

/// A time of the wall clock, in milliseconds, on the monotonic clock in microseconds.
fn at_us<D: Disk>(context: &Context<'_, D>, wall_ms: u64) -> u64 {
    context.now_us + wall_ms.saturating_sub(context.now.ms).saturating_mul(1_000)
}
