//! An in-sync replica or follower: appends the entries that the primary of its epoch sends, and reports its log.

use zerohop_engine::disk::Disk;
use zerohop_engine::{EngineError, EngineResult, EntryKind, EntryMeta};
use zerohop_wire::ids::{LogIndex, PartitionEpoch};
use zerohop_wire::messages::{EntryName, FollowerReport, LogEntry, Member, PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Elements, Encoder, Envelope, Features, Message};

use super::limits::{EARLY_BYTES_MAX, EARLY_MAX, REPORT_US};
use super::primary::{last_up_to, name_at};
use super::{Context, Replica, ReplicaEffects, Role};
use zerohop_partition::planted::{Bug, is_planted};

impl Replica {
    /// Handles entries of the primary that follow `preceding`.
    pub(super) fn handle_entries<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (from, epoch): (Member, PartitionEpoch),
        (preceding, commit, entries): (EntryName, u64, &Elements<'_, LogEntry<'_>>),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let is_replica = matches!(self.role, Role::InSync | Role::Follower);
        let is_old = epoch < self.view.epoch && is_planted(Bug::OlderEpochAccepted);
        if !(is_replica || is_old) {
            return Ok(());
        }
        if self.health.needs_state || self.health.has_corruption || self.follow.snapshot_install.is_some() {
            effects.send(from, epoch, &PeerBody::ReplicateAck(FollowerReport::NeedsState));
            return Ok(());
        }
        if !self.may_count() {
            // The follower stays silent until the damage found at its start is repaired, because it must not be admitted before.
            return Ok(());
        }
        let handle = self.partition.handle();
        let index = preceding.index.0;
        let own = if index <= self.last() { name_at(context.engine, handle, index)? } else { None };
        if own != Some(preceding) && !is_planted(Bug::PrecedingEntryNotChecked) {
            let applied = self.partition.applied();
            if own.is_some() && index <= applied {
                // The primary's log lacks an entry that is committed here: an operator has accepted its loss.
                self.health.needs_state = true;
                effects.send(from, epoch, &PeerBody::ReplicateAck(FollowerReport::NeedsState));
                return Ok(());
            }
            let range = (applied, index.min(self.last()).max(applied));
            let at = last_up_to(context.engine, handle, range, preceding.epoch)?;
            let report = at.map_or(FollowerReport::NeedsState, |at| FollowerReport::Differs { at });
            effects.send(from, epoch, &PeerBody::ReplicateAck(report));
            return Ok(());
        }
        let mut matched = index;
        let mut result = Ok(());
        for entry in entries.iter() {
            match self.accept_entry(context, &entry) {
                Ok(true) => matched = entry.name.index.0,
                // The log is no longer complete, or the disk is full. The entries accepted so far count.
                Ok(false) => break,
                Err(
                    EngineError::DiskFull { .. }
                    | EngineError::Scarce { .. }
                    | EngineError::MemoryFull { .. },
                ) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if self.health.needs_state {
            effects.send(from, epoch, &PeerBody::ReplicateAck(FollowerReport::NeedsState));
            return result;
        }
        self.follow.matched = Some(self.follow.matched.unwrap_or(0).max(matched));
        self.follow.reported_commit = self.follow.reported_commit.max(commit);
        self.follow.ack_due = true;
        if self.is_sync() {
            effects.flush_wanted();
        }
        result?;
        self.follow_commit(context, effects)?;
        if self.is_sync() { Ok(()) } else { self.acknowledge_to(context, (from, epoch), effects) }
    }

    /// Accepts one entry. `false`: no more entries can be accepted.
    fn accept_entry<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        entry: &LogEntry<'_>,
    ) -> EngineResult<bool> {
        let LogEntry { name, timestamp, kind, flags, key, payload } = *entry;
        let index = name.index.0;
        if index <= self.last() {
            match name_at(context.engine, self.partition.handle(), index)? {
                Some(own) if own == name => return Ok(true),
                // The entry was committed and dropped since. Its preceding entry matches, so the entry matches too.
                None => return Ok(index <= self.partition.applied()),
                Some(_) if is_planted(Bug::TruncationSkipped) => return Ok(true),
                Some(_) if index <= self.partition.applied() => {
                    self.health.needs_state = true;
                    return Ok(false);
                }
                Some(_) => {
                    self.counts.truncations += 1;
                    self.partition.truncate_after(context.engine, index - 1)?;
                }
            }
        }
        let Some(kind) = EntryKind::from_u8(kind).filter(|kind| !kind.is_local()) else { return Ok(false) };
        if index != self.last() + 1 {
            return Ok(false);
        }
        let meta = EntryMeta { kind, flags, epoch: name.epoch, index, timestamp: timestamp.0 };
        self.partition.receive(context.engine, &meta, key, payload)?;
        Ok(true)
    }

