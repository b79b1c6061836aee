//! Requests about snapshots, and the end of snapshots that no client renews. `docs/protocols/snapshots.md` explains why each
//! promise holds.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult, EntryKind, EntryMeta};
use zerohop_wire::blob::name_of_header;
use zerohop_wire::ids::{SnapshotId, Timestamp};
use zerohop_wire::messages::{
    OperationAnswer, Outcome as WireOutcome, RecordRead, Scan, SnapshotQuery, SnapshotRequest,
};
use zerohop_wire::{BadRequestReason, Failure, Message};

use super::{AnswerTarget, Partition};
use crate::entry_metadata::{MARK_EPOCH, MARK_SNAPSHOT, Mark, SnapshotMark};
use crate::event::{PartitionEffects, Token};
use crate::limits::{
    ANSWER_SNAPSHOTS_MAX, BUSY_RETRY_MS, SNAPSHOT_VERSIONS_MAX, SNAPSHOTS_MAX, STREAM_SNAPSHOTS_MAX,
};
use crate::log_writer::NewLogEntry;
use crate::operations::{self, EngineResultExt};
use crate::planted::{Bug, is_planted};
use crate::program::{Program, SnapshotOpening};
use crate::snapshots::view::PastView;
use crate::snapshots::{PastVersions, SnapshotRetention, SnapshotUse};
use crate::state::PartitionState;

/// The log index that an answer waits for, and the earliest time that can be read.
type SnapshotPosition = (u64, Timestamp);

