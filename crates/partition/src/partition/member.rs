//! A partition as `zerohop-replication` drives it. Its entries arrive from a primary or go to other members. They are committed by
//! agreement, are truncated, or are replaced by a snapshot install.

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineResult, EntryKind, EntryMeta, PartitionId, ReserveShare,
};
use zerohop_placement::ChangeHistory;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::{BadRequestReason, Failure};

use super::Partition;
use super::changes::{InheritedHistory, PartitionChanges};
use super::transactions::is_mark_admitted_when_full;
use crate::entry_metadata::{Mark, is_epoch_marker};
use crate::event::{ClockSample, PartitionEffects};
use crate::log_writer::NewLogEntry;
use crate::overlay::Overlay;
use crate::partition::open::MemberOptions;
use crate::planted::{Bug, is_planted};
use crate::state::{PartitionState, StateError};
use crate::{InheritedReplies, PartitionWatch};

impl Partition {
    /// Adopts this epoch. A single-copy partition commits by itself; all appended entries must be committed before it becomes
    /// one.
    pub fn set_members(&mut self, epoch: u32, is_alone: bool) {
        self.log_writer.set_members(epoch, is_alone, self.state.applied);
    }

    /// No other member has ever had the log, until [`crate::PartitionEvent::ForgetUnsynced`].
    pub fn begin_lone(&mut self) {
        self.log_writer.set_lone(true);
    }

