//! Taking a checkpoint in small steps, while entries are appended and applied.
//!
//! ```text
//!   Walk (a page of the index a step) ──> Log sync ──> File sync ──> rename ──> older ones removed
//! ```
//!
//! Pages are written as they are at the time of their step, so the file may hold entries newer than its
//! commit index. Replaying the log over it from that index on still gives the present state, since applying
//! is idempotent. Everything that the checkpoint refers to is made durable before the file gets its name.

use std::collections::{BTreeMap, VecDeque};

use super::snapshot_install::InstallState;
use super::{MaintenanceStep, PartitionStore};
use crate::PartitionId;
use crate::checkpoint::{Block, ChainPiece, CheckpointHeader, PARTS_PER_BLOCK_MAX, SegmentRow, encode_block};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError, FileId, OpenMode, SyncTicket, create_file};
use crate::error::{EngineError, EngineResult};
use crate::index::location::EntryPlace;
use crate::io::{Io, Logs};
use crate::limits::CHECKPOINTS_RETAINED;
use crate::log::FIRST_ENTRY_AT;
use crate::planted::{Bug, is_planted};

/// The checkpoints of one partition: those on disk, and the one being written.
#[derive(Default)]
// Hot fields first: see [`super::PartitionStore`].
#[repr(C)]
pub(crate) struct Checkpoints {
    /// Bytes appended to the log since the last checkpoint started.
    pub(crate) tail_bytes: u64,
    /// The value of `tail_bytes` at which the owner checks whether a checkpoint is due.
    pub(crate) check_at_bytes: u64,
    /// Commit index and file bytes of each valid checkpoint, oldest first.
    pub(crate) retained: VecDeque<(u64, u64)>,
    /// Paths of corrupt checkpoints, which are removed when there is a new one.
    pub(crate) bad: Vec<String>,
    /// A section of a round is to be written, or is being written.
    pub(crate) is_in_round: bool,
    writing: Option<Box<CheckpointWrite>>,
}

struct CheckpointWrite {
    header: CheckpointHeader,
    path: String,
    file: FileId,
    file_bytes: u64,
    blocks: PageBlocks,
    /// Commit index when the last page was written.
    applied: u64,
    tail_bytes: u64,
    /// The segment that was open when the checkpoint started, and its length and bytes of removals then: newer
    /// entries are behind that.
    resume: Option<(u32, u64, u64)>,
    /// Dead bytes by segment slot that replaying the log over this file counts: the rows do not have them.
    replayed_dead: BTreeMap<u32, u64>,
    stage: CheckpointStage,
}

/// Blocks of a checkpoint that are not issued yet.
#[derive(Default)]
pub(crate) struct PageBlocks {
    pub(crate) salt: u32,
    pub(crate) buffer: Vec<u8>,
    /// Entries, and blocks of chains, so far.
    pub(crate) entries: u64,
    pub(crate) chains: u64,
}

enum CheckpointStage {
    /// The next page to write starts at this fragment.
    Walk(u32),
    /// Everything is written; the log must be durable up to this index.
    Log(u64),
    /// The file itself is being synced.
    File(SyncTicket),
    /// The file has its name, which is being synced.
    Name(SyncTicket),
}

/// New log that a checkpoint must save from being read, in multiples of its own size.
const TAIL_PER_CHECKPOINT: u64 = 3;
/// The buffer is issued to the file when it holds this much.
const WRITE_BYTES: usize = 64 << 10;

impl Checkpoints {
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some() || self.is_in_round
    }

    /// Forgets the checkpoint that is being written. Returns its file.
    pub(crate) fn abandon(&mut self) -> Option<FileId> {
        self.writing.take().map(|writing| writing.file)
    }

    /// Bytes of the newest checkpoint.
    pub(crate) fn newest_bytes(&self) -> u64 {
        self.retained.back().map_or(0, |&(_, bytes)| bytes)
    }

    /// New log that makes another checkpoint worth its size: the bytes written for checkpoints stay below a
    /// third of the bytes written for entries.
    pub(crate) fn worthwhile_bytes(&self) -> u64 {
        TAIL_PER_CHECKPOINT * self.newest_bytes()
    }

    /// Whether no kept checkpoint has this commit index.
    pub(crate) fn lacks_newest(&self, commit: u64) -> bool {
        self.retained.back().is_none_or(|&(kept, _)| kept < commit)
    }

    /// Whether fewer than two kept checkpoints have this commit index.
    pub(crate) fn lacks_two(&self, commit: u64) -> bool {
        let newest_two = self.retained.iter().rev().take(CHECKPOINTS_RETAINED);
        newest_two.filter(|(kept, _)| *kept >= commit).count() < CHECKPOINTS_RETAINED
    }

    /// An entry dies, or does so once an older version of its record is dropped. While a checkpoint is being
    /// written, its row of the segment counts the entry only if replaying the log over the file does not: the
    /// replay counts entries behind the commit index, and those that a page of the file still refers to.
    pub(crate) fn record_death(&mut self, slot: u32, fragment: u32, index: u64, entry_bytes: u64) {
        if let Some(writing) = &mut self.writing
            && !is_planted(Bug::ReplayCountsTwice)
            && (index > writing.header.commit || writing.has_page_of(fragment))
        {
            *writing.replayed_dead.entry(slot).or_default() += entry_bytes;
        }
    }

    /// Commit index that every kept checkpoint covers.
    pub(crate) fn covered(&self) -> u64 {
        self.retained
            .front()
            .filter(|_| self.retained.len() >= CHECKPOINTS_RETAINED)
            .map_or(0, |&(commit, _)| commit)
    }
}