impl Partition {
    pub(super) fn snapshot<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        snapshot: &SnapshotRequest<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let id = snapshot.id;
        let opened = match &snapshot.request {
            // Only this member chooses them: a client could use up the places of others.
            SnapshotQuery::Open { .. } if SnapshotUse::of(id) == SnapshotUse::Answer => {
                Err(BadRequestReason::SnapshotId.into())
            }
            SnapshotQuery::Open { lease_ms, age_ms } => {
                self.open_snapshot(engine, id, (*lease_ms, *age_ms), None, effects)
            }
            SnapshotQuery::Renew { lease_ms } => self.renew_snapshot(id, *lease_ms),
            SnapshotQuery::Close => self.close_snapshots(engine, &[id], effects),
            SnapshotQuery::Read { at, read } => return self.read_at(engine, (id, *at), read, token, effects),
            SnapshotQuery::Scan { at, scan } => return self.scan_at(engine, (id, *at), scan, token, effects),
            SnapshotQuery::Chunks { at, scan } => {
                return self.chunks_at(engine, (id, *at), scan, token, effects);
            }
        };
        let mut to = AnswerTarget::One(token);
        match opened {
            Ok((index, version)) => {
                self.deliver(&mut to, index, &Ok(WireOutcome::Done { version, number: 0 }), effects);
            }
            Err(failure) => self.deliver(&mut to, 0, &Err(failure), effects),
        }
    }

    /// Opens the snapshot from which a program that has just run is to be answered. The log index that its answer waits for.
    pub(super) fn open_for_answer<D: Disk, P: Program>(
        &mut self,
        engine: &mut Engine<D>,
        SnapshotOpening { id, lease_ms, age_ms, holder }: SnapshotOpening,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn PartitionEffects,
    ) -> Result<u64, Failure<'static>> {
        let (index, floor) = self.open_snapshot(engine, id, (lease_ms, age_ms), holder, effects)?;
        program.opened(floor, reply);
        Ok(index)
    }

    /// Runs a program over the past.
    pub(super) fn run_past<D: Disk, P: Program>(
        &mut self,
        engine: &mut Engine<D>,
        (id, at): (SnapshotId, Timestamp),
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        let begin = reply.len();
        self.may_read_at(id, at)?;
        let now_ms = self.clock.now_ms();
        if let Some(snapshots) = self.snapshots.as_deref_mut() {
            snapshots.renew(id, now_ms, None);
        }
        let mut view = self.past_view(engine, at).ok_or(Failure::SnapshotExpired)?;
        let is_read = program.run_past(&mut view, reply).inspect_err(|_| reply.truncate(begin))?;
        if is_read {
            // If there is no room for that in the log, its lease ends it.
            drop(self.close_snapshots(engine, &[id], effects));
        }
        Ok(())
    }

    fn open_snapshot<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        id: SnapshotId,
        (lease_ms, age_ms): (u32, u64),
        holder: Option<u64>,
        effects: &mut dyn PartitionEffects,
    ) -> Result<SnapshotPosition, Failure<'static>> {
        let now_ms = self.clock.now_ms();
        let snapshots = self.snapshots.get_or_insert_default();
        if let Some(kept) = snapshots.get(id) {
            let floor = kept.floor;
            snapshots.renew(id, now_ms, Some(lease_ms));
            return Ok((0, floor));
        }
        if let Some((index, kept)) = snapshots.appended(id) {
            return Ok((index, kept.floor));
        }
        let count = snapshots.count_like(id);
        match SnapshotUse::of(id) {
            SnapshotUse::Answer => {
                let free = ANSWER_SNAPSHOTS_MAX.saturating_sub(count);
                let is_over = holder.is_some_and(|holder| snapshots.count_of(holder) >= free);
                if free == 0 || is_over {
                    return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
                }
            }
            SnapshotUse::Client if count >= SNAPSHOTS_MAX => return Err(BadRequestReason::Snapshots.into()),
            SnapshotUse::Stream if count >= STREAM_SNAPSHOTS_MAX => {
                return Err(BadRequestReason::Snapshots.into());
            }
            _ => {}
        }
        let (floor, ends_ms) = (self.clock.next(), now_ms.saturating_add(age_ms));
        let kept = SnapshotRetention { floor, lease_ms, ends_ms };
        let mark = SnapshotMark::Open { id, lease_ms, ends_ms };
        let index = self.append_snapshot_mark(engine, (floor, mark), Some((id, kept)), effects)?;
        if let Some((holder, snapshots)) = holder.zip(self.snapshots.as_deref_mut()) {
            snapshots.hold(id, holder);
        }
        Ok((index, floor))
    }

    fn renew_snapshot(
        &mut self,
        id: SnapshotId,
        lease_ms: u32,
    ) -> Result<SnapshotPosition, Failure<'static>> {
        let now_ms = self.clock.now_ms();
        let snapshots = self.snapshots.as_deref_mut().ok_or(Failure::SnapshotExpired)?;
        let floor = snapshots.get(id).ok_or(Failure::SnapshotExpired)?.floor;
        snapshots.renew(id, now_ms, Some(lease_ms));
        Ok((0, floor))
    }

    fn close_snapshots<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        ids: &[SnapshotId],
        effects: &mut dyn PartitionEffects,
    ) -> Result<SnapshotPosition, Failure<'static>> {
        let Some(snapshots) = self.snapshots.as_deref() else { return Ok((0, Timestamp::ZERO)) };
        let is_there = |id: &&SnapshotId| snapshots.get(**id).is_some() || snapshots.appended(**id).is_some();
        let ids: Vec<SnapshotId> = ids.iter().filter(is_there).copied().collect();
        if ids.is_empty() {
            return Ok((0, Timestamp::ZERO));
        }
        let at = self.clock.next();
        let index = self.append_snapshot_mark(engine, (at, SnapshotMark::End { ids }), None, effects)?;
        Ok((index, Timestamp::ZERO))
    }

    /// Logs a snapshot mark. A snapshot that it opens is kept from before the mark is in the log.
    fn append_snapshot_mark<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (at, mark): (Timestamp, SnapshotMark),
        opens: Option<(SnapshotId, SnapshotRetention)>,
        effects: &mut dyn PartitionEffects,
    ) -> Result<u64, Failure<'static>> {
        let before = self.log_writer.last();
        if let Some((id, kept)) = opens {
            self.snapshots.get_or_insert_default().append(before + 1, id, kept);
            self.follow_horizon(engine).or_fail()?;
        }
        let mut payload = Vec::new();
        Mark::Snapshot(mark).encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        let meta = match self.log_writer.append(engine, &entry) {
            Ok(meta) => meta,
            Err(error) => {
                self.truncate_snapshots_after(engine, before).or_fail()?;
                return Err(crate::failure::failure_of(&error));
            }
        };
        if self.log_writer.commits_at_once() {
            self.apply(&meta, &[], &payload);
            self.snapshot_committed(engine, &meta, &payload).or_fail()?;
        } else {
            effects.request_flush();
        }
        Ok(meta.index)
    }

    /// The engine keeps versions from the horizon on.
    fn follow_horizon<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        let horizon = self.snapshots.as_ref().and_then(|snapshots| snapshots.horizon());
        engine.move_horizon(self.handle(), horizon.map(|at| at.0))
    }

    /// An entry of the primary is about to be appended here. Versions behind a mark that opens a snapshot are kept.
    pub(super) fn snapshot_received<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &EntryMeta,
        payload: &[u8],
    ) -> EngineResult<()> {
        let at = Timestamp(meta.timestamp);
        if let Some(Mark::Snapshot(SnapshotMark::Open { id, lease_ms, ends_ms })) = mark_of(meta, payload)
            && !is_planted(Bug::FollowersKeepNoSnapshots)
        {
            let kept = SnapshotRetention { floor: at, lease_ms, ends_ms };
            self.snapshots.get_or_insert_default().append(meta.index, id, kept);
            self.follow_horizon(engine)?;
        }
        Ok(())
    }

    /// A mark is committed: it opens or ends snapshots. The epoch marker of a new primary ends the snapshots that this primary
    /// does not keep, because no other entry would end them.
    pub(super) fn snapshot_committed<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &EntryMeta,
        payload: &[u8],
    ) -> EngineResult<()> {
        let Some(snapshots) = self.snapshots.as_deref_mut() else { return Ok(()) };
        let now_ms = self.clock.now_ms();
        match mark_of(meta, payload) {
            Some(Mark::Snapshot(SnapshotMark::Open { id, .. })) => {
                snapshots.opened(meta.index);
                snapshots.renew(id, now_ms, None);
                return Ok(());
            }
            Some(Mark::Snapshot(SnapshotMark::End { ids })) => snapshots.ended(&ids),
            Some(Mark::Epoch { snapshots: kept }) if !is_planted(Bug::UnknownSnapshotsKept) => {
                let others = snapshots.others(&kept);
                if others.is_empty() {
                    return Ok(());
                }
                snapshots.ended(&others);
            }
            _ => return Ok(()),
        }
        self.counts.horizons_moved += 1;
        if snapshots.len() == 0 {
            self.snapshots = None;
        }
        self.follow_horizon(engine)
    }

    /// The log was truncated behind this index, or the next entry could not be appended.
    pub(super) fn truncate_snapshots_after<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        index: u64,
    ) -> EngineResult<()> {
        let Some(snapshots) = self.snapshots.as_deref_mut() else { return Ok(()) };
        snapshots.truncate_after(index);
        if snapshots.len() == 0 {
            self.snapshots = None;
        }
        self.follow_horizon(engine)
    }

    /// Keeps the state that an entry has ended. `before`: the previous deadline of its key.
    pub(super) fn retain_past_version(&mut self, before: Option<u64>, meta: &EntryMeta, key: &[u8]) {
        let Some(snapshots) = self.snapshots.as_deref_mut() else { return };
        let (at, past) = (Timestamp(meta.timestamp), snapshots.past_mut());
        if self.state.deadlines.get(key) != before {
            past.deadline_ended(key, before, at);
        }
        if meta.kind == EntryKind::Remove
            && let Some(name) = name_of_header(key)
        {
            past.name_ended(name, at);
        }
    }

    /// Ends snapshots that no client has renewed, and the oldest snapshot where too much is kept.
    pub(super) fn tick_snapshots<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let now_ms = self.clock.now_ms();
        let handle = self.handle();
        let bounds = (self.state.applied, self.log_writer.last());
        let Some(snapshots) = self.snapshots.as_deref_mut().filter(|one| !one.is_ending(bounds)) else {
            // Another mark at each tick would fill the log while too few members are there to commit one.
            return Ok(());
        };
        let mut overdue = snapshots.overdue(now_ms);
        if overdue.is_empty()
            && engine.retained_versions(handle)? + snapshots.past().len() > SNAPSHOT_VERSIONS_MAX
        {
            overdue.extend(snapshots.oldest());
        }
        if overdue.is_empty() || is_planted(Bug::SnapshotLeasesNeverExpire) {
            return Ok(());
        }
        match self.close_snapshots(engine, &overdue, effects) {
            Ok((index, _)) => {
                if let Some(snapshots) = self.snapshots.as_deref_mut() {
                    snapshots.set_end_mark(index);
                }
                Ok(())
            }
            // On a full disk the mark is appended later.
            Err(Failure::DiskFull | Failure::MemoryFull | Failure::Busy { .. }) => Ok(()),
            Err(failure) => Err(EngineError::Stopped { reason: failure.to_string() }),
        }
    }

    /// When [`Partition::tick_snapshots`] has something to do.
    pub(super) fn next_snapshots_ms(&self) -> Option<u64> {
        let snapshots = self.snapshots.as_ref()?;
        let is_ending = snapshots.is_ending((self.state.applied, self.log_writer.last()));
        snapshots.next_ms().filter(|_| !is_ending && !is_planted(Bug::SnapshotLeasesNeverExpire))
    }

    /// Whether a snapshot can be read at a time.
    fn may_read_at(&mut self, id: SnapshotId, at: Timestamp) -> Result<(), Failure<'static>> {
        let busy = Failure::Busy { retry_after_ms: BUSY_RETRY_MS };
        let Some(snapshots) = self.snapshots.as_deref() else { return Err(Failure::SnapshotExpired) };
        let Some(kept) = snapshots.get(id) else {
            return Err(if snapshots.appended(id).is_some() { busy } else { Failure::SnapshotExpired });
        };
        if at < kept.floor {
            return Err(Failure::SnapshotExpired);
        }
        // The clock assigns no timestamp at or below it any more.
        self.clock.check(at)?;
        self.clock.witness(at);
        if snapshots.is_closed(at) || is_planted(Bug::SnapshotReadBeforeCommit) {
            return Ok(());
        }
        if self.may_commit_by(at) {
            return Err(busy);
        }
        let (last, applied) = (self.log_writer.last(), self.state.applied);
        let snapshots = self.snapshots.as_deref_mut();
        match snapshots.is_some_and(|snapshots| snapshots.close_behind(at, last, applied)) {
            true => Ok(()),
            false => Err(busy),
        }
    }

    fn read_at<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (id, at): (SnapshotId, Timestamp),
        read: &RecordRead<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let mut contents = std::mem::take(&mut self.buffers.contents);
        contents.clear();
        let answer = match self.may_read_at(id, at) {
            Ok(()) if read.key.is_empty() => Err(super::read::no_key()),
            Ok(()) => match self.past_view(engine, at) {
                Some(mut view) => view.answer(read, &mut contents),
                None => Err(Failure::SnapshotExpired),
            },
            Err(failure) => Err(failure),
        };
        effects.answer(token, &Message::Answer(answer));
        self.buffers.contents = contents;
    }

    fn scan_at<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (id, at): (SnapshotId, Timestamp),
        scan: &Scan<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let own = self.snapshot_range();
        let own = own.as_ref();
        let (mut contents, mut next) = (Vec::new(), Vec::new());
        let out = (&mut contents, &mut next);
        let answer: OperationAnswer<'_> = match self.may_read_at(id, at) {
            Ok(()) => match self.past_view(engine, at) {
                Some(mut view) if scan.blobs => {
                    let names = view.names(scan.prefix, scan.cursor);
                    let names = names.iter().map(Vec::as_slice);
                    operations::scan::names(names, scan, own, |name| view.header(name), out)
                }
                Some(mut view) => match view.is_ordered() {
                    true => operations::range::page(&mut view, scan, own, out),
                    false => operations::scan::keys(&mut view, scan, own, out),
                },
                None => Err(Failure::SnapshotExpired),
            },
            Err(failure) => Err(failure),
        };
        effects.answer(token, &Message::Answer(answer));
    }

    fn chunks_at<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (id, at): (SnapshotId, Timestamp),
        scan: &Scan<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let own = self.snapshot_range();
        let (mut contents, mut next) = (Vec::new(), Vec::new());
        let answer: OperationAnswer<'_> = match self.may_read_at(id, at) {
            Ok(()) => match self.past_view(engine, at) {
                Some(mut view) => {
                    operations::chunk_list::past(&mut view, scan, own, (&mut contents, &mut next))
                }
                None => Err(Failure::SnapshotExpired),
            },
            Err(failure) => Err(failure),
        };
        effects.answer(token, &Message::Answer(answer));
    }

    fn past_view<'v, D>(&'v self, engine: &'v mut Engine<D>, at: Timestamp) -> Option<PastView<'v, D>> {
        let (handle, state): (_, &PartitionState) = (self.handle(), &self.state);
        let past: &PastVersions = self.snapshots.as_ref()?.past();
        Some(PastView { engine, handle, state, past, at })
    }

    /// The snapshots that it keeps as a new primary, for its epoch marker. An uncommitted entry in its log may end some of them.
    /// They end once that entry is committed.
    pub(super) fn retained_snapshots(&self) -> Vec<SnapshotId> {
        self.snapshots.as_ref().map_or_else(Vec::new, |snapshots| snapshots.retained_ids())
    }

    /// The member becomes primary.
    pub(super) fn snapshots_as_primary(&mut self) {
        let now_ms = self.clock.now_ms();
        if let Some(snapshots) = self.snapshots.as_deref_mut() {
            snapshots.become_primary(now_ms);
        }
    }
}

/// The snapshot mark in an entry. All other entries cost only one check.
fn mark_of(meta: &EntryMeta, payload: &[u8]) -> Option<Mark> {
    let is_one = matches!(payload.first(), Some(&MARK_SNAPSHOT | &MARK_EPOCH));
    (meta.kind == EntryKind::Mark && is_one).then(|| Mark::decode(payload, Timestamp(meta.timestamp)))?
}
