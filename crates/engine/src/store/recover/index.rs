//! Loading a checkpoint, and determining which part of it is still valid.
//!
//! Segments may have been rewritten since: locations that point into the old ones are not loaded, as the new
//! ones are read anyway. Entries of a rewritten segment were live when the rewrite started (`compacted_at`).
//! If the checkpoint is younger, a removal between the two is in the checkpoint only as an absence, so the
//! log is read again from there.

use std::collections::BTreeMap;

use super::{PartitionStore, Recovery};
use crate::DamageKind;
use crate::checkpoint::{self, Block, SegmentRow};
use crate::disk::{DirEntry, Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::index::HashIndex;
use crate::index::location::{EntryPlace, Location};
use crate::io::{Io, Logs};
use crate::log::FIRST_ENTRY_AT;
use crate::log::entry::EntryKind;
use crate::log::scan::{self, ScanItem};
use crate::overflow::chains::{Chain, Form};
use crate::planted::{Bug, is_planted};

/// The contents of a checkpoint beside the index.
#[derive(Default)]
pub(super) struct LoadedCheckpoint {
    /// Its commit index, and the log index up to which the log need not be read again.
    pub(super) commit: u64,
    pub(super) covers_through: u64,
    /// Entries up to this log index may be in it: those that were committed while it was written.
    pub(super) applied: u64,
    /// Rows of the segments that are unchanged, by slot of this log.
    pub(super) rows: BTreeMap<u32, SegmentRow>,
}

/// The contents of a checkpoint's end and header.
struct CheckpointFacts {
    header: checkpoint::CheckpointHeader,
    /// The commit index when the last page of the index was written.
    applied: u64,
    rows: BTreeMap<u32, SegmentRow>,
}

impl Recovery<'_> {
    /// Loads the newest valid checkpoint.
    pub(super) fn load_checkpoint<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        names: &[DirEntry],
    ) -> EngineResult<LoadedCheckpoint> {
        let mut loaded = LoadedCheckpoint::default();
        for name in names.iter().rev().filter(|n| n.name.ends_with(".ckp")) {
            let path = format!("{}/{}", io.logs.separate(self.store.handle).folder, name.name);
            // Older ones are not needed now: they replace a newer one if that becomes corrupt.
            let requested = if loaded.commit > 0 { checkpoint::HEADER_BYTES as u64 } else { name.bytes };
            let file = io.disk.open(&path, OpenMode::Existing)?;
            let mut bytes = vec![0; requested.min(name.bytes) as usize];
            let read = io.disk.read_at(file, 0, &mut bytes);
            io.disk.close(file);
            read?;
            if loaded.commit > 0 {
                if let Ok(header) = checkpoint::CheckpointHeader::decode(&bytes) {
                    self.store.checkpoints.retained.push_front((header.commit, name.bytes));
                }
                continue;
            }
            match self.load(&mut io.logs, &bytes) {
                Ok(facts) => {
                    self.store.checkpoints.retained.push_front((facts.header.commit, name.bytes));
                    loaded = self.adopt(&mut io.logs, facts);
                }
                Err(reason) if reason.contains("not known here") => {
                    return Err(EngineError::Format { path, reason });
                }
                Err(reason) => {
                    self.store.index.hash = Default::default();
                    self.store.chains = Default::default();
                    self.store.recovered_extra = None;
                    self.report.from_checkpoint = 0;
                    self.damage(DamageKind::Checkpoint, format!("{path}: {reason}"));
                    // Its contents are lost, but it got its name only once the log was synced up to there. It
                    // stays until there is a valid one, so that it confirms that also next time.
                    let commit = name.name.strip_suffix(".ckp").map(|hex| u64::from_str_radix(hex, 16));
                    self.synced = self.synced.max(commit.and_then(Result::ok).unwrap_or(0));
                    self.store.checkpoints.bad.push(path);
                }
            }
        }
        Ok(loaded)
    }

    fn adopt(&mut self, logs: &mut Logs, facts: CheckpointFacts) -> LoadedCheckpoint {
        let CheckpointFacts { header, applied, rows } = facts;
        let store = &mut *self.store;
        store.id.index_seed = header.index_seed;
        logs.separate_mut(store.handle).last = (header.epoch, header.commit);
        store.commit = header.commit;
        self.commit = self.commit.max(applied);
        self.synced = self.synced.max(applied);
        let mut holds_through = header.commit;
        for slot in logs.separate(store.handle).order.iter().filter(|slot| !rows.contains_key(slot)) {
            let segment = logs.separate(store.handle).segment(*slot);
            let is_rewritten = segment.header.generation > 0;
            let lived_at = if is_rewritten { segment.header.compacted_at } else { segment.first_index() - 1 };
            if segment.first_index() <= header.commit {
                holds_through = holds_through.min(lived_at);
            }
        }
        LoadedCheckpoint { commit: header.commit, covers_through: holds_through, applied, rows }
    }

    fn load(&mut self, logs: &mut Logs, bytes: &[u8]) -> Result<CheckpointFacts, String> {
        let header = checkpoint::CheckpointHeader::decode(bytes)?;
        if header.partition != self.partition() {
            return Err("it is another partition's".into());
        }
        let mut table = Vec::new();
        let mut samples = BTreeMap::new();
        // Two passes: the rows that are needed to read locations are at the end. The first pass checks every
        // block.
        let (mut counts, mut applied, mut extra) = ((0, 0), 0, None);
        checkpoint::read_blocks(header.salt(), bytes, |block| {
            match block {
                Block::Segments(rows) => table = rows,
                Block::Samples { slot, samples: pairs } => drop(samples.insert(slot, pairs)),
                Block::Entries(entries) => counts.0 += entries.len() as u64,
                Block::Chain(_) => counts.1 += 1,
                Block::Extra(bytes) => extra = Some(bytes),
                Block::End { entries, chains, .. } if counts != (entries, chains) => {
                    return Err("its end block counts other entries".into());
                }
                Block::End { applied: through, .. } => applied = through,
            }
            Ok(())
        })?;
        self.store.recovered_extra = Some(Box::new((header.commit, extra.unwrap_or_default().to_vec())));
        let (slots, rows) = self.match_rows(logs, &table, &mut samples);
        self.store.index.hash = HashIndex::for_entries(counts.0 as usize);
        checkpoint::read_blocks(header.salt(), bytes, |block| {
            match block {
                Block::Entries(entries) => {
                    for (fragment, location) in entries {
                        self.load_entry(&slots, fragment, Location(location));
                    }
                }
                Block::Chain(piece) => self.load_chain(&piece),
                _ => {}
            }
            Ok(())
        })?;
        Ok(CheckpointFacts { header, applied: applied.max(header.commit), rows })
    }

    /// The checkpoint's segments that are unchanged here: slot by slot, and their rows.
    fn match_rows(
        &mut self,
        logs: &mut Logs,
        table: &[SegmentRow],
        samples: &mut BTreeMap<u32, Vec<(u32, u32)>>,
    ) -> (BTreeMap<u32, u32>, BTreeMap<u32, SegmentRow>) {
        let (mut slots, mut rows) = (BTreeMap::new(), BTreeMap::new());
        for slot in logs.separate(self.store.handle).order.clone() {
            let segment = logs.separate_mut(self.store.handle).segment_mut(slot);
            let is_same = |r: &&SegmentRow| {
                r.first_index == segment.first_index()
                    && r.generation == segment.header.generation
                    && r.file_bytes <= segment.bytes
                    && r.resume_at <= segment.bytes.max(FIRST_ENTRY_AT)
            };
            let Some(row) = table.iter().find(is_same) else { continue };
            // A checkpoint of an earlier program may count an entry twice.
            let contents = segment.bytes.saturating_sub(FIRST_ENTRY_AT);
            segment.removal_bytes = row.removal_bytes.min(contents);
            segment.dead_bytes = row.dead_bytes.min(contents - segment.removal_bytes);
            if let Some(samples) = samples.remove(&row.slot) {
                segment.adopt_samples(samples);
            }
            slots.insert(row.slot, slot);
            rows.insert(slot, *row);
        }
        (slots, rows)
    }

    fn load_entry(&mut self, slots: &BTreeMap<u32, u32>, fragment: u32, location: Location) {
        let EntryPlace::Entry(position) = location.decode() else { return };
        // An entry of a segment that was rewritten since is found again when that segment is read.
        if let Some(&slot) = slots.get(&position.slot) {
            self.store.index.hash.insert(fragment, location.in_slot(slot));
            self.report.from_checkpoint += 1;
        }
    }

    fn load_chain(&mut self, piece: &checkpoint::ChainPiece<'_>) {
        self.report.from_checkpoint += u64::from(self.store.load_chain(piece));
    }

    /// Parts that the checkpoint names may be gone if their segment was rewritten since, and with them the
    /// removal that ended their record. Such parts do not count, and must not count when the log behind the
    /// checkpoint is applied.
    pub(super) fn drop_missing_parts<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        loaded: &LoadedCheckpoint,
    ) -> EngineResult<()> {
        let mut doubtful = Vec::new();
        let mut from = Some(0);
        while let Some(fragment) = from {
            let (entries, next) = self.store.index.hash.page_entries(fragment);
            doubtful.extend(entries.filter_map(|(f, l)| match l.decode() {
                EntryPlace::Chain(id) => Some((f, l, id)),
                EntryPlace::Entry(_) => None,
            }));
            from = next;
        }
        if doubtful.is_empty() {
            return Ok(());
        }
        let rewritten = self.scan_rewritten(io, loaded)?;
        for (fragment, location, id) in doubtful {
            let mut missing = Vec::new();
            for part in &self.store.chains.get(id).parts {
                let slot = io
                    .logs
                    .separate(self.store.handle)
                    .order_of(part.index)
                    .map(|at| io.logs.separate(self.store.handle).order[at]);
                let stored = slot.and_then(|slot| rewritten.get(&slot));
                if stored.is_some_and(|stored| stored.binary_search(&part.index).is_err()) {
                    missing.push(part.index);
                }
            }
            if missing.is_empty() {
                continue;
            }
            let chain = self.store.chains.get_mut(id);
            chain.remove_missing(&missing);
            if chain.parts.is_empty()
                && let Some((found, _)) = self.store.index.hash.find_slot(fragment, location)
            {
                self.store.index.hash.remove(found);
                self.store.chains.take(id);
            }
        }
        Ok(())
    }

    /// The log indexes of the entries of rewritten segments except removals, for those segments that can be
    /// read without a fault. Entries that a damaged segment lacks may be lost, and reading it will report
    /// that.
    fn scan_rewritten<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        loaded: &LoadedCheckpoint,
    ) -> EngineResult<BTreeMap<u32, Vec<u64>>> {
        let mut stored_indexes = BTreeMap::new();
        for &slot in &io.logs.separate(self.store.handle).order {
            let segment = io.logs.separate(self.store.handle).segment(slot);
            let is_of_interest = segment.header.generation > 0
                && !loaded.rows.contains_key(&slot)
                && segment.first_index() <= loaded.applied;
            let Some(file) = segment.file.filter(|_| is_of_interest) else { continue };
            let mut bytes = vec![0; segment.bytes.saturating_sub(FIRST_ENTRY_AT) as usize];
            io.disk.read_at(file, FIRST_ENTRY_AT, &mut bytes)?;
            let (mut indexes, mut is_whole) = (Vec::new(), false);
            for item in scan::items(segment.base(), &bytes, FIRST_ENTRY_AT, 0) {
                match item {
                    // A part that died may still be there as a removal, with its contents dropped.
                    ScanItem::Entry { entry, .. } if entry.head.meta.kind != EntryKind::Remove => {
                        indexes.push(entry.head.meta.index);
                    }
                    ScanItem::Entry { .. } | ScanItem::Mark { .. } => {}
                    ScanItem::Footer { .. } => is_whole = true,
                    ScanItem::Bad { .. } => {
                        is_whole = false;
                        break;
                    }
                }
            }
            if is_whole {
                stored_indexes.insert(slot, indexes);
            }
        }
        Ok(stored_indexes)
    }
}