impl PartitionStore {
    /// Starts a checkpoint. Does nothing if one is being written, if nothing has changed since the last, or
    /// if a snapshot install is incomplete.
    pub(crate) fn checkpoint_begin<D: Disk>(&mut self, io: &mut Io<D>, extra: &[u8]) -> EngineResult<()> {
        let is_new = self.checkpoints.lacks_newest(self.commit);
        let has_to_wait = self.checkpoints.is_writing() || self.compaction.is_swapping();
        let is_half = self.incoming == InstallState::Runs;
        if self.commit == 0 || !is_new || has_to_wait || is_half || self.is_stopped() {
            return Ok(());
        }
        let header = CheckpointHeader {
            partition: self.id.partition,
            commit: self.commit,
            epoch: io
                .logs
                .separate(self.handle)
                .epoch_at(&mut io.disk, self.commit)?
                .unwrap_or(io.logs.separate(self.handle).last.0),
            index_seed: self.id.index_seed,
        };
        let path = format!("{}/{}.tmp", io.logs.separate(self.handle).folder, header.file_name());
        let file = match create_file(&mut io.disk, &path) {
            Ok(file) => file,
            // Not now; the log still holds everything.
            Err(error) if error.is_temporary() => return Ok(()),
            Err(error) => return self.stop_on_failure(Err(error.into())),
        };
        let mut buffer = header.encode().to_vec();
        if !extra.is_empty() && !is_planted(Bug::CheckpointStateLeftOut) {
            encode_block(header.salt(), &Block::Extra(extra), &mut buffer);
        }
        let is_all_committed = self.commit == io.logs.separate(self.handle).last.1;
        let resume = io.logs.separate(self.handle).order.last().filter(|_| is_all_committed);
        let resume = resume.map(|&slot| {
            let segment = io.logs.separate(self.handle).segment(slot);
            (slot, segment.bytes, segment.removal_bytes)
        });
        self.checkpoints.writing = Some(Box::new(CheckpointWrite {
            header,
            resume,
            replayed_dead: BTreeMap::new(),
            path,
            file,
            file_bytes: 0,
            blocks: PageBlocks { salt: header.salt(), buffer, entries: 0, chains: 0 },
            applied: 0,
            tail_bytes: self.checkpoints.tail_bytes,
            stage: CheckpointStage::Walk(0),
        }));
        io.disk.reached(CrashPoint::CheckpointBegun);
        Ok(())
    }