    /// All needed members have the log up to this index. Commits it.
    pub fn commit_acknowledged<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        index: u64,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        self.log_writer.set_commit_index(index);
        if self.log_writer.committed(engine, self.state.applied)? > self.state.applied {
            self.commit(engine, effects)
        } else {
            Ok(())
        }
    }

    /// Appends the epoch marker of a new primary. Returns its log index. If the log ends with an incomplete atomic batch, which
    /// was never acknowledged, its entries are truncated, because the rest never arrives. The marker needs no free byte: without it,
    /// nothing is read, and nothing removed.
    pub fn append_epoch_marker<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<u64> {
        let last = self.log_writer.last();
        let mut whole = last;
        while whole > self.state.applied && engine.read_entry(self.handle(), whole)?.head.meta.is_joined() {
            whole -= 1;
        }
        if whole < last && !is_planted(Bug::IncompleteBatchKept) {
            self.truncate_after(engine, whole)?;
        }
        self.snapshots_as_primary();
        let at = self.clock.next();
        let mut payload = Vec::new();
        Mark::Epoch { snapshots: self.retained_snapshots() }.encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        self.log_writer.set_reserve_share(engine, ReserveShare::All);
        let appended = self.log_writer.append(engine, &entry);
        self.log_writer.set_reserve_share(engine, ReserveShare::Nothing);
        Ok(appended?.index)
    }

    /// Appends the next entry, which the primary has numbered.
    pub fn receive<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &EntryMeta,
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<()> {
        self.log_writer.truncate_undone(engine)?;
        self.snapshot_received(engine, meta, payload)?;
        let mut appended = engine.append(self.handle(), meta, key, payload);
        if let Err(
            EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
        ) = appended
        {
            // The primary has accepted the entry, perhaps from the last room of a disk that both share. Removals that free space may
            // follow it in the log.
            let share = match is_mark_admitted_when_full(meta, payload) {
                _ if is_epoch_marker(meta, payload) => ReserveShare::All,
                true => ReserveShare::Half,
                false => ReserveShare::Quarter,
            };
            self.log_writer.set_reserve_share(engine, share);
            appended = engine.append(self.handle(), meta, key, payload);
            self.log_writer.set_reserve_share(engine, ReserveShare::Nothing);
        }
        if let Err(error) = appended {
            self.truncate_snapshots_after(engine, meta.index - 1)?;
            return Err(error);
        }
        self.log_writer.set_last((meta.epoch, meta.index));
        if meta.is_joined() {
            self.log_writer.is_joined();
        }
        // The clock is never behind the log, because this member may be promoted.
        self.clock.witness(Timestamp(meta.timestamp));
        Ok(())
    }

    /// Truncates the uncommitted entries after a log index.
    pub fn truncate_after<D: Disk>(&mut self, engine: &mut Engine<D>, index: u64) -> EngineResult<()> {
        engine.truncate_after(self.handle(), index)?;
        self.pending_replies.truncate_after(index);
        self.truncate_snapshots_after(engine, index)?;
        let last = engine.partition_stats(self.handle())?.last;
        self.log_writer.set_last(last);
        Ok(())
    }

    /// The member is primary no more. All waiting requests are answered with this failure, and evaluated changes that are not
    /// committed are forgotten. The entries stay in the log until a primary decides on them.
    pub fn step_down(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.fail_pending_replies(failure, effects);
        self.drop_pending_work(failure, effects);
    }

    /// The same for a member that stays in its group. Atomic batches wait until `until_us` for the fate of their entries.
    pub fn step_down_in_group(
        &mut self,
        until_us: u64,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.retain_batch_replies(until_us, failure, effects);
        self.drop_pending_work(failure, effects);
    }

    fn drop_pending_work(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.waits.update_locks.clear();
        while let Some(wait) = self.waits.take_overdue(u64::MAX) {
            self.deliver_wait(wait.requester, &Err(failure.clone()), effects);
        }
        PartitionChanges { partition: self }.fail(failure, effects);
        self.overlay = Overlay::default();
        self.drop_transactions(failure, effects);
        self.split_cleanup.begin_again();
        // The next primary starts with an epoch marker behind all entries in flight.
        self.transactions_after = 0;
    }

    /// Sets whether enough members have copies for writes to be acknowledged.
    pub fn set_has_copies(&mut self, has_copies: bool) {
        self.terms.has_copies = has_copies;
    }

    /// Sets whether too few members have room on their disks for writes to be acknowledged.
    pub fn set_lacks_disk_space(&mut self, lacks_room: bool) {
        self.log_writer.set_lacks_disk_space(lacks_room);
    }

    /// Answers all pending replies with a failure: the writes may have happened and are not known to be safe.
    pub(crate) fn fail_pending_replies(
        &mut self,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.pending_replies.fail_all(failure, effects);
    }

    /// Answers all pending replies with a failure, except those of atomic batches. These wait until `until_us` for
    /// [`Partition::resolve_retained`].
    pub fn retain_batch_replies(
        &mut self,
        until_us: u64,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.pending_replies.retain_batches(until_us, failure, effects);
    }

    /// Enough members have the log up to this index, and it is committed.
    pub fn resolve_retained(&mut self, index: u64, effects: &mut dyn PartitionEffects) {
        self.pending_replies.resolve_retained(index.min(self.state.applied), effects);
    }

    /// Answers the kept replies with a failure.
    pub fn fail_retained(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.pending_replies.fail_retained(failure, effects);
    }

    /// The same as [`Partition::step_down`] for a partition that is split. The children get the replies of atomic batches, because
    /// they have the log that decides.
    pub fn step_down_for_split(
        &mut self,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) -> InheritedReplies {
        self.step_down_in_group(u64::MAX, failure, effects);
        self.pending_replies.take_retained()
    }

    /// Keeps the replies that its parent has passed on, until `until_us` at most.
    pub fn adopt_replies(&mut self, replies: InheritedReplies, until_us: u64) {
        self.pending_replies.adopt_retained(replies, until_us);
    }

    /// When the kept replies must be answered, in microseconds; [`u64::MAX`]: there are none.
    pub fn retained_until_us(&self) -> u64 {
        self.pending_replies.retained_until_us()
    }

    /// Advances the clock without an event.
    pub fn advance_clock(&mut self, now: ClockSample) {
        self.clock.advance(now);
    }

    /// Assigns no timestamp at or below this bound any more.
    pub fn begin_above(&mut self, timestamp_bound: Timestamp) {
        if !is_planted(Bug::TimestampBoundIgnored) {
            self.clock.begin_above(timestamp_bound);
        }
    }

    /// The time relative to which a timestamp counts as too far ahead, in milliseconds since 1970.
    pub fn present_ms(&self) -> u64 {
        self.clock.present_ms()
    }

    /// Whether the timestamps of one more request, which has seen `seen`, stay below the bound.
    pub fn is_below(&self, seen: Timestamp, timestamp_bound: Timestamp) -> bool {
        self.clock.is_below(seen, timestamp_bound)
    }

    /// The log index of the state.
    pub fn applied(&self) -> u64 {
        self.state.applied
    }

    /// Whether this is the only copy that an entry needs.
    pub fn is_single_copy(&self) -> bool {
        self.log_writer.is_single_copy()
    }

    /// Whether the partition's data outlives the process.
    pub fn reaches_disk(&self) -> bool {
        self.log_writer.reaches_disk()
    }

    /// Epoch and index of the last entry of its log.
    pub fn last_name(&self) -> (u32, u64) {
        self.log_writer.end()
    }

    /// When entries survive a crash.
    pub fn durability(&self) -> Durability {
        self.log_writer.durability()
    }

    /// The committed state.
    pub fn state(&self) -> &PartitionState {
        &self.state
    }

    /// Planted bug: forgets the session table, which a promotion must never do.
    pub fn clear_sessions(&mut self) {
        self.state.sessions.clear(Timestamp::ZERO);
    }

    /// Keeps changes for readers that watch the keyspace, from the next entry on, within these limits.
    pub fn begin_history(&mut self, limits: ChangeHistory) {
        if !limits.is_none() {
            self.feed.keep_within(limits, self.state.applied);
            self.log_writer.set_observed(true);
        }
    }

    /// Follows altered limits of the history. Without one, requests that wait for a change are answered with the reason.
    ///
    /// # Errors
    /// Failures of the engine when entries are committed that needed no commit until now.
    pub fn alter_history<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        limits: ChangeHistory,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        if !limits.is_none() || !self.feed.is_kept() {
            self.begin_history(limits);
            return Ok(());
        }
        // Entries that wait for their commit are committed the same way; later ones are when they are appended.
        self.commit(engine, effects)?;
        self.feed.end();
        self.log_writer.set_observed(false);
        PartitionChanges { partition: self }.fail(&BadRequestReason::NoHistory.into(), effects);
        Ok(())
    }

    /// The history, for a partition that continues this one after a split.
    #[must_use]
    pub fn history(&self) -> Option<InheritedHistory> {
        self.feed.inherited()
    }

    /// The readers that have asked for changes lately, with how far they are behind.
    pub fn watches(&self, now_ms: u64) -> impl Iterator<Item = PartitionWatch<'_>> {
        self.feed.watches(now_ms)
    }

    /// Continues the history of the partition that was split, if the parent had applied no more of their common log. The changes of the sibling's
    /// keys are not returned.
    pub fn adopt_history(&mut self, history: InheritedHistory) {
        self.feed.adopt(history, self.state.applied);
    }

    /// The bytes of its newest changes, for a member that installs a snapshot (`docs/protocols/watch.md`).
    #[must_use]
    pub fn encoded_history(&self) -> Vec<u8> {
        self.feed.encoded()
    }

    /// Continues the encoded history of the member whose snapshot was installed. Without one, or if it is damaged, the history begins behind
    /// the snapshot.
    pub fn install_history(&mut self, encoded: &[u8]) {
        if let Some(history) = InheritedHistory::decode(encoded) {
            self.feed.adopt(history, self.state.applied);
        }
    }

    /// Drops all data and starts with an empty log.
    pub fn wipe<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (id, options): (PartitionId, MemberOptions),
    ) -> EngineResult<()> {
        self.pending_replies.mark_outcomes_unknown();
        match engine.drop_partition(id) {
            Ok(()) | Err(EngineError::UnknownPartition) => {}
            Err(error) => return Err(error),
        }
        let (handle, _) = Partition::prepare(engine, id, options)?;
        self.log_writer.begin_again(handle);
        self.state = PartitionState::default();
        self.transacting = None;
        self.snapshots = None;
        self.overlay = Overlay::default();
        self.feed.begin_after(0);
        Ok(())
    }

    /// The empty log starts to receive another member's log, in segment runs.
    pub fn begin_install<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        engine.begin_install(self.handle())
    }

    /// Installs a run of the other member's log.
    pub fn install_run<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<()> {
        let newest = engine.install_run(self.handle(), begins, bytes)?;
        self.clock.witness(Timestamp(newest));
        Ok(())
    }

    /// All runs have arrived, up to this entry.
    pub fn finish_install<D: Disk>(&mut self, engine: &mut Engine<D>, last: (u32, u64)) -> EngineResult<()> {
        engine.finish_install(self.handle(), last)?;
        self.log_writer.set_last(last);
        Ok(())
    }

    /// Installs the state that belongs to the end of the log that was received.
    pub fn install<D: Disk>(&mut self, engine: &mut Engine<D>, state: &[u8]) -> Result<(), StateError> {
        let mut state = PartitionState::decode(state)?;
        self.pending_replies.mark_outcomes_unknown();
        let last = self.log_writer.last();
        if engine.commit(self.handle(), last).is_err() {
            return Err(StateError::Damaged);
        }
        if is_planted(Bug::SessionTableNotInstalled) {
            state.sessions.clear(Timestamp::ZERO);
        }
        state.applied = last;
        self.clock.witness(state.newest);
        self.clock.witness(state.sessions.session_mark());
        self.state = state;
        self.feed.begin_after(last);
        self.log_writer.set_commit_index(last);
        Ok(())
    }
}
