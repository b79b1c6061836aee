//! One partition as a member of its replica group: primary, in-sync replica, follower, or none of them.
//!
//! ```text
//!   Request ──> gate: primary? mark committed? leases? copies? ceiling? ──yes──> Partition ──> log
//!                 │ no: parked, with a time-out                                              │
//!   ack ──> stream: what each member holds ──> what all hold who must ──> Partition::agree   │
//!                                                                                            │
//!   Replicate ──> matched? cut? append ──> ack once durable          <──── streams ─────────┘
//!   Group ──> role, streams, what waits: settled again
//! ```
//!
//! Primary-backup replication in the manner of PacificA (Lin and others, 2008): only the control group changes a group, by
//! compare-and-set on its epoch. `docs/protocols/replication.md` tells every rule and what is lost without it. Pure: an
//! event and a time go in, [`ReplicaEffects`] come out.

mod admission;
mod anti_entropy;
mod compare;
mod copy_throttle;
mod counts;
mod digest;
mod disk_full;
mod entry_repair;
mod follower;
mod follower_progress;
pub mod lease;
pub mod limits;
mod primary;
mod replica_table;
mod role_change;
mod snapshot_install;
mod snapshot_send;
mod sole_copy_corrupt;
mod split;
#[cfg(test)]
mod tests;
mod timers;
pub mod view;
mod wait_queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineError, EngineResult, PartitionId};
use zerohop_wire::ids::{InstanceId, LogIndex, PartitionEpoch, Timestamp};
pub use zerohop_wire::messages::Member;
use zerohop_wire::messages::{Call, EntryName, Slice};
use zerohop_wire::{Failure, Message};

use crate::event::{Now, PartitionEvent, RecordRequest};
use crate::limits::UNAVAILABLE_RETRY_MS;
use crate::partition::open::{MemberOptions, PartitionOpenError};
use crate::partition::{Partition, PartitionFigures};
use sole_copy_corrupt::Damage;

pub use counts::ReplicaCounts;
pub use digest::Digest;
pub use lease::Leases;
pub use replica_table::{EffectsOf, Replicas, Steps};
pub use snapshot_send::CopyProgress;
pub use sole_copy_corrupt::CopyDamage;
pub use view::{GroupChange, GroupView, Role};

pub(crate) use split::InheritedState;

use anti_entropy::Audit;
use entry_repair::EntryRepair;
use follower_progress::Stream;
use snapshot_install::SnapshotInstall;
use wait_queue::WaitQueue;

/// What a step is taken with.
#[expect(missing_debug_implementations, reason = "an engine has none")]
pub struct Context<'c, D: Disk> {
    /// The instance's storage.
    pub engine: &'c mut Engine<D>,
    /// The instance's time of day.
    pub now: Now,
    /// The instance's other clock in microseconds, which is never set.
    pub now_us: u64,
    /// The instance's leases.
    pub leases: &'c Leases,
}

