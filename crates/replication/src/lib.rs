//! One partition as a member of its replica group: primary, in-sync replica, follower, or removed.
//!
//! ```text
//!   Request ──> admission: primary? marker committed? leases? copies? bound? ──yes──> Partition ──> log
//!                 │ no: queued, with a time-out                                                      │
//!   ack ──> stream: log index of each member ──> lowest of all needed ──> Partition::agree           │
//!                                                                                                    │
//!   Replicate ──> matched? truncate? append ──> ack once durable     <──── streams ──────────────────┘
//!   Group ──> role, streams and wait queue are set again
//! ```
//!
//! Replication is primary-backup in the manner of PacificA (Lin and others, 2008): only the control group changes a group, by
//! compare-and-set on its epoch. `docs/protocols/replication.md` states every rule and what is lost without it. This crate is
//! pure: an event and a time go in, [`ReplicaEffect`]s come out.

mod admission;
mod anti_entropy;
mod broken_invariant;
mod check;
mod compare;
mod compared_keys;
mod copy_throttle;
mod counts;
mod digest;
mod disk_full;
mod entry_repair;
mod event;
mod follower;
mod follower_progress;
pub mod lease;
pub mod limits;
mod lone;
pub mod message_limit;
mod partition_index;
mod primary;
mod replica_state;
mod replica_table;
mod role_change;
mod snapshot_install;
mod snapshot_progress;
mod snapshot_send;
mod sole_copy_corrupt;
mod split;
#[cfg(test)]
mod tests;
mod timers;
pub mod view;
mod wait_queue;
mod waiting_messages;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineError, EngineResult, PartitionId};
use zerohop_wire::ids::{LogIndex, PartitionEpoch, Timestamp};
pub use zerohop_wire::messages::Member;
use zerohop_wire::messages::{EntryName, PeerBody};
use zerohop_wire::{Failure, Message};

use sole_copy_corrupt::Damage;
use zerohop_partition::PartitionEvent;
use zerohop_partition::limits::UNAVAILABLE_RETRY_MS;
use zerohop_partition::planted::{Bug, is_planted};
use zerohop_partition::{MemberOptions, PartitionOpenError};
use zerohop_partition::{Partition, PartitionFigures};

pub use counts::ReplicaCounts;
pub use digest::Digest;
pub use event::{Context, ReplicaEffect, ReplicaEffects, ReplicaEvent};
pub use lease::Leases;
pub use partition_index::PartitionKey;
pub use replica_table::{ReplicaTable, Steps, TableEffects};
pub use snapshot_progress::CopyProgress;
pub use sole_copy_corrupt::CopyDamage;
pub use view::{GroupChange, GroupView, Role};

pub use split::InheritedState;

use anti_entropy::Audit;
use entry_repair::EntryRepair;
use replica_state::{CopyHealth, FollowerState, FormerPrimaries, PendingChange, PrimaryState, SendBudget};

/// The state of a member's log, for the control group, which decides which member may be primary after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last entry of its log.
    pub last: EntryName,
    /// Whether the log has everything that this member ever acknowledged under `sync` durability, as far as the member can tell.
    pub is_intact: bool,
    /// Whether the log represents a complete state. Only such a member may be primary.
    pub is_complete: bool,
}

/// One partition as a member of its replica group; see the module.
#[derive(Debug)]
pub struct Replica {
    this_member: Member,
    id: PartitionId,
    options: MemberOptions,
    partition: Partition,
    view: GroupView,
    role: Role,
    /// See [`Replica::is_lone`].
    is_lone: bool,
    counts: ReplicaCounts,
    role_changed_us: u64,
    health: CopyHealth,
    audit: Audit,
    sending: SendBudget,
    /// As primary.
    lead: PrimaryState,
    former: FormerPrimaries,
    /// As in-sync replica or follower.
    follow: FollowerState,
}