impl PartitionStore {
    /// Loads a record of several parts, or a further piece of one. Returns whether the record is new.
    pub(crate) fn load_chain(&mut self, piece: &checkpoint::ChainPiece<'_>) -> bool {
        let same = self.index.hash.find(piece.fragment, |location| match location.decode() {
            EntryPlace::Chain(id) => {
                Ok::<_, std::convert::Infallible>(*self.chains.get(id).key == *piece.key)
            }
            EntryPlace::Entry(_) => Ok(false),
        });
        let id = match same.unwrap_or_else(|never| match never {}).map(|(_, location)| location.decode()) {
            Some(EntryPlace::Chain(id)) => id,
            _ => {
                let chain =
                    Chain::new(piece.key, Form { is_list: piece.is_list, is_chunk: piece.offsets.is_some() });
                let id = self.chains.add(chain);
                self.index.hash.insert(piece.fragment, Location::chain(id));
                id
            }
        };
        let chain = self.chains.get_mut(id);
        let first_piece = chain.parts.is_empty();
        chain.load(&piece.parts, piece.offsets.as_deref());
        if first_piece {
            chain.units = chain.units.saturating_sub(piece.skipped);
        }
        chain.skipped = if is_planted(Bug::CheckpointForgetsTrim) { 0 } else { piece.skipped };
        chain.trimmed_by = piece.trimmed_by;
        chain.applied = piece.applied;
        first_piece
    }
}