/// What a member is told.
#[derive(Clone, Debug)]
pub enum ReplicaEvent<'a> {
    /// A client asks for something.
    Request(RecordRequest<'a>),
    /// Another member says something about this partition.
    Peer {
        /// Who. That it is meant for this process was looked at.
        from: Member,
        /// The epoch that it acts in.
        epoch: PartitionEpoch,
        /// What.
        call: &'a Call<'a>,
    },
    /// Another partition says something about a transaction.
    Transaction(&'a zerohop_transaction::Message),
    /// The map names this group.
    Group(GroupView),
    /// The control group wants a follower in sync once it has caught up, beyond the copies needed: for a move.
    Asked(Member),
    /// See [`PartitionEvent::Flushed`].
    Flushed,
    /// See [`PartitionEvent::FlushFailed`].
    FlushFailed,
    /// The partition will not be here any more: whoever waits is answered so.
    Gone(Failure<'static>),
    /// Time has passed, or a batch of events has ended in which it was told something.
    Tick,
    /// There is time to read about so many bytes of its log in search of corruption, and to compare a few records with others.
    Scrub {
        /// One entry may be more.
        bytes: usize,
    },
    /// See [`PartitionEvent::Disconnected`].
    Disconnected {
        /// Which.
        connection: u64,
    },
}

/// What a member asks its owner to do, beside what its partition does. All may be done at once, lost, or done twice.
pub trait ReplicaEffects: crate::PartitionEffects {
    /// Send a message about this partition, in this epoch.
    fn send(&mut self, to: Member, epoch: PartitionEpoch, call: &Call<'_>);

    /// Ask the control group for a change of this group, if its epoch is still this one.
    fn ask(&mut self, epoch: PartitionEpoch, change: GroupChange);

    /// This member holds something else than the others, as of one entry: for whoever looks after the cluster. It takes a
    /// whole state, or another becomes primary; that is seen to.
    fn differs(&mut self, who: Member, slice: Slice);

    /// Fetch the map: somebody acts in this epoch of the partition.
    fn fetch_map(&mut self, epoch: PartitionEpoch);
}

/// What a member has, for the control group that decides who may be primary after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last entry of its log.
    pub last: EntryName,
    /// Everything that it ever acknowledged under `sync` durability is there, as far as it can tell.
    pub is_intact: bool,
    /// Its log stands for a whole state: it may be primary at all.
    pub is_whole: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Replica {
    me: Member,
    id: PartitionId,
    options: MemberOptions,
    partition: Partition,
    view: GroupView,
    role: Role,
    counts: ReplicaCounts,
    /// Its log does not stand for a state: it must take a whole one.
    needs_state: bool,
    /// Its log was found without damage.
    is_intact: bool,
    /// It has met an entry that is corrupt, and that nobody can repair.
    has_corruption: bool,
    /// What is corrupt and is being repaired.
    repair: EntryRepair,
    damage: Damage,
    audit: Audit,
    /// Compaction of its log waits.
    holds_log: bool,
    /// The number of the last copy that it began to send.
    attempts: u64,
    /// See [`Replica::set_copy_room`] and [`Replica::take_copied`].
    copy_room: u64,
    copied_bytes: u64,

    // As primary.
    streams: Vec<Stream>,
    /// It answers once this log index is committed.
    mark: u64,
    /// Until when grants to older primaries may be in use, by instance.
    waits: BTreeMap<InstanceId, u64>,
    /// The same for whom it may not know.
    wait_us: u64,
    asked: Option<PendingChange>,
    /// All whom requests of this epoch ask to admit: they may be in sync already.
    admitting: Vec<Member>,
    /// Whom those of this epoch ask to remove.
    removing: Vec<Member>,
    wished: Option<Member>,
    parked: WaitQueue,
    is_lapsed: bool,
    settled_us: u64,
    /// It was primary, and has not said yet that it yields: readers may count on what it holds.
    owes_yield: bool,

    // As replica or follower.
    /// Up to where its log is the primary's, in this epoch.
    matched: Option<u64>,
    /// The commit index that it was told of.
    told_commit: u64,
    ack_due: bool,
    /// What it has told the primary that it holds durably.
    told_durable: u64,
    /// When it last said that it needs a whole state.
    reported_us: u64,
    taking: Option<SnapshotInstall>,
    /// Since when its disk has no room.
    full_since_us: Option<u64>,
    /// When it last told the primary that; 0: this one has not heard it.
    told_full_us: u64,
    /// Primaries of epochs that may not be settled yet.
    former: BTreeSet<InstanceId>,
    /// There may be others that it has not heard of.
    has_unknown_former: bool,
    /// The newest epoch that others have said they act in, as primaries of older ones.
    yielded: BTreeMap<InstanceId, PartitionEpoch>,
    /// Messages of an epoch whose map it does not have.
    early: VecDeque<Vec<u8>>,
}

/// A change that was asked for and is not known to be decided.
#[derive(Clone, Copy, Debug)]
struct PendingChange {
    change: GroupChange,
    since_us: u64,
    sent_us: u64,
}

impl Replica {
    /// Opens a partition of an instance that has just started: it is in no group until the map says so.
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
        let is_intact = engine.damage(partition.handle())?.is_empty() && !restored.is_state_lost;
        let repair = EntryRepair::of_start(engine, partition.handle())?.filter(|_| !restored.is_state_lost);
        let replica = Replica::new(partition, me, id, options);
        let (needs_state, has_corruption) = (restored.is_state_lost, repair.is_none());
        let damage =
            if needs_state { Damage::of_start(engine, replica.handle())? } else { Damage::default() };
        let repair = repair.unwrap_or_default();
        Ok(Replica { needs_state, is_intact, has_corruption, repair, damage, ..replica })
    }

    /// Takes over a partition of which this is the only member, as `alone` says, because others are to join.
    pub fn adopt(partition: Partition, alone: GroupView, id: PartitionId, options: MemberOptions) -> Replica {
        let replica = Replica::new(partition, alone.primary, id, options);
        Replica { view: alone, role: Role::Primary, has_unknown_former: false, ..replica }
    }

    fn new(partition: Partition, me: Member, id: PartitionId, options: MemberOptions) -> Replica {
        Replica {
            me,
            id,
            options,
            partition,
            view: GroupView::default(),
            role: Role::Removed,
            counts: ReplicaCounts::default(),
            needs_state: false,
            is_intact: true,
            has_corruption: false,
            repair: EntryRepair::default(),
            damage: Damage::default(),
            audit: Audit::default(),
            holds_log: false,
            attempts: 0,
            copy_room: u64::MAX,
            copied_bytes: 0,
            streams: Vec::new(),
            mark: 0,
            waits: BTreeMap::new(),
            wait_us: 0,
            asked: None,
            admitting: Vec::new(),
            removing: Vec::new(),
            wished: None,
            parked: WaitQueue::default(),
            is_lapsed: false,
            settled_us: 0,
            owes_yield: false,
            matched: None,
            told_commit: 0,
            ack_due: false,
            told_durable: 0,
            reported_us: 0,
            taking: None,
            full_since_us: None,
            told_full_us: 0,
            former: BTreeSet::new(),
            has_unknown_former: true,
            yielded: BTreeMap::new(),
            early: VecDeque::new(),
        }
    }

    /// Takes an event. What is to be done about it goes to `effects`.
    ///
    /// # Errors
    /// What the engine answers where nobody who asked is at fault: to be logged.
    pub fn step<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        told: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        self.partition.advance_clock(context.now);
        let result = self.take(context, told, effects);
        if let Err(EngineError::Corrupt { .. }) = result {
            // What was to be committed, or looked at by its own: which entry it is is not known.
            self.suspect_corruption(true);
        }
        let held = self.hold_log(context.engine);
        result.and(held)
    }

    fn take<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        told: ReplicaEvent<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        match told {
            ReplicaEvent::Request(request) => self.request(context, &request, effects),
            ReplicaEvent::Transaction(message) => self.transaction(context, message, effects),
            ReplicaEvent::Peer { from, epoch, call } => self.peer(context, (from, epoch), call, effects),
            ReplicaEvent::Group(view) => {
                self.set_group(context, view, effects)?;
                self.take_early(context, effects)
            }
            ReplicaEvent::Asked(member) => {
                self.wished = Some(member);
                Ok(())
            }
            ReplicaEvent::Flushed => self.flushed(context, effects),
            ReplicaEvent::FlushFailed => {
                if self.role == Role::Primary {
                    self.partition.step(context.engine, context.now, PartitionEvent::FlushFailed, effects)?;
                }
                Ok(())
            }
            ReplicaEvent::Gone(failure) => {
                self.partition.stand_down(&failure, effects);
                self.refuse_all(&failure, effects);
                Ok(())
            }
            ReplicaEvent::Tick => self.tick(context, effects),
            ReplicaEvent::Scrub { bytes } => {
                self.scrub(context, bytes)?;
                self.begin_audit(context, effects)
            }
            ReplicaEvent::Disconnected { connection } => {
                self.parked.disconnect(connection);
                self.audit.wanted.retain(|one| one.token.connection != connection);
                let event = PartitionEvent::Disconnected { connection };
                self.partition.step(context.engine, context.now, event, effects)
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
        self.look_at_room(context, effects);
        match self.role {
            Role::Primary => {
                self.lead(context, effects)?;
                self.compare_on(context, effects)?;
            }
            _ => self.acknowledge(context, effects)?,
        }
        self.settle_kept(0, context.now_us, effects);
        self.say_yield(context.now_us, effects);
        self.repair_on(context, effects)?;
        self.cover_damage(context)?;
        // Of one that lacks something a checkpoint would say that it does not.
        let is_whole = self.role != Role::Primary && !self.needs_state;
        if is_whole && context.engine.checkpoint_is_due(self.partition.handle())? {
            self.partition.checkpoint(context.engine)?;
        }
        Ok(())
    }

    fn peer<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (from, epoch): (Member, PartitionEpoch),
        call: &Call<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        use crate::planted::{Bug, is_planted};
        if let Call::Yield = call {
            self.take_yield(from, epoch);
            return self.open_gate(context, effects);
        }
        if epoch > self.view.epoch {
            self.hold_early(from, epoch, call);
            effects.fetch_map(epoch);
            return Ok(());
        }
        if let Call::Stale = call {
            return Ok(());
        }
        let is_older = epoch < self.view.epoch;
        if is_older && !is_planted(Bug::OlderEpochAccepted) {
            // Its sender does not know; whoever only answers will hear by the map.
            if matches!(call, Call::Replicate { .. } | Call::StatePart { .. }) {
                effects.send(from, self.view.epoch, &Call::Stale);
            }
            return Ok(());
        }
        let is_from_primary = from == self.view.primary || is_older;
        match call {
            Call::Replicate { preceding, commit, entries } if is_from_primary => {
                self.take_entries(context, (from, epoch), (*preceding, commit.0, entries), effects)
            }
            Call::StatePart { as_of, attempt, part, holds } if from == self.view.primary => {
                self.take_part(context, (*as_of, *attempt), (*part, holds), effects)
            }
            Call::ReplicateAck(report) if self.role == Role::Primary => {
                self.take_report(context, from, *report, effects)
            }
            Call::DigestAsk(slice) if is_from_primary => self.take_digest_ask(context, *slice, effects),
            Call::DigestTold { slice, records, digest } if self.role == Role::Primary => {
                self.take_digest_told(from, (*slice, (*records, *digest)), context.now_us, effects);
                Ok(())
            }
            Call::DigestDiffers(slice) if is_from_primary => {
                self.take_digest_differs(*slice);
                Ok(())
            }
            Call::EntryGet(name) => self.take_entry_get(context, from, *name, effects),
            Call::EntryGot(entry) => self.take_entry_got(context, entry, effects),
            Call::EntryLost(name) => {
                self.take_entry_lost(*name);
                Ok(())
            }
            Call::StateAck { as_of, attempt, parts } if self.role == Role::Primary => {
                self.take_state_ack(context, from, (*as_of, *attempt, *parts), effects)
            }
            _ => Ok(()),
        }
    }

    /// The group that it acts in.
    #[must_use]
    pub fn view(&self) -> &GroupView {
        &self.view
    }

    /// What it is in its group.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether it is primary, has begun its epoch, and nothing of a transaction is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.role == Role::Primary
            && self.mark != role_change::NO_MARK
            && self.mark <= self.partition.applied()
            && self.partition.is_drained()
    }

    /// The log index up to which it has applied what is committed.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.partition.applied()
    }

    /// What has happened to it.
    #[must_use]
    pub fn counts(&self) -> ReplicaCounts {
        self.counts
    }

    /// How its partition stands.
    #[must_use]
    pub fn stats(&self) -> PartitionFigures {
        self.partition.stats()
    }

    #[cfg(test)]
    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Where the engine has it.
    pub(crate) fn handle(&self) -> zerohop_engine::Handle {
        self.partition.handle()
    }

    /// The newest timestamp that it has given or seen, or that waits to be let in: the ceiling must be above.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        self.partition.newest().max(self.parked.seen())
    }

    /// What it has in its log.
    #[must_use]
    pub fn log_end(&self) -> LogEnd {
        let (epoch, index) = self.partition.last_name();
        LogEnd {
            last: EntryName { epoch, index: LogIndex(index) },
            is_intact: self.is_intact,
            is_whole: !self.needs_state,
        }
    }

    /// Whether something of its log is corrupt and is being looked for or repaired.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        !self.repair.is_idle()
    }

    /// Whether all of its log has been read in search of corruption since that was begun, and nothing is being repaired.
    #[must_use]
    pub fn is_between_scrubs(&self) -> bool {
        self.repair.is_between_scrubs()
    }

    /// Whether requests wait in it, so that [`ReplicaEvent::Disconnected`] has something to do.
    #[must_use]
    pub fn has_waits(&self) -> bool {
        self.parked.len() > 0 || !self.audit.wanted.is_empty() || self.partition.has_waits()
    }

    /// The members whose leases it needs, or will: those of its group, if it is the primary.
    pub fn lease_wanted_of(&self) -> impl Iterator<Item = Member> + '_ {
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