    /// Does one small step. With `wait`, a step that depends on the disk waits for it.
    pub(crate) fn checkpoint_step<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        wait: bool,
    ) -> EngineResult<MaintenanceStep> {
        let Some(mut writing) = self.checkpoints.writing.take() else { return Ok(MaintenanceStep::Done) };
        // After a failure it is unknown which part of a log is durable: no checkpoint of it is taken then.
        let result = self.check_going().and_then(|()| self.step(io, &mut writing, wait));
        match result {
            Ok(MaintenanceStep::Done) => Ok(MaintenanceStep::Done),
            Ok(step) => {
                self.checkpoints.writing = Some(writing);
                Ok(step)
            }
            Err(error) => {
                // An incomplete checkpoint is useless; the log still holds everything.
                io.disk.close(writing.file);
                let removed = io.disk.remove(&writing.path).map_err(EngineError::from);
                let outcome = match error {
                    EngineError::Stopped { .. } => removed,
                    error if error.is_out_of_space() => removed,
                    error => Err(error),
                };
                self.stop_on_failure(outcome.map(|()| MaintenanceStep::Done))
            }
        }
    }

    fn step<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        writing: &mut CheckpointWrite,
        wait: bool,
    ) -> EngineResult<MaintenanceStep> {
        match writing.stage {
            CheckpointStage::Walk(from) => {
                let next = self.write_page(&mut writing.blocks, from);
                io.disk.reached(CrashPoint::CheckpointPage);
                if writing.blocks.buffer.len() >= WRITE_BYTES || next.is_none() {
                    writing.issue(&mut io.disk)?;
                }
                writing.stage = match next {
                    Some(next) => CheckpointStage::Walk(next),
                    None => {
                        writing.applied = self.commit;
                        io.with_separate(self.handle, |log, io| log.sync_begin_or_full(io))?;
                        // Not the log's end, which may still be truncated.
                        CheckpointStage::Log(self.commit)
                    }
                };
                Ok(MaintenanceStep::Progressed)
            }
            CheckpointStage::Log(through) => {
                let is_done = io.with_separate(self.handle, |log, io| log.sync_done(io, wait))?;
                if io.logs.separate_mut(self.handle).synced_index() < through {
                    if is_done {
                        // A sync that was already running when this one was requested was too early.
                        io.with_separate(self.handle, |log, io| log.sync_begin_or_full(io))?;
                    }
                    return Ok(MaintenanceStep::Waits);
                }
                self.write_end(&io.logs, writing);
                writing.issue(&mut io.disk)?;
                io.disk.reached(CrashPoint::CheckpointWritten);
                writing.stage = CheckpointStage::File(io.disk.sync_begin(writing.file)?);
                Ok(MaintenanceStep::Progressed)
            }
            CheckpointStage::File(ticket) => {
                if !io.is_synced(ticket, wait)? {
                    return Ok(MaintenanceStep::Waits);
                }
                io.disk.uncache(writing.file, writing.file_bytes);
                let name = format!("{}/{}", io.logs.separate(self.handle).folder, writing.header.file_name());
                io.disk.rename(&writing.path, &name)?;
                writing.path = name;
                io.disk.reached(CrashPoint::CheckpointNamed);
                writing.stage = CheckpointStage::Name(
                    io.disk.sync_begin_with_name(writing.file, &io.logs.separate(self.handle).folder)?,
                );
                Ok(MaintenanceStep::Progressed)
            }
            CheckpointStage::Name(ticket) => {
                if !io.is_synced(ticket, wait)? {
                    return Ok(MaintenanceStep::Waits);
                }
                self.finish(io, writing)?;
                Ok(MaintenanceStep::Done)
            }
        }
    }

    /// Adds a page of the index. Returns where the next one begins.
    pub(crate) fn write_page(&self, blocks: &mut PageBlocks, from: u32) -> Option<u32> {
        let salt = blocks.salt;
        let (entries, next) = self.index.hash.page_entries(from);
        let mut plain = Vec::new();
        for (fragment, location) in entries {
            match location.decode() {
                EntryPlace::Entry(_) => plain.push((fragment, location.with_older(false).0)),
                EntryPlace::Chain(id) => {
                    let chain = self.chains.get(id);
                    let (front, back) = chain.parts.as_slices();
                    let mut offsets = chain.extents.as_ref().map(|extents| extents.offsets.iter().copied());
                    for parts in front.chunks(PARTS_PER_BLOCK_MAX).chain(back.chunks(PARTS_PER_BLOCK_MAX)) {
                        let piece = ChainPiece {
                            fragment,
                            is_list: chain.is_list,
                            skipped: chain.skipped,
                            trimmed_by: chain.trimmed_by,
                            applied: chain.applied,
                            key: &chain.key,
                            parts: parts.to_vec(),
                            offsets: offsets.as_mut().map(|all| all.by_ref().take(parts.len()).collect()),
                        };
                        encode_block(salt, &Block::Chain(piece), &mut blocks.buffer);
                        blocks.chains += 1;
                    }
                }
            }
        }
        if !plain.is_empty() {
            blocks.entries += plain.len() as u64;
            encode_block(salt, &Block::Entries(plain), &mut blocks.buffer);
        }
        next
    }

    fn write_end(&mut self, logs: &Logs, writing: &mut CheckpointWrite) {
        let log = logs.separate(self.handle);
        let salt = writing.header.salt();
        // Older versions do not outlive the process: entries that only they hold are dead to a reader of this
        // checkpoint.
        let mut dead_later: BTreeMap<u32, u64> = BTreeMap::new();
        for part in self.versions.parts_dead_later() {
            if let Some(slot) = self.slot_of_part(logs.view(self.handle), part.index) {
                *dead_later.entry(slot).or_default() += u64::from(part.entry_bytes);
            }
        }
        let mut rows = Vec::with_capacity(log.order.len());
        for &slot in &log.order {
            let segment = log.segment(slot);
            let (resume_at, removal_bytes) = match writing.resume {
                _ if segment.last_index <= writing.header.commit => (segment.synced, segment.removal_bytes),
                // Not a mark at its end that may still be torn: reading resumes at that mark. The removals that
                // are read from there on are counted then.
                Some((open, bytes, removal_bytes)) if open == slot => {
                    (bytes.min(segment.synced), removal_bytes)
                }
                _ => (FIRST_ENTRY_AT, segment.removal_bytes),
            };
            let of_slot = |bytes: &BTreeMap<u32, u64>| bytes.get(&slot).copied().unwrap_or(0);
            let all_dead = segment.dead_bytes + of_slot(&dead_later);
            let replayed_dead = of_slot(&writing.replayed_dead);
            debug_assert!(
                replayed_dead <= all_dead,
                "what is replayed is dead: {replayed_dead} of {all_dead}"
            );
            rows.push(SegmentRow {
                slot,
                generation: segment.header.generation,
                first_index: segment.first_index(),
                last_index: segment.last_index,
                dead_bytes: all_dead.saturating_sub(replayed_dead),
                removal_bytes,
                file_bytes: segment.synced,
                resume_at,
            });
            if !segment.sealed {
                let samples = segment.samples_before(resume_at);
                encode_block(salt, &Block::Samples { slot, samples }, &mut writing.blocks.buffer);
            }
        }
        encode_block(salt, &Block::Segments(rows), &mut writing.blocks.buffer);
        let end = Block::End {
            entries: writing.blocks.entries,
            chains: writing.blocks.chains,
            file_bytes: writing.file_bytes + writing.blocks.buffer.len() as u64,
            applied: writing.applied,
        };
        encode_block(salt, &end, &mut writing.blocks.buffer);
    }

    fn finish<D: Disk>(&mut self, io: &mut Io<D>, writing: &mut CheckpointWrite) -> EngineResult<()> {
        io.disk.close(writing.file);
        io.disk.reached(CrashPoint::CheckpointInstalled);
        self.checkpoints.retained.push_back((writing.header.commit, writing.file_bytes));
        for path in std::mem::take(&mut self.checkpoints.bad).iter().filter(|path| **path != writing.path) {
            io.disk.remove(path)?;
        }
        debug_assert!(
            writing.tail_bytes <= self.checkpoints.tail_bytes,
            "the tail grows while it is written"
        );
        self.checkpoints.tail_bytes = self.checkpoints.tail_bytes.saturating_sub(writing.tail_bytes);
        while self.checkpoints.retained.len() > CHECKPOINTS_RETAINED {
            if let Some((commit, _)) = self.checkpoints.retained.pop_front() {
                io.disk.remove(&format!(
                    "{}/{}",
                    io.logs.separate(self.handle).folder,
                    CheckpointHeader { commit, ..writing.header }.file_name()
                ))?;
                io.disk.reached(CrashPoint::CheckpointRemoved);
            }
        }
        Ok(())
    }
}

