//! The primary: sends its log to the other members, counts the copies of each entry, and requests changes of its group.

use zerohop_engine::disk::Disk;
use zerohop_engine::{CorruptEntry, Engine, EngineError, EngineResult, EntryKind, Handle};
use zerohop_wire::ids::{LogIndex, Timestamp};
use zerohop_wire::messages::{EntryName, FollowerReport, LogEntry, Member, PeerBody};
use zerohop_wire::{Elements, pack};

use super::follower_progress::Stream;
use super::limits::{
    ADMIT_LAG_ENTRIES, COMMIT_US, DISK_FULL_VALID_US, IDLE_US, LAG_SURE_US, LAG_US, MESSAGE_BYTES,
    PROPOSAL_REPEAT_US, STEP_BYTES,
};
use super::message_limit::message_entries;
use super::role_change::NO_EPOCH_MARKER;
use super::{Context, GroupChange, PendingChange, Replica, ReplicaEffects, Role};
use zerohop_partition::PartitionEvent;
use zerohop_partition::is_filler;
use zerohop_partition::planted::{Bug, is_planted};

/// Consecutive entries, encoded as one message carries them.
pub(super) struct PackedEntries {
    pub(super) count: u32,
    pub(super) bytes: Vec<u8>,
}

/// Why entries cannot be sent.
pub(super) enum UnsendableEntry {
    /// The log has dropped them or never had them. Filler entries are in their place.
    Gap,
    /// They are corrupt.
    Corruption,
}