impl Replica {
    /// Opens a partition of an instance that has just started. The replica is in no group until a map names it.
    ///
    /// # Errors
    /// See [`PartitionOpenError`].
    pub fn open<D: Disk>(
        engine: &mut Engine<D>,
        me: Member,
        id: PartitionId,
        options: MemberOptions,
    ) -> Result<Replica, PartitionOpenError> {
        let (partition, restored) = Partition::open_as_member(engine, id, options)?;
        let is_intact = engine.damage(partition.handle())?.is_empty() && !restored.has_lost_state;
        let repair = EntryRepair::of_start(engine, partition.handle())?.filter(|_| !restored.has_lost_state);
        let replica = Replica::new(partition, me, id, options);
        let damage = match restored.has_lost_state {
            true => Damage::of_start(engine, replica.handle())?,
            false => Damage::default(),
        };
        let (needs_state, has_corruption) = (restored.has_lost_state, repair.is_none());
        let health = CopyHealth {
            needs_state,
            is_intact,
            has_corruption,
            repair: repair.unwrap_or_default(),
            damage,
            ..CopyHealth::default()
        };
        Ok(Replica { health, ..replica })
    }

    fn new(partition: Partition, me: Member, id: PartitionId, options: MemberOptions) -> Replica {
        Replica {
            this_member: me,
            id,
            options,
            partition,
            view: GroupView::default(),
            role: Role::Removed,
            is_lone: false,
            counts: ReplicaCounts::default(),
            role_changed_us: 0,
            health: CopyHealth::default(),
            audit: Audit::default(),
            sending: SendBudget::default(),
            lead: PrimaryState::default(),
            former: FormerPrimaries::default(),
            follow: FollowerState::default(),
        }
    }