impl PartitionStore {
    /// Copies the valid checkpoints into another partition's folder, relabelled for that partition, and syncs
    /// the copies. Returns commit index and bytes of each, oldest first.
    pub(crate) fn copy_checkpoints<D: Disk>(
        &self,
        io: &mut Io<D>,
        partition: PartitionId,
        folder: &str,
    ) -> EngineResult<VecDeque<(u64, u64)>> {
        let log = io.logs.separate(self.handle);
        let mut kept = VecDeque::new();
        for name in io.disk.list(&log.folder)? {
            let path = format!("{}/{}", log.folder, name.name);
            if !name.name.ends_with(".ckp") || self.checkpoints.bad.contains(&path) {
                continue;
            }
            let file = io.disk.open(&path, OpenMode::Existing)?;
            let mut bytes = vec![0; name.bytes as usize];
            let read = io.disk.read_at(file, 0, &mut bytes);
            io.disk.close(file);
            read?;
            // A checkpoint that has become corrupt is no substitute for another.
            let Ok(header) = CheckpointHeader::decode(&bytes) else { continue };
            crate::checkpoint::restamp(&header, partition, &mut bytes);
            let file = io.disk.open(&format!("{folder}/{}", name.name), OpenMode::Create)?;
            let written = io.disk.append(file, &bytes);
            let synced = written.and_then(|()| io.disk.sync(file).map_err(DiskError::beyond_repair));
            io.disk.close(file);
            synced?;
            kept.push_back((header.commit, name.bytes));
        }
        Ok(kept)
    }
}

impl CheckpointWrite {
    /// Whether the page of the index that this fragment belongs to is written.
    fn has_page_of(&self, fragment: u32) -> bool {
        match self.stage {
            CheckpointStage::Walk(next) => fragment < next,
            CheckpointStage::Log(_) | CheckpointStage::File(_) | CheckpointStage::Name(_) => true,
        }
    }

    fn issue<D: Disk>(&mut self, disk: &mut D) -> EngineResult<()> {
        disk.append(self.file, &self.blocks.buffer)?;
        self.file_bytes += self.blocks.buffer.len() as u64;
        self.blocks.buffer.clear();
        Ok(())
    }
}