impl Replica {
    /// The recurring work of a primary, after every batch of events and as time passes.
    pub(super) fn step_as_primary<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        // A failure here, for example on a full disk, must not stop the primary from sending existing entries and from requesting
        // a successor.
        let marked = self.log_epoch_marker(context, effects);
        let mut result = marked.and(self.advance(context, effects));
        self.partition.set_has_copies(self.has_copies());
        self.refuse_if_disks_full(context);
        if self.role == Role::Primary && self.may_answer(context) {
            result =
                result.and(self.partition.step(context.engine, context.at(), PartitionEvent::Tick, effects));
        }
        let mut streams = std::mem::take(&mut self.lead.streams);
        for stream in &mut streams {
            result = result.and(self.send_on(context, stream, effects));
        }
        self.lead.streams = streams;
        self.propose_changes(context, effects);
        result
    }

    /// Commits the entries that all needed members have, if the primary may answer the requests that wait for them.
    pub(super) fn advance<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let has_leases = self.has_leases(context);
        let is_starting = self.partition.applied() < self.lead.epoch_marker;
        if !has_leases && !is_starting && !std::mem::replace(&mut self.lead.is_lapsed, true) {
            self.counts.lease_expiries += 1;
        }
        self.lead.is_lapsed &= !has_leases;
        // Before the marker of this epoch is in the log, its end may still be truncated: a commit index beyond that would count for
        // the entry that comes in its place. The marker is late if the disk refuses it.
        let has_marker = self.lead.epoch_marker != NO_EPOCH_MARKER;
        if has_marker && self.has_waited(context.now_us) && (is_starting || has_leases) {
            if self.partition.is_single_copy() {
                self.partition.step(context.engine, context.at(), PartitionEvent::Flushed, effects)?;
            } else {
                let index = self.commit_index(context.engine)?;
                self.commit_in_steps(context, index, effects)?;
                self.resolve_retained(index, context.now_us, effects);
            }
        }
        let is_alone = self.needed().next().is_none();
        let is_settled = has_marker && self.partition.applied() == self.last();
        if is_alone != self.partition.is_single_copy() && (!is_alone || is_settled) {
            self.partition.set_members(self.view.entry_epoch(), is_alone);
        }
        self.admit_queued(context, effects)
    }

    /// Commits up to this index, and stops in between at the index for which a digest is wanted.
    pub(super) fn commit_in_steps<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        through: u64,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let stop = self.audit.stop(self.partition.applied(), through);
        self.partition.commit_acknowledged(context.engine, stop, effects)?;
        match self.role {
            Role::Primary => self.audit_own(context, effects)?,
            _ => self.answer_digest_request(context, effects)?,
        }
        if stop < through {
            self.partition.commit_acknowledged(context.engine, through, effects)
        } else {
            Ok(())
        }
    }

    /// The commit index: the highest log index that all needed members have, at the configured durability.
    fn commit_index<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<u64> {
        let own = if self.is_sync() {
            engine.durable_index(self.partition.handle())?.min(self.last())
        } else {
            self.last()
        };
        if is_planted(Bug::AnswersBeforeReplication) {
            return Ok(own);
        }
        let stored = self.needed().map(|member| {
            let stream = self.lead.streams.iter().find(|stream| stream.member == member);
            stream.map_or(0, |stream| stream.acknowledged_index(self.is_sync()))
        });
        Ok(stored.fold(own, u64::min))
    }

    pub(super) fn handle_report<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        from: Member,
        report: FollowerReport,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let last = self.last();
        let Some(at) = self.lead.streams.iter().position(|stream| stream.member == from) else {
            return Ok(());
        };
        let mut stream = self.lead.streams.swap_remove(at);
        stream.unanswered = 0;
        let result = match report {
            // In this epoch no member can have entries that the primary's log does not have.
            FollowerReport::Acknowledged { matched, .. } if matched.0 > last => Ok(()),
            FollowerReport::Acknowledged { matched, durable, applied } => {
                stream.handle_report(matched.0, durable.0.min(matched.0), context.now_us);
                stream.applied = stream.applied.max(applied.0);
                Ok(())
            }
            FollowerReport::Differs { at } => self.step_back_to(context, &mut stream, at),
            // An in-sync replica must not drop its contents before the map has removed it from the in-sync set.
            FollowerReport::NeedsState if self.view.in_sync.contains(&from) => {
                stream.is_damaged = true;
                Ok(())
            }
            FollowerReport::NeedsState if stream.sending.is_none() => {
                self.begin_state(context, &mut stream);
                Ok(())
            }
            FollowerReport::NeedsState => Ok(()),
            FollowerReport::DiskFull => {
                stream.full_until_us = context.now_us + DISK_FULL_VALID_US;
                Ok(())
            }
        };
        let sent = self.send_on(context, &mut stream, effects);
        self.lead.streams.push(stream);
        result.and(sent)?;
        self.advance(context, effects)
    }

    /// The member's log differs before the entries that it was sent. `at` is an entry that the member has.
    fn step_back_to<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        stream: &mut Stream,
        at: EntryName,
    ) -> EngineResult<()> {
        let (now_us, index) = (context.now_us, at.index.0);
        let is_old = stream.is_found && (index + 1 >= stream.next || index < stream.matched);
        let is_repeated = stream.is_found && stream.rewound.covers(index, now_us);
        if stream.sending.is_some() || is_old || is_repeated {
            return Ok(());
        }
        stream.rewound.step_back(index, now_us);
        stream.sent_us = 0;
        let handle = self.partition.handle();
        if index == 0 && self.is_bulk(context, stream.member) {
            self.begin_state(context, stream);
            return Ok(());
        }
        if index <= self.last() && name_at(context.engine, handle, index)? == Some(at) {
            stream.handle_report(index, 0, now_us);
            stream.next = index + 1;
            return Ok(());
        }
        stream.is_found = false;
        let highest = index.min(self.last());
        let found = last_up_to(context.engine, handle, (0, highest), at.epoch)?.map(|found| found.index.0);
        // What the member has matched once stays, also if a report from before arrives late.
        match found.into_iter().chain((stream.matched > 0).then_some(stream.matched)).max() {
            Some(preceding) => stream.next = preceding + 1,
            None => self.begin_state(context, stream),
        }
        Ok(())
    }

    /// Sends a member the entries that it lacks, as far as its window allows. Otherwise sends a heartbeat when it is due.
    fn send_on<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        stream: &mut Stream,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if stream.sending.is_some() {
            return self.send_state(context, stream, effects);
        }
        let (now_us, last, commit) = (context.now_us, self.last(), self.partition.applied());
        let is_there = context.leases.is_valid(now_us, stream.member);
        if stream.matched + 1 >= stream.next {
            stream.progressed_us = now_us;
        } else if now_us >= stream.resend_due_us(is_there) {
            stream.next = stream.matched + 1;
            stream.rewound.step_back(stream.matched, now_us);
        }
        if self.may_coalesce(stream) && stream.waits_to_coalesce(last, now_us) {
            return Ok(());
        }
        let mut sent_bytes = 0;
        let is_exempt = self.view.followers.contains(&stream.member)
            && self.waits_for_disk_space(context, stream.full_until_us);
        while stream.is_found
            && !is_exempt
            && stream.next <= last
            && stream.next <= stream.window_end()
            && sent_bytes < STEP_BYTES
        {
            let packed = match self.pack(context.engine, stream.next, last)? {
                Ok(packed) => packed,
                Err(unsent) => {
                    let index = stream.next;
                    return self.not_sent(context, stream, (index, unsent));
                }
            };
            let is_sent = self.replicate(context.engine, stream, commit, &packed, effects)?;
            if !is_sent {
                self.begin_state(context, stream);
                return Ok(());
            }
            sent_bytes += packed.bytes.len();
            stream.next += u64::from(packed.count);
            (stream.sent_us, stream.reported_commit) = (now_us, commit);
        }
        if sent_bytes == 0 && now_us >= self.heartbeat_due_us(stream, is_there) {
            let nothing = PackedEntries { count: 0, bytes: Vec::new() };
            if self.replicate(context.engine, stream, commit, &nothing, effects)? {
                (stream.sent_us, stream.reported_commit) = (now_us.max(1), commit);
                stream.unanswered = stream.unanswered.saturating_add(1);
            } else {
                self.begin_state(context, stream);
            }
        }
        Ok(())
    }

    /// Whether no request waits for this member's copy: it is a follower that is not about to be admitted.
    pub(super) fn may_coalesce(&self, stream: &Stream) -> bool {
        stream.is_found
            && stream.sending.is_none()
            && self.has_copies()
            && self.lead.admission_requested != Some(stream.member)
            && !self.lead.admitting.contains(&stream.member)
            && self.view.followers.contains(&stream.member)
    }

    /// When the next heartbeat to a member is due; [`u64::MAX`]: the member has reported that it has everything.
    pub(super) fn heartbeat_due_us(&self, stream: &Stream, is_there: bool) -> u64 {
        let (last, commit) = (self.last(), self.partition.applied());
        let has_all = stream.is_found
            && stream.next == last + 1
            && stream.acknowledged_index(self.is_sync()) >= last
            && stream.applied >= commit;
        // The follower reports its flush unprompted and only once. If the report is lost, the follower is never admitted.
        let owes_flush =
            self.is_interval() && stream.durable < last && self.view.followers.contains(&stream.member);
        match stream.sent_us {
            0 => 0,
            sent_us if has_all && owes_flush => sent_us + IDLE_US,
            _ if has_all => u64::MAX,
            sent_us if stream.is_found && is_there && stream.reported_commit < commit => sent_us + COMMIT_US,
            sent_us => sent_us + stream.pause_us(is_there),
        }
    }

    pub(super) fn not_sent<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        stream: &mut Stream,
        (index, unsent): (u64, UnsendableEntry),
    ) -> EngineResult<()> {
        match unsent {
            UnsendableEntry::Gap => self.begin_state(context, stream),
            // The entry is sent once it is repaired. It is never sent before and never skipped.
            UnsendableEntry::Corruption => match context.engine.epoch_at(self.partition.handle(), index) {
                Ok(Some(epoch)) => self.record_corruption([CorruptEntry { epoch, index }]),
                Ok(None) | Err(EngineError::Corrupt { .. }) => self.health.has_corruption = true,
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    /// Sends entries together with the name of the preceding entry. `false`: the log does not know that entry any more.
    fn replicate<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        stream: &Stream,
        commit: u64,
        packed: &PackedEntries,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<bool> {
        let Some(preceding) = name_at(engine, self.partition.handle(), stream.next - 1)? else {
            return Ok(false);
        };
        let Ok(entries) = Elements::packed(packed.count, &packed.bytes) else { return Ok(false) };
        let body = PeerBody::Replicate { preceding, commit: LogIndex(commit), entries };
        effects.send(stream.member, self.view.epoch, &body);
        Ok(true)
    }

    /// Entries from this log index on, as many as one message may carry.
    fn pack<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        from: u64,
        last: u64,
    ) -> EngineResult<Result<PackedEntries, UnsendableEntry>> {
        let mut packed = PackedEntries { count: 0, bytes: Vec::new() };
        for index in from..=last {
            if packed.count as usize == message_entries() || packed.bytes.len() >= MESSAGE_BYTES {
                break;
            }
            match push_entry(engine, self.partition.handle(), index, &mut packed)? {
                Ok(()) => {}
                Err(_) if packed.count > 0 => break,
                Err(unsent) => return Ok(Err(unsent)),
            }
        }
        Ok(Ok(packed))
    }

    fn propose_changes<D: Disk>(&mut self, context: &Context<'_, D>, effects: &mut dyn ReplicaEffects) {
        let now_us = context.now_us;
        let (is_sync, last) = (self.is_sync(), self.last());
        self.lead.streams.iter_mut().for_each(|stream| stream.check_lag(is_sync, last, now_us));
        let change = self.change_needed(context);
        if let Some(change) = change
            && self.lead.pending_change.is_none_or(|pending| pending.change != change)
        {
            match change {
                GroupChange::Admit(member) => self.lead.admitting.push(member),
                GroupChange::Remove(member) => {
                    self.counts.handover_requests +=
                        u64::from(member == self.this_member && !self.health.has_corruption);
                    self.lead.removing.push(member);
                }
                GroupChange::RaiseEpoch => {}
            }
            self.lead.pending_change = Some(PendingChange { change, since_us: now_us, sent_us: 0 });
            if self.needed().next().is_some() && self.partition.is_single_copy() {
                // The partition must leave single-copy mode now, and not at the next step. Otherwise it would commit the entries
                // appended until then by itself alone.
                self.partition.set_members(self.view.entry_epoch(), false);
            }
        }
        let epoch = self.view.epoch;
        if let Some(pending) = &mut self.lead.pending_change
            && (pending.sent_us == 0 || now_us >= pending.sent_us + PROPOSAL_REPEAT_US)
        {
            pending.sent_us = now_us.max(1);
            effects.propose_change(epoch, pending.change);
        }
    }

    /// The change that this group needs now; `None` leaves the pending request as it is.
    fn change_needed<D: Disk>(&self, context: &Context<'_, D>) -> Option<GroupChange> {
        let now_us = context.now_us;
        if self.health.has_corruption && !self.view.in_sync.is_empty() {
            return Some(GroupChange::Remove(self.this_member));
        }
        let for_room = self.change_for_full_disk(context);
        if let Some(PendingChange { change: GroupChange::Remove(member), .. }) = self.lead.pending_change {
            // The disk has room again. The removal was requested and perhaps decided, so only another epoch settles it.
            return (member == self.this_member && for_room.is_none()).then_some(GroupChange::RaiseEpoch);
        }
        if for_room.is_some() {
            return for_room;
        }
        let laggard = self.lead.streams.iter().find(|stream| {
            let is_late = now_us >= self.report_unresponsive_at_us(context, stream);
            self.view.in_sync.contains(&stream.member) && (is_late || stream.is_damaged)
        });
        if let Some(laggard) = laggard {
            return Some(GroupChange::Remove(laggard.member));
        }
        if let Some(pending) = self.lead.pending_change {
            // The member to be admitted has left, or the control group refuses it.
            let is_stuck = now_us >= pending.since_us + LAG_US;
            return is_stuck.then_some(GroupChange::RaiseEpoch);
        }
        if self.partition.applied() < self.lead.epoch_marker {
            return None;
        }
        let has_enough = self.view.copies() >= usize::from(self.view.min_in_sync);
        let candidate = self.lead.streams.iter().find(|stream| {
            let is_wanted = !has_enough || self.lead.admission_requested == Some(stream.member);
            is_wanted
                && self.view.followers.contains(&stream.member)
                && !self.waits_for_disk_space(context, stream.full_until_us)
                && (is_planted(Bug::AdmittedBeforeCaughtUp)
                    || context.leases.is_valid(now_us, stream.member) && self.is_caught_up(stream))
        });
        candidate.map(|stream| GroupChange::Admit(stream.member))
    }

    /// When an in-sync replica is to be reported, according to the present state. A replica is reported if for [`LAG_US`] it has
    /// granted no requested lease, or has lacked entries that it should have. A primary that was itself late during that time
    /// does not report it, because it may have missed the answers. [`u64::MAX`]: there is no reason to report it.
    pub(super) fn report_unresponsive_at_us<D: Disk>(
        &self,
        context: &Context<'_, D>,
        stream: &Stream,
    ) -> u64 {
        let mut since_us = u64::MAX;
        if !context.leases.is_valid(context.now_us, stream.member) {
            since_us = self.role_changed_us.max(context.leases.granted_us(stream.member));
        }
        if stream.acknowledged_index(self.is_sync()) < self.last() {
            since_us = since_us.min(stream.target_us);
        }
        if since_us == u64::MAX {
            return u64::MAX;
        }
        let on_time_us = context.leases.on_time_since_us(context.now_us);
        since_us.max(on_time_us).saturating_add(LAG_US).min(since_us.saturating_add(LAG_SURE_US))
    }

    /// Whether a follower has all committed entries and nearly all others. Under interval durability its disk must also have
    /// them, except for those that any in-sync replica may lose, because the follower may soon be the only copy.
    fn is_caught_up(&self, stream: &Stream) -> bool {
        let stored = stream.acknowledged_index(self.is_sync());
        let has_all = stored >= self.partition.applied() && stored + ADMIT_LAG_ENTRIES >= self.last();
        let is_flushed = !self.is_interval() || stream.has_flushed();
        stream.is_found && stream.sending.is_none() && has_all && is_flushed
    }
}

/// Appends the entry at a log index to a message.
pub(super) fn push_entry<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    index: u64,
    packed: &mut PackedEntries,
) -> EngineResult<Result<(), UnsendableEntry>> {
    match engine.read_entry(handle, index) {
        Ok(entry) => {
            let meta = entry.head.meta;
            if meta.kind == EntryKind::Mark && is_filler(entry.payload) {
                // The filler represents entries of a snapshot install that only the state contains.
                return Ok(Err(UnsendableEntry::Gap));
            }
            let entry = LogEntry {
                name: EntryName { epoch: meta.epoch, index: LogIndex(index) },
                timestamp: Timestamp(meta.timestamp),
                kind: meta.kind as u8,
                flags: meta.flags,
                key: entry.key,
                payload: entry.payload,
            };
            packed.bytes.reserve(entry.bytes());
            assert!(pack(&entry, &mut packed.bytes).is_ok(), "what is in a log is within the wire's bounds");
            packed.count += 1;
            return Ok(Ok(()));
        }
        Err(EngineError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    // The engine reports the same error for corrupt entries and for dropped ones.
    match engine.has_entry(handle, index) {
        Ok(false) => Ok(Err(UnsendableEntry::Gap)),
        Ok(true) | Err(EngineError::Corrupt { .. }) if is_planted(Bug::CorruptEntriesSkipped) => {
            Ok(Err(UnsendableEntry::Gap))
        }
        Ok(true) | Err(EngineError::Corrupt { .. }) => Ok(Err(UnsendableEntry::Corruption)),
        Err(error) => Err(error),
    }
}

/// The name of the entry at a log index; `None` if the log does not know it any more.
pub(super) fn name_at<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    index: u64,
) -> EngineResult<Option<EntryName>> {
    if index == 0 {
        return Ok(Some(EntryName::default()));
    }
    let epoch = engine.epoch_at(handle, index)?;
    Ok(epoch.map(|epoch| EntryName { epoch, index: LogIndex(index) }))
}

/// The last entry from `lowest` to `highest` whose epoch is at most `epoch`; epochs rise with indexes. `None` if the search
/// reaches an entry that the log does not know any more. If no entry qualifies, the result is the entry at `lowest`, whatever its
/// epoch.
pub(super) fn last_up_to<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    (lowest, highest): (u64, u64),
    epoch: u32,
) -> EngineResult<Option<EntryName>> {
    let (mut below, mut above) = (lowest, highest + 1);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        match name_at(engine, handle, middle)? {
            None => return Ok(None),
            Some(name) if name.epoch <= epoch => below = middle,
            Some(_) => above = middle,
        }
    }
    name_at(engine, handle, below)
}