    /// Handles an event and passes the resulting actions to `effects`.
    ///
    /// # Errors
    /// Engine errors that no request has caused. The caller logs them.
    pub fn step<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if self.health.broken.is_some() {
            self.step_broken(context, event, effects);
            return Ok(());
        }
        if self.is_lone {
            let result = self.step_lone(context, event, effects);
            self.end_step(context, effects);
            return result;
        }
        self.partition.advance_clock(context.now);
        let result = self.handle_event(context, event, effects);
        if let Err(EngineError::Corrupt { .. }) = result {
            // The corrupt entry was to be committed, or was read by the replica itself. Its index is not known.
            self.suspect_corruption(true);
        }
        let paused = self.pause_compaction(context.engine);
        self.end_step(context, effects);
        result.and(paused)
    }

    fn handle_event<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        match event {
            ReplicaEvent::Request(request) => self.request(context, &request, effects),
            ReplicaEvent::Transaction { epoch, message } => {
                self.transaction(context, (epoch, message), effects)
            }
            ReplicaEvent::PrimaryMoved(range) => self.primary_moved(context, range, effects),
            // Its own entries may survive without those of the other partition.
            ReplicaEvent::UnsyncedPrepared(_) => Ok(()),
            ReplicaEvent::Peer { from, epoch, body } => self.peer(context, (from, epoch), body, effects),
            ReplicaEvent::Group(view) => {
                self.set_group(context, view, effects)?;
                self.handle_early(context, effects)
            }
            ReplicaEvent::AdmissionRequested(member) => {
                self.lead.admission_requested = Some(member);
                Ok(())
            }
            ReplicaEvent::Flushed => self.flushed(context, effects),
            ReplicaEvent::FlushFailed => {
                if self.role == Role::Primary {
                    self.partition.step(
                        context.engine,
                        context.at(),
                        PartitionEvent::FlushFailed,
                        effects,
                    )?;
                }
                Ok(())
            }
            ReplicaEvent::Removed(failure) => {
                self.partition.step_down(&failure, effects);
                self.refuse_all(&failure, effects);
                Ok(())
            }
            ReplicaEvent::Tick => self.tick(context, effects),
            ReplicaEvent::Scrub { bytes } => {
                self.scrub(context, bytes)?;
                self.begin_audit(context, effects)
            }
            ReplicaEvent::TokensChanged => {
                self.partition.step(context.engine, context.at(), PartitionEvent::TokensChanged, effects)
            }
            ReplicaEvent::Disconnected { connection } => {
                self.lead.wait_queue.disconnect(connection);
                self.audit.client_requests.retain(|one| one.token.connection != connection);
                let event = PartitionEvent::Disconnected { connection };
                self.partition.step(context.engine, context.at(), event, effects)
            }
        }
    }

    fn flushed<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        match self.role {
            Role::Primary => self.advance(context, effects),
            _ => self.acknowledge(context, effects),
        }
    }

    fn tick<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        self.check_disk_space(context, effects);
        match self.role {
            Role::Primary => {
                self.step_as_primary(context, effects)?;
                self.compare_on(context, effects)?;
            }
            _ => self.acknowledge(context, effects)?,
        }
        self.resolve_retained(0, context.now_us, effects);
        self.send_yield(context.now_us, effects);
        self.repair_on(context, effects)?;
        self.cover_damage(context)?;
        // A checkpoint of an incomplete log would claim that the log is complete.
        let is_whole = self.role != Role::Primary && !self.health.needs_state;
        if is_whole && context.engine.checkpoint_is_due(self.partition.handle())? {
            self.partition.checkpoint(context.engine)?;
        }
        Ok(())
    }

    fn peer<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (from, epoch): (Member, PartitionEpoch),
        body: &PeerBody<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        use zerohop_partition::planted::{Bug, is_planted};
        if let PeerBody::Yield = body {
            self.handle_yield(from, epoch);
            return self.admit_queued(context, effects);
        }
        if epoch > self.view.epoch {
            self.queue_early(from, epoch, body);
            effects.fetch_map(epoch);
            return Ok(());
        }
        if let PeerBody::Stale = body {
            return Ok(());
        }
        let is_older = epoch < self.view.epoch;
        if is_older && !is_planted(Bug::OlderEpochAccepted) {
            // The sender does not know the newer epoch. Members that only send answers will learn it from the map.
            if matches!(body, PeerBody::Replicate { .. } | PeerBody::StatePart { .. }) {
                effects.send(from, self.view.epoch, &PeerBody::Stale);
            }
            return Ok(());
        }
        let is_from_primary = from == self.view.primary || is_older;
        match body {
            PeerBody::Replicate { preceding, commit, entries } if is_from_primary => {
                self.handle_entries(context, (from, epoch), (*preceding, commit.0, entries), effects)
            }
            PeerBody::StatePart { as_of, attempt, part, cursor, contents: holds }
                if from == self.view.primary =>
            {
                self.handle_snapshot_part(context, (*as_of, *attempt), (*part, cursor, holds), effects)
            }
            PeerBody::ReplicateAck(report) if self.role == Role::Primary => {
                self.handle_report(context, from, *report, effects)
            }
            PeerBody::DigestQuery(range) if is_from_primary => {
                self.handle_digest_request(context, range, effects)
            }
            PeerBody::DigestReply { range, records, digest } if self.role == Role::Primary => {
                self.handle_digest(from, (range, (*records, *digest)), context.now_us, effects);
                Ok(())
            }
            PeerBody::DigestDiffers(range) if is_from_primary => {
                self.handle_digest_differs(range);
                Ok(())
            }
            PeerBody::EntryGet(name) => self.handle_entry_request(context, from, *name, effects),
            PeerBody::EntryGot(entry) => self.handle_repair_entry(context, entry, effects),
            PeerBody::EntryLost(name) => {
                self.handle_entry_missing(*name);
                Ok(())
            }
            PeerBody::StateAck { as_of, attempt, parts, .. } if self.role == Role::Primary => {
                self.handle_snapshot_ack(context, from, (*as_of, *attempt, *parts), effects)
            }
            _ => Ok(()),
        }
    }

    /// The group in which the replica acts.
    #[must_use]
    pub fn view(&self) -> &GroupView {
        &self.view
    }

    /// The role of the replica in its group.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the replica is primary, has started its epoch, and has no transaction in progress.
    pub fn is_drained(&self) -> bool {
        let is_started = self.lead.epoch_marker != role_change::NO_EPOCH_MARKER
            && self.lead.epoch_marker <= self.partition.applied();
        self.role == Role::Primary
            && is_started
            && self.health.broken.is_none()
            && self.partition.is_drained()
    }

    /// The log index up to which everything must be committed before a pending split ([`Partition::split_barrier`]). `None`: it is
    /// not known yet, or another member knows it.
    pub fn split_barrier(&self) -> Option<u64> {
        let is_started = self.is_lone()
            || self.lead.epoch_marker != role_change::NO_EPOCH_MARKER
                && self.lead.epoch_marker <= self.partition.applied();
        let is_serving = self.role == Role::Primary && is_started && self.health.broken.is_none();
        if is_serving { self.partition.split_barrier() } else { None }
    }

    /// The log index up to which committed entries are applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.partition.applied()
    }

    /// Counters of the events in this replica.
    #[must_use]
    pub fn counts(&self) -> ReplicaCounts {
        self.counts
    }

    /// The figures of its partition.
    #[must_use]
    pub fn stats(&self) -> PartitionFigures {
        self.partition.stats()
    }

    /// Its partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Sets the longest bytes record that writes may make by adding to it ([`Partition::set_bytes_max`]).
    pub fn set_bytes_max(&mut self, bytes: u64) {
        self.partition.set_bytes_max(bytes);
    }

    /// The engine's handle of the partition.
    pub fn handle(&self) -> zerohop_engine::Handle {
        self.partition.handle()
    }

    /// The newest timestamp that the replica has assigned or seen, or that a queued request has seen. The timestamp bound must be
    /// above it.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        self.partition.newest().max(self.lead.wait_queue.seen())
    }

    /// Whether a crash of this process could lose entries of its log that a report counts: it is a follower, so the in-sync
    /// replicas may have had them durably for long, and it has them in memory only.
    ///
    /// # Errors
    /// As [`Engine::durable_index`].
    pub fn is_report_volatile<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<bool> {
        Ok(self.is_volatile_follower() && engine.durable_index(self.partition.handle())? < self.last())
    }

    fn is_volatile_follower(&self) -> bool {
        let me = self.this_member;
        self.is_interval() && self.view.primary != me && !self.view.in_sync.contains(&me)
    }

    /// The state of its log.
    #[must_use]
    pub fn log_end(&self) -> LogEnd {
        let (epoch, index) = self.partition.last_name();
        LogEnd {
            last: EntryName { epoch, index: LogIndex(index) },
            is_intact: self.health.is_intact,
            is_complete: !self.health.needs_state && self.health.broken.is_none(),
        }
    }

    /// The state of its log for the report about a group that recovers. Of a follower only what is durable counts: a group that
    /// goes on with its log relies on it alone from then on, and other members may have had the entries durably for long. A disk
    /// that does not show what is durable leaves the log incomplete: the group does not wait for it.
    pub fn reported_log_end<D: Disk>(&self, engine: &mut Engine<D>) -> LogEnd {
        let end = self.log_end();
        match self.durable_part(engine) {
            Ok(None) => end,
            Ok(Some(last)) => LogEnd { last, ..end },
            Err(_) => LogEnd { last: EntryName::default(), is_intact: false, is_complete: false },
        }
    }

    /// The end of the durable part of a log of which only this part is reported.
    fn durable_part<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<Option<EntryName>> {
        if !self.is_report_volatile(engine)? || is_planted(Bug::VolatileLogReported) {
            return Ok(None);
        }
        let index = engine.durable_index(self.partition.handle())?;
        let epoch = engine.epoch_at(self.partition.handle(), index)?;
        Ok(Some(epoch.map(|epoch| EntryName { epoch, index: LogIndex(index) }).unwrap_or_default()))
    }

    /// Whether the replica is searching for or repairing corruption in its log.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        !self.health.repair.is_idle()
    }

    /// Whether the current scrub has read the complete log, and nothing is being repaired.
    #[must_use]
    pub fn is_between_scrubs(&self) -> bool {
        self.health.repair.is_between_scrubs() || self.health.broken.is_some()
    }

    /// Whether requests wait in the replica, or readers watch it, so that [`ReplicaEvent::Disconnected`] has something to do.
    #[must_use]
    pub fn has_waits(&self) -> bool {
        self.lead.wait_queue.len() > 0 || !self.audit.client_requests.is_empty() || self.partition.has_waits()
    }

    /// The members whose leases this replica needs or will need: those of its group, if it is the primary.
    pub fn lease_granters(&self) -> impl Iterator<Item = Member> + '_ {
        let is_primary = self.role == Role::Primary;
        self.view.others().filter(move |_| is_primary)
    }

    fn is_sync(&self) -> bool {
        self.partition.durability() == Durability::Sync
    }

    fn is_interval(&self) -> bool {
        matches!(self.partition.durability(), Durability::Interval { .. })
    }

    fn last(&self) -> u64 {
        self.partition.last_name().1
    }
}

fn unavailable() -> Failure<'static> {
    Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS }
}

fn failed(failure: Failure<'static>) -> Message<'static> {
    Message::Answer(Err(failure))
}
