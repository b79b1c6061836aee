//! Entry repair: corrupt entries are fetched from other members and written again, while requests that read them wait.
//!
//! ```text
//!   a read, a stream, a scrub, the start ──> corrupt ──EntryGet──> a member ──EntryGot──> Engine::repair
//!                                               │                    └──EntryLost, silence──> the next member
//!                                               └── no member has it: a snapshot install, or another primary
//! ```

use std::collections::BTreeMap;

use zerohop_engine::disk::Disk;
use zerohop_engine::{CorruptEntry, DamageKind, Engine, EngineError, EngineResult, ScrubPosition};
use zerohop_wire::ids::LogIndex;
use zerohop_wire::messages::{
    EntryName, LogEntry, Member, OperationAnswer, PeerBody, RecordOperation, SnapshotQuery, SnapshotRequest,
};
use zerohop_wire::{Failure, Message};

use super::limits::{POLL_US, REPAIR_MAX, REPAIR_REQUEST_US, REPAIR_ROUNDS, REPAIR_SLOW_US, SCRUB_BYTES};
use super::{Context, Replica, ReplicaEffects, Role};
use zerohop_partition::planted::{Bug, is_planted};
use zerohop_partition::{PartitionEffect, RecordRequest, Token};

/// The corrupt entries that are being repaired.
#[derive(Debug, Default)]
pub(super) struct EntryRepair {
    /// The entries by log index.
    entries: BTreeMap<u64, RepairRequest>,
    /// The number of damages that the engine reported at the last check.
    damages: usize,
    /// Where the scrub of the log continues.
    scrub: ScrubPosition,
    /// Something is corrupt and its place is not known, so the complete log is read.
    is_urgent: bool,
    /// A record cannot be read because of such corruption.
    is_blind: bool,
}

#[derive(Clone, Copy, Debug)]
struct RepairRequest {
    epoch: u32,
    /// The number of requests so far. The members are asked in turn.
    requests_sent: u32,
    /// When the next request is due.
    next_us: u64,
}

