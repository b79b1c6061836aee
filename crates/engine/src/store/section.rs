//! The checkpoint of a partition as a section of a round, and recovery from it and the shared log.
//!
//! A section has the blocks of a checkpoint file. Block *segments* says which numbers the slots of its locations stand for, and
//! blocks *samples* have the places of the parts of records.

use std::collections::BTreeMap;

use super::checkpoint::PageBlocks;
use super::snapshot_install::InstallState;
use super::{PartitionStore, recover::PartitionReport};
use crate::checkpoint::{Block, CheckpointHeader, SegmentRow, encode_block, read_blocks};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::HashIndex;
use crate::index::location::{EntryPlace, Location, Position};
use crate::io::{Io, Logs};
use crate::log::shared::prefix::{LogEntryPlace, RecoveredLog};
use crate::logs::SharedLogs;
use crate::overflow::places::position;
use crate::planted::{Bug, is_planted};
use crate::{Damage, DamageKind};

/// A section that is being written.
pub(crate) struct SectionWrite {
    header: CheckpointHeader,
    blocks: PageBlocks,
    /// The fragment at which the next page begins.
    next: u32,
}

impl SectionWrite {
    /// Begins with what an upper layer adds.
    pub(crate) fn new(header: CheckpointHeader, extra: &[u8]) -> SectionWrite {
        let mut blocks = PageBlocks { salt: header.salt(), ..PageBlocks::default() };
        blocks.buffer.extend_from_slice(&header.encode());
        if !extra.is_empty() && !is_planted(Bug::CheckpointStateLeftOut) {
            encode_block(blocks.salt, &Block::Extra(extra), &mut blocks.buffer);
        }
        SectionWrite { header, blocks, next: 0 }
    }

    /// Its commit index.
    pub(crate) fn commit(&self) -> u64 {
        self.header.commit
    }

    /// Its epoch.
    pub(crate) fn epoch(&self) -> u32 {
        self.header.epoch
    }

    /// Adds a page of the index, and the end behind the last. Returns whether it is complete.
    pub(crate) fn step(&mut self, store: &PartitionStore, logs: &Logs) -> bool {
        let next = store.write_page(&mut self.blocks, self.next);
        let mut places: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (_, location) in store.index.hash.page_entries(self.next).0 {
            let EntryPlace::Chain(id) = location.decode() else { continue };
            for part in &store.chains.get(id).parts {
                if let Some(place) = store.places.get(logs.view(store.handle), part.index) {
                    let Position { slot, offset, .. } = position(place);
                    places.entry(slot).or_default().push((part.index as u32, offset));
                }
            }
        }
        for (slot, samples) in places {
            encode_block(self.blocks.salt, &Block::Samples { slot, samples }, &mut self.blocks.buffer);
        }
        match next {
            Some(next) => self.next = next,
            None => self.end(store.commit, logs),
        }
        next.is_none()
    }

    fn end(&mut self, applied: u64, logs: &Logs) {
        let PageBlocks { salt, buffer, entries, chains } = &mut self.blocks;
        let numbers = logs.shared().map(|logs| logs.segments.all().collect::<Vec<_>>());
        let row = |(slot, number): (u32, u64)| SegmentRow {
            slot,
            generation: 0,
            first_index: number,
            last_index: 0,
            dead_bytes: 0,
            removal_bytes: 0,
            file_bytes: 0,
            resume_at: 0,
        };
        let rows = numbers.unwrap_or_default().into_iter().map(row).collect();
        encode_block(*salt, &Block::Segments(rows), buffer);
        let (entries, chains, file_bytes) = (*entries, *chains, buffer.len() as u64);
        encode_block(*salt, &Block::End { entries, chains, file_bytes, applied }, buffer);
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.blocks.buffer
    }
}

/// What the blocks of a section say of places.
#[derive(Default)]
struct SectionPlaces {
    /// The slots here of those in the section. Those of segments that are gone are left out.
    slots: BTreeMap<u32, u32>,
    /// Slot there and offset of parts, by the lower half of their log indexes.
    parts: BTreeMap<u32, Vec<(u32, u32)>>,
    applied: u64,
}