    /// Applies committed entries, up to the index where the log is known to equal the primary's.
    pub(super) fn follow_commit<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let matched =
            if is_planted(Bug::CommitIndexNotMatched) { Some(self.last()) } else { self.follow.matched };
        let commit = self.follow.reported_commit.min(matched.unwrap_or(0));
        if commit <= self.partition.applied() {
            return Ok(());
        }
        self.commit_in_steps(context, commit, effects)?;
        self.resolve_retained(commit, context.now_us, effects);
        let applied = self.partition.applied();
        let name = name_at(context.engine, self.partition.handle(), applied)?;
        if name.is_some_and(|name| name.epoch == self.view.entry_epoch()) {
            self.primary_has_started();
        }
        Ok(())
    }

    /// Whether the replica needs a snapshot and no snapshot install is in progress.
    pub(super) fn needs_snapshot(&self) -> bool {
        (self.health.needs_state || self.health.has_corruption) && self.follow.snapshot_install.is_none()
    }

    /// Reports to the primary what the log has, if that is news, or that a snapshot is needed. The replica must report
    /// unprompted, because the primary sends nothing to a member that is known to have everything.
    pub(super) fn acknowledge<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if self.follow.snapshot_install.as_ref().is_some_and(|install| context.now_us >= install.ends_us()) {
            self.follow.snapshot_install = None;
        }
        self.end_install(context, effects)?;
        let is_member = matches!(self.role, Role::InSync | Role::Follower);
        if is_member && self.needs_snapshot() {
            if context.now_us >= self.follow.reported_us + REPORT_US {
                self.follow.reported_us = context.now_us;
                let body = PeerBody::ReplicateAck(FollowerReport::NeedsState);
                effects.send(self.view.primary, self.view.epoch, &body);
            }
            return Ok(());
        }
        let to = (self.view.primary, self.view.epoch);
        self.acknowledge_to(context, to, effects)
    }

    /// Whether the primary must still be notified of a flush. Under interval durability no follower is admitted before its flush.
    pub(super) fn has_to_flush(&self) -> bool {
        let is_flushed = self.follow.matched.is_none_or(|matched| self.follow.reported_durable >= matched);
        self.role == Role::Follower && self.is_interval() && !is_flushed
    }

    fn acknowledge_to<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (to, epoch): (Member, PartitionEpoch),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let Some(matched) = self.follow.matched.filter(|_| self.follow.ack_due || self.has_to_flush()) else {
            return Ok(());
        };
        let durable = context.engine.durable_index(self.partition.handle())?.min(matched);
        // Under `sync` a flush of the remaining entries is in progress. The report waits for its end.
        let awaits_flush = self.is_sync() && durable < matched;
        if (!self.follow.ack_due || awaits_flush) && durable <= self.follow.reported_durable {
            return Ok(());
        }
        self.follow.reported_durable = durable;
        // The rest is reported once the flush has ended.
        self.follow.ack_due = self.is_sync() && durable < matched;
        let applied = LogIndex(self.partition.applied());
        let report =
            FollowerReport::Acknowledged { matched: LogIndex(matched), durable: LogIndex(durable), applied };
        effects.send(to, epoch, &PeerBody::ReplicateAck(report));
        Ok(())
    }

    /// Keeps a message of an epoch whose map has not arrived. A message that finds no room is dropped; its sender repeats it.
    pub(super) fn queue_early(&mut self, from: Member, epoch: PartitionEpoch, body: &PeerBody<'_>) {
        let mut frame = Vec::new();
        let envelope = Envelope { partition_epoch: epoch, ..Envelope::default() };
        let message = Message::Peer(PeerMessage { from, to: self.this_member, body: body.clone() });
        if Encoder::default().encode(&envelope, &message, &mut frame).is_err()
            || frame.len() > EARLY_BYTES_MAX
        {
            return;
        }
        if self.follow.early.len() == EARLY_MAX {
            self.follow.early.pop_front();
        }
        self.follow.early.push_back(frame);
    }

    /// The map has arrived: handles the kept messages again.
    pub(super) fn handle_early<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        for bytes in std::mem::take(&mut self.follow.early) {
            let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { continue };
            let mut scratch = Vec::new();
            if let Ok(Message::Peer(PeerMessage { from, body, .. })) = frame.message(&mut scratch) {
                self.peer(context, (from, frame.envelope.partition_epoch), &body, effects)?;
            }
        }
        Ok(())
    }
}