impl EntryRepair {
    /// The repair of a partition whose log was found damaged; `None` if repairing single entries is not enough.
    pub(super) fn of_start<D: Disk>(
        engine: &mut Engine<D>,
        handle: zerohop_engine::Handle,
    ) -> EngineResult<Option<EntryRepair>> {
        let indexes = engine.damage(handle)?.iter().map(|damage| match damage.kind {
            DamageKind::Entry { index, .. } => Some(index),
            _ => None,
        });
        let Some(indexes) = indexes.collect::<Option<Vec<u64>>>() else { return Ok(None) };
        let mut repair = EntryRepair { damages: indexes.len(), ..EntryRepair::default() };
        for index in indexes {
            // If the way to an entry cannot be read, start-up does not fail. A snapshot install is needed instead.
            match engine.epoch_at(handle, index) {
                Ok(Some(epoch)) => repair.add_corrupt_entry(CorruptEntry { epoch, index }),
                Ok(None) => {}
                Err(EngineError::Corrupt { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok((repair.entries.len() <= REPAIR_MAX).then_some(repair))
    }

    fn add_corrupt_entry(&mut self, CorruptEntry { epoch, index }: CorruptEntry) {
        self.entries.entry(index).or_insert(RepairRequest { epoch, requests_sent: 0, next_us: 0 });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty() && !self.is_urgent
    }

    pub(super) fn is_between_scrubs(&self) -> bool {
        self.is_idle() && self.scrub == ScrubPosition::default()
    }

    /// Restarts the requests to other members. `forgets`: drops all entries, because a snapshot is installed instead.
    pub(super) fn begin_again(&mut self, forgets: bool) {
        if forgets {
            *self = EntryRepair::default();
        }
        self.entries.values_mut().for_each(|requested| (requested.requests_sent, requested.next_us) = (0, 0));
    }
}

impl Replica {
    /// Records these corrupt entries for repair.
    pub(super) fn record_corruption(&mut self, corrupt: impl IntoIterator<Item = CorruptEntry>) {
        for one in corrupt {
            self.health.repair.add_corrupt_entry(one);
        }
        if self.health.repair.entries.len() > REPAIR_MAX {
            self.give_up_repair();
        }
    }

    /// Records that a read has failed because of corruption whose place is not known.
    pub(super) fn suspect_corruption(&mut self, is_blind: bool) {
        self.health.repair.is_blind |= is_blind;
        if !std::mem::replace(&mut self.health.repair.is_urgent, true) {
            self.health.repair.scrub = ScrubPosition::default();
        }
    }

    /// Whether the replica may report its log. A follower whose log was found damaged must repair it first.
    pub(super) fn may_count(&self) -> bool {
        self.health.repair.is_empty()
            || self.role != Role::Follower
            || is_planted(Bug::CorruptFollowerCounted)
    }

    /// No other member has the corrupt entries.
    pub(super) fn give_up_repair(&mut self) {
        self.health.repair.begin_again(true);
        self.health.has_corruption = true;
    }

    /// Requests corrupt entries from other members, and continues an urgent scrub.
    pub(super) fn repair_on<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let damages = context.engine.damage(self.partition.handle())?.len();
        if damages > self.health.repair.damages && !self.needs_snapshot() {
            self.suspect_corruption(false);
        }
        self.health.repair.damages = damages;
        if self.health.repair.is_urgent {
            self.scrub(context, SCRUB_BYTES)?;
        }
        if self.health.repair.entries.is_empty() || self.role == Role::Removed {
            return Ok(());
        }
        let others: Vec<Member> = self.repair_sources().collect();
        let now_us = context.now_us;
        let is_alone_primary = self.role == Role::Primary && self.view.in_sync.is_empty();
        let rounds = self.repair_requests_max();
        if !is_alone_primary && self.has_unrepairable_entries() {
            self.give_up_repair();
            return Ok(());
        }
        for (index, requested) in &mut self.health.repair.entries {
            let pause_us = if requested.requests_sent > rounds { REPAIR_SLOW_US } else { REPAIR_REQUEST_US };
            if others.is_empty() || now_us < requested.next_us {
                continue;
            }
            let to = others[requested.requests_sent as usize % others.len()];
            requested.requests_sent = requested.requests_sent.saturating_add(1);
            requested.next_us = now_us + pause_us;
            if (requested.requests_sent <= rounds || is_alone_primary)
                && !is_planted(Bug::CorruptionNotRepaired)
            {
                let name = EntryName { epoch: requested.epoch, index: LogIndex(*index) };
                effects.send(to, self.view.epoch, &PeerBody::EntryGet(name));
            }
        }
        Ok(())
    }

    /// The members that may have the entries, starting with those that certainly had them.
    fn repair_sources(&self) -> impl Iterator<Item = Member> + '_ {
        let members = std::iter::once(self.view.primary).chain(self.view.others());
        members.filter(|member| *member != self.this_member)
    }

    /// When [`Replica::repair_on`] has something to do.
    pub(super) fn repair_due_us(&self, now_us: u64) -> u64 {
        if self.health.repair.is_urgent {
            return now_us + POLL_US;
        }
        if self.role == Role::Removed {
            return u64::MAX;
        }
        let is_asking = self.repair_sources().next().is_some();
        let due =
            self.health.repair.entries.values().filter(|_| is_asking).map(|requested| requested.next_us);
        due.min().unwrap_or(u64::MAX)
    }

    /// Continues to read and check the log. `true`: all of it has been read.
    pub(super) fn scrub<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        bytes_max: usize,
    ) -> EngineResult<bool> {
        if self.needs_snapshot() || self.follow.snapshot_install.is_some() {
            return Ok(true);
        }
        let handle = self.partition.handle();
        let scrubbed = context.engine.scrub(handle, self.health.repair.scrub, bytes_max)?;
        self.counts.scrubbed_bytes += scrubbed.bytes;
        let is_new = |one: &&CorruptEntry| !self.health.repair.entries.contains_key(&one.index);
        let found = scrubbed.corrupt.iter().filter(is_new).count() as u64;
        self.counts.corruption_found += found + u64::from(scrubbed.is_unreadable);
        if scrubbed.is_unreadable {
            // The name of the unreadable entry is not known, so no member can be asked for it.
            self.give_up_repair();
            return Ok(true);
        }
        self.record_corruption(scrubbed.corrupt);
        self.health.repair.damages = context.engine.damage(handle)?.len();
        self.health.repair.scrub = scrubbed.next.unwrap_or_default();
        let is_done = scrubbed.next.is_none();
        if is_done && std::mem::take(&mut self.health.repair.is_urgent) {
            let is_blind = std::mem::take(&mut self.health.repair.is_blind);
            if is_blind && self.health.repair.entries.is_empty() && !self.view.in_sync.is_empty() {
                // A record cannot be read, and no entry to repair is known. Another member with a complete copy takes over.
                self.give_up_repair();
            }
        }
        Ok(is_done)
    }

    /// Answers another member's request for an entry.
    pub(super) fn handle_entry_request<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        from: Member,
        name: EntryName,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let index = name.index.0;
        let epoch = self.view.epoch;
        let is_whole = !self.needs_snapshot() && self.follow.snapshot_install.is_none();
        match context.engine.read_entry(self.partition.handle(), index) {
            Ok(entry) if is_whole && entry.head.meta.epoch == name.epoch => {
                let meta = entry.head.meta;
                let entry = LogEntry {
                    name,
                    timestamp: zerohop_wire::ids::Timestamp(meta.timestamp),
                    kind: meta.kind as u8,
                    flags: meta.flags,
                    key: entry.key,
                    payload: entry.payload,
                };
                effects.send(from, epoch, &PeerBody::EntryGot(entry));
                Ok(())
            }
            Ok(_) | Err(EngineError::Corrupt { .. }) => {
                effects.send(from, epoch, &PeerBody::EntryLost(name));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Handles an entry that another member has sent.
    pub(super) fn handle_repair_entry<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        entry: &LogEntry<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let EntryName { epoch, index } = entry.name;
        let is_wanted =
            self.health.repair.entries.get(&index.0).is_some_and(|requested| requested.epoch == epoch);
        if !is_wanted {
            return Ok(());
        }
        let name = (epoch, index.0, entry.timestamp.0);
        if !context.engine.repair(self.partition.handle(), name, entry.key, entry.payload)? {
            self.handle_entry_missing(entry.name);
            return Ok(());
        }
        self.health.repair.entries.remove(&index.0);
        self.health.repair.damages = context.engine.damage(self.partition.handle())?.len();
        self.counts.repaired += 1;
        if self.role == Role::Primary { self.admit_queued(context, effects) } else { Ok(()) }
    }

    /// A member does not have an entry. The next member is asked at once, unless all were asked often enough.
    pub(super) fn handle_entry_missing(&mut self, name: EntryName) {
        let rounds = self.repair_requests_max();
        if let Some(requested) = self.health.repair.entries.get_mut(&name.index.0)
            && requested.epoch == name.epoch
            && requested.requests_sent <= rounds
        {
            requested.next_us = 0;
        }
    }

    /// The number of requests after which the members are asked only slowly.
    fn repair_requests_max(&self) -> u32 {
        REPAIR_ROUNDS * self.repair_sources().count() as u32
    }

    /// Whether all members were asked often enough for some corrupt entry, and none has it.
    pub(super) fn has_unrepairable_entries(&self) -> bool {
        let rounds = self.repair_requests_max();
        self.health.repair.entries.values().any(|requested| requested.requests_sent > rounds)
    }

    /// A request was answered with `Corrupt`, or would have been. Records the corrupt entries of its records for repair. `true`:
    /// the request may wait for the repair.
    pub(super) fn handle_corrupt_read<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: &RecordRequest<'_>,
    ) -> EngineResult<bool> {
        if self.view.others().next().is_none() || self.health.has_corruption {
            return Ok(false);
        }
        let mut keys = Vec::new();
        match request.message {
            Message::Read { read, .. }
            | Message::Snapshot(SnapshotRequest { request: SnapshotQuery::Read { read, .. }, .. }) => {
                keys.push(read.key)
            }
            Message::Write { write, .. } => keys.push(write.key),
            Message::Batch(batch) => keys.extend(batch.operations.iter().map(|operation| match operation {
                RecordOperation::Read(read) => read.key,
                RecordOperation::Write(write) => write.key,
            })),
            _ => {}
        }
        let handle = self.partition.handle();
        for key in keys {
            match context.engine.corrupt_of(handle, key) {
                Ok(corrupt) => self.record_corruption(corrupt),
                // Even the owner of the corrupt entry cannot be read. Another member with a complete copy takes over.
                Err(EngineError::Corrupt { .. }) => self.suspect_corruption(true),
                Err(error) => return Err(error),
            }
        }
        // The damages added by these checks are known.
        self.health.repair.damages = context.engine.damage(handle)?.len();
        Ok(!self.health.repair.is_idle())
    }
}

/// An effects adapter that passes the answers of one request on, and notes answers that report corruption.
pub(super) struct CorruptAnswers<'e> {
    pub(super) inner: &'e mut dyn zerohop_partition::PartitionEffects,
    pub(super) token: Token,
    /// Such answers are not passed on.
    pub(super) suppresses_corrupt: bool,
    pub(super) is_found: bool,
}

/// Whether a request changes nothing, so that it may be evaluated again.
pub(super) fn only_reads(message: &Message<'_>) -> bool {
    match message {
        Message::Read { .. }
        | Message::Snapshot(SnapshotRequest { request: SnapshotQuery::Read { .. }, .. }) => true,
        Message::Batch(batch) => batch.operations.iter().all(|one| matches!(one, RecordOperation::Read(_))),
        _ => false,
    }
}

fn is_corrupt(message: &Message<'_>) -> bool {
    let is = |answer: &OperationAnswer<'_>| matches!(answer, Err(Failure::DataCorrupt));
    match message {
        Message::Answer(answer) => is(answer),
        Message::BatchAnswer(answers) => answers.iter().any(|answer| is(&answer)),
        _ => false,
    }
}

impl zerohop_partition::PartitionEffects for CorruptAnswers<'_> {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        if let PartitionEffect::Answer { to, message, .. } = &effect
            && *to == self.token
            && is_corrupt(message)
        {
            self.is_found = true;
            if self.suppresses_corrupt {
                return;
            }
        }
        self.inner.push(effect);
    }
}