impl PartitionStore {
    /// Begins a section of the present commit index. `None`: it must wait, or nothing has changed since the last, unless a second one
    /// of the same commit index is wanted: compaction needs two.
    pub(crate) fn begin_section<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        extra: &[u8],
        wants_two: bool,
    ) -> EngineResult<Option<SectionWrite>> {
        let has_to_wait = self.checkpoints.is_writing() || self.incoming == InstallState::Runs;
        let is_news = self.checkpoints.lacks_newest(self.commit)
            || wants_two && self.checkpoints.lacks_two(self.commit);
        if self.commit == 0 || !is_news || has_to_wait || self.is_stopped() {
            return Ok(None);
        }
        let epoch = match self.epoch_at(io, self.commit)? {
            Some(epoch) => epoch,
            None => io.logs.view(self.handle).last().0,
        };
        let (partition, index_seed) = (self.id.partition, self.id.index_seed);
        self.checkpoints.is_in_round = true;
        let header = CheckpointHeader { partition, commit: self.commit, epoch, index_seed };
        Ok(Some(SectionWrite::new(header, extra)))
    }

    /// Fills this empty store from what recovery of the shared log has found. With `keeps_lost`, places in segments that are gone
    /// stay, because copies that replace them may be lost: reading them fails.
    ///
    /// # Errors
    /// Errors of the disk; [`EngineError::Format`] if the section is not what its checksum says.
    pub(crate) fn recover_shared<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        found: &RecoveredLog,
        section: Option<&[u8]>,
        keeps_lost: bool,
    ) -> EngineResult<PartitionReport> {
        let mut report = PartitionReport::default();
        let mut commit = found.commit;
        if let (Some(row), Some(bytes)) = (found.section, section) {
            let applied = self.load_section(io, bytes, keeps_lost, &mut report).map_err(|reason| {
                EngineError::Format { path: format!("checkpoint round {:016x}", row.round), reason }
            })?;
            self.commit = row.commit;
            self.recent.note_committed(row.epoch, row.commit);
            commit = commit.max(applied);
        }
        let mut bytes = Vec::new();
        for entry in &found.copies {
            self.recover_entry(io, entry, true, &mut bytes, &mut report)?;
        }
        for entry in &found.entries {
            self.recover_entry(io, entry, false, &mut bytes, &mut report)?;
        }
        // Of an atomic batch up to there, entries may be left out that are dead.
        self.commit_known(io, found.floor.min(found.last.1))?;
        self.commit = self.commit.max(found.floor.min(found.last.1));
        self.commit(io, commit.min(found.last.1))?;
        self.damage = report.damage.clone();
        Ok(report)
    }

    /// An entry of the log waits to be committed; a copy of one that the section has gets its place back.
    fn recover_entry<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        entry: &LogEntryPlace,
        is_copy: bool,
        bytes: &mut Vec<u8>,
        report: &mut PartitionReport,
    ) -> EngineResult<()> {
        let Io { disk, logs, .. } = io;
        let Some(shared) = logs.shared_mut() else { return Ok(()) };
        let Some(segment) = shared.log.segment(entry.place.segment) else { return Ok(()) };
        let Some(head) = segment.head_at(disk, entry.place.offset.into())? else { return Ok(()) };
        segment.read_some(disk, entry.place.offset.into(), head.payload_at(), bytes)?;
        let placed = shared.placed(entry.place, &head)?;
        let Some(replicated) = head.replicated() else { return Ok(()) };
        let meta = replicated.meta;
        let key = &bytes[replicated.head_bytes as usize..head.payload_at()];
        if !entry.is_good {
            let place = format!("segment {:016x}+{}", entry.place.segment, entry.place.offset);
            let kind = DamageKind::Entry { index: meta.index, key: key.to_vec() };
            report.damage.push(Damage { partition: self.id.partition, kind, place });
        }
        if !is_copy {
            report.from_log += 1;
            self.recent.push(&meta, placed);
        } else if matches!(meta.kind, crate::EntryKind::Put | crate::EntryKind::Append) {
            self.apply_from_log(io, &meta, placed)?;
        }
        Ok(())
    }

    /// Loads index and side tables. Returns the index up to which entries may be in them.
    fn load_section<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        bytes: &[u8],
        keeps_lost: bool,
        report: &mut PartitionReport,
    ) -> Result<u64, String> {
        let header = CheckpointHeader::decode(bytes)?;
        let Some(shared) = io.logs.shared_mut() else { return Ok(0) };
        let (mut places, mut counts, mut extra) = (SectionPlaces::default(), (0, 0), Vec::new());
        read_blocks(header.salt(), bytes, |block| {
            match block {
                Block::Segments(rows) => places.add_rows(shared, &rows, keeps_lost)?,
                Block::Samples { slot, samples } => places.add_parts(slot, &samples),
                Block::Entries(entries) => counts.0 += entries.len() as u64,
                Block::Chain(_) => counts.1 += 1,
                Block::Extra(bytes) => extra = bytes.to_vec(),
                Block::End { entries, chains, .. } if counts != (entries, chains) => {
                    return Err("its end block counts other entries".into());
                }
                Block::End { applied, .. } => places.applied = applied,
            }
            Ok(())
        })?;
        self.recovered_extra = Some(Box::new((header.commit, extra)));
        self.index.hash = HashIndex::for_entries(counts.0 as usize);
        read_blocks(header.salt(), bytes, |block| {
            match block {
                Block::Entries(entries) => {
                    for (fragment, location) in entries {
                        let EntryPlace::Entry(at) = Location(location).decode() else { continue };
                        if let Some(slot) = places.slots.get(&at.slot) {
                            self.index.hash.insert(fragment, Location(location).in_slot(*slot));
                            report.from_checkpoint += 1;
                        }
                    }
                }
                Block::Chain(piece) => {
                    report.from_checkpoint += u64::from(self.load_chain(&piece));
                    for part in &piece.parts {
                        if let Some((slot, offset)) = places.of_part(part.index as u32) {
                            let place = Location::entry(slot, offset, part.entry_bytes as usize);
                            self.places.insert(io.logs.view(self.handle), part.index, place);
                        }
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(places.applied.max(header.commit))
    }
}

impl SectionPlaces {
    fn add_rows(
        &mut self,
        shared: &mut SharedLogs,
        rows: &[SegmentRow],
        keeps_lost: bool,
    ) -> Result<(), String> {
        for row in rows {
            if keeps_lost || shared.log.segment(row.first_index).is_some() {
                let slot = shared.segments.of(row.first_index).map_err(|error| error.to_string())?;
                self.slots.insert(row.slot, slot);
            }
        }
        Ok(())
    }

    fn add_parts(&mut self, slot: u32, parts: &[(u32, u32)]) {
        for (index, offset) in parts {
            self.parts.entry(*index).or_default().push((slot, *offset));
        }
    }

    /// Where the part of a log index with this lower half is.
    fn of_part(&self, index: u32) -> Option<(u32, u32)> {
        let candidates = self.parts.get(&index)?;
        // Two indexes with the same lower half: which is which is found in the log.
        let [(slot, offset)] = candidates[..] else { return None };
        self.slots.get(&slot).map(|slot| (*slot, offset))
    }
}
