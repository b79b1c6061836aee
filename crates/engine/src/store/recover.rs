//! Bringing a partition back from its files.
//!
//! ```text
//!   newest good checkpoint ──> index, side table
//!   segments it does not cover ──> entries, in log order ──> applied up to the known commit, the rest pending
//!   a bad spot: known to have been synced? ──> rot: reported, and reading goes on behind it
//!                                     else ──> torn: the log ends there
//! ```
//!
//! What is known to have been synced is what a mark or a checkpoint that was written later says. A bad spot that no
//! one vouches for is what a crash leaves of unsynced bytes, even if good entries happen to follow it.

use std::collections::BTreeMap;

use super::{Pending, Store};
use crate::checkpoint::{self, Block, SegmentRow};
use crate::disk::{DirEntry, Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::index::location::{Location, Place};
use crate::io::Io;
use crate::limits::{BLOCK_BYTES, SEGMENT_FILE_BYTES_MAX};
use crate::log::entry::Meta;
use crate::log::header::{self, Footer, HEADER_BYTES, Header, TRAILER_BYTES};
use crate::log::scan::{self, Item};
use crate::log::segment::Segment;
use crate::log::{FIRST_ENTRY_AT, Placed};
use crate::side::chains::Chain;
use crate::{Damage, DamageKind, PartitionId};

/// What a recovery did to one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionReport {
    /// Entries taken from the checkpoint.
    pub from_checkpoint: u64,
    /// Entries read from the log behind it.
    pub from_log: u64,
    /// Entries taken from the journal.
    pub from_journal: u64,
    /// Bytes of a torn tail that were cut off.
    pub torn_bytes: u64,
    /// What is rotten or missing.
    pub damage: Vec<Damage>,
}

/// A bad spot that nobody vouches for yet.
struct Doubt {
    /// The first log index that may be lost there.
    index: u64,
    slot: u32,
    offset: u64,
    damage: Vec<Damage>,
}

/// State of one recovery.
struct Recovery<'a> {
    store: &'a mut Store,
    report: PartitionReport,
    /// Everything up to this log index was synced.
    synced: u64,
    /// Everything up to this log index was committed.
    commit: u64,
    doubt: Option<Doubt>,
}

impl Store {
    /// Reads the partition's folder into this empty store.
    pub(crate) fn recover<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<PartitionReport> {
        let names = io.disk.list(&self.log.folder)?;
        if names.is_empty() {
            return Ok(PartitionReport::default());
        }
        for name in names.iter().filter(|n| n.name.ends_with(".tmp")) {
            io.disk.remove(&format!("{}/{}", self.log.folder, name.name))?;
        }
        let mut recovery =
            Recovery { store: self, report: PartitionReport::default(), synced: 0, commit: 0, doubt: None };
        let rewritten_at = recovery.open_segments(io, &names)?;
        let rows = recovery.load_checkpoint(io, &names)?;
        recovery.commit = recovery.commit.max(rewritten_at);
        recovery.read_log(io, &rows)?;
        recovery.settle(io)?;
        recovery.forget_missing_parts(io, &rows)?;
        let report = recovery.report;
        self.damage = report.damage.clone();
        Ok(report)
    }
}

impl Recovery<'_> {
    fn partition(&self) -> PartitionId {
        self.store.log.partition
    }

    fn damage(&mut self, kind: DamageKind, place: String) {
        let partition = self.partition();
        self.report.damage.push(Damage { partition, kind, place });
    }

    /// Opens the segment files, drops those that a rewritten one replaces, and puts them in order. Returns the
    /// highest commit index at which one was rewritten.
    fn open_segments<D: Disk>(&mut self, io: &mut Io<D>, names: &[DirEntry]) -> EngineResult<u64> {
        let mut found: BTreeMap<(u64, u32), Segment> = BTreeMap::new();
        let mut headless = Vec::new();
        for name in names.iter().filter(|n| n.name.ends_with(".seg")) {
            let path = format!("{}/{}", self.store.log.folder, name.name);
            let Some((first, generation)) = parse_name(&name.name) else {
                return Err(EngineError::Format { path, reason: "not the name of a segment file".into() });
            };
            if name.bytes > SEGMENT_FILE_BYTES_MAX {
                return Err(EngineError::Format {
                    path,
                    reason: format!("{} bytes are too many", name.bytes),
                });
            }
            match self.open_segment(io, &path, name.bytes, (first, generation))? {
                Some(segment) => drop(found.insert((first, generation), segment)),
                None => headless.push((first, generation, path, name.bytes)),
            }
        }
        self.drop_replaced(io, &mut found)?;
        self.judge_headless(io, &found, headless)?;
        let mut rewritten_at = 0;
        for (_, mut segment) in found {
            rewritten_at = rewritten_at.max(segment.header.compacted_at);
            if segment.header.generation > 0 {
                self.synced = self.synced.max(segment.header.covers_through);
                segment.sealed = true;
            }
            self.store.log.index_seed = segment.header.index_seed;
            let slot = self.store.log.add_slot(segment)?;
            self.store.log.order.push(slot);
        }
        Ok(rewritten_at)
    }

    fn open_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        path: &str,
        bytes: u64,
        (first, generation): (u64, u32),
    ) -> EngineResult<Option<Segment>> {
        let file = io.disk.open(path, OpenMode::Existing)?;
        let mut head = vec![0; HEADER_BYTES.min(bytes as usize)];
        io.disk.read_at(file, 0, &mut head)?;
        let partition = self.partition();
        let is_it =
            |h: &Header| h.partition == partition && h.base.index == first && h.generation == generation;
        let header = match Header::decode(&head) {
            Ok(header) if is_it(&header) => Some(header),
            Ok(_) => {
                let reason = "its header names another partition or place: was it copied here?".into();
                return Err(EngineError::Format { path: path.into(), reason });
            }
            // A newer format is not damage.
            Err(reason) if reason.contains("not known here") => {
                return Err(EngineError::Format { path: path.into(), reason });
            }
            Err(_) => {
                let mut whole = vec![0; bytes as usize];
                io.disk.read_at(file, 0, &mut whole)?;
                header::find_copy(&whole, is_it)
            }
        };
        let Some(header) = header else {
            io.disk.close(file);
            return Ok(None);
        };
        let mut segment = Segment::found(header, path.into(), file, bytes);
        segment.last_index = header.covers_through.max(header.base.index - 1);
        Ok(Some(segment))
    }

    /// A rewritten segment stands for all older generations of its range.
    fn drop_replaced<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        found: &mut BTreeMap<(u64, u32), Segment>,
    ) -> EngineResult<()> {
        let covers: Vec<(u64, u64, u32)> = found
            .values()
            .filter(|s| s.header.generation > 0)
            .map(|s| (s.first_index(), s.header.covers_through, s.header.generation))
            .collect();
        let is_replaced = |&(first, generation): &(u64, u32)| {
            covers.iter().any(|&(from, through, g)| first >= from && first <= through && generation < g)
        };
        let gone: Vec<(u64, u32)> = found.keys().copied().filter(is_replaced).collect();
        for key in gone {
            if let Some(segment) = found.remove(&key) {
                segment.file.into_iter().for_each(|file| io.disk.close(file));
                io.disk.remove(&segment.path)?;
            }
        }
        Ok(())
    }

    /// A file without a readable header is what a crash leaves of one just begun if it is the last; otherwise its
    /// entries are lost.
    fn judge_headless<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        found: &BTreeMap<(u64, u32), Segment>,
        headless: Vec<(u64, u32, String, u64)>,
    ) -> EngineResult<()> {
        for (first, generation, path, bytes) in headless {
            let next = found.range((first + 1, 0)..).next().map(|(&(next, _), _)| next);
            match next {
                None if generation == 0 => {
                    self.report.torn_bytes += bytes;
                    io.disk.remove(&path)?;
                }
                _ => {
                    let through = next.map_or(first, |n| n - 1);
                    self.damage(DamageKind::Missing { from: first, through }, path);
                }
            }
        }
        Ok(())
    }

    /// Loads the newest good checkpoint. Returns its rows of segments, by slot of this log.
    fn load_checkpoint<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        names: &[DirEntry],
    ) -> EngineResult<BTreeMap<u32, SegmentRow>> {
        let mut rows = BTreeMap::new();
        let mut loaded = None;
        for name in names.iter().rev().filter(|n| n.name.ends_with(".ckp")) {
            let path = format!("{}/{}", self.store.log.folder, name.name);
            let file = io.disk.open(&path, OpenMode::Existing)?;
            let mut bytes = vec![0; name.bytes as usize];
            let read = io.disk.read_at(file, 0, &mut bytes);
            io.disk.close(file);
            read?;
            if loaded.is_some() {
                // Not needed now, and not read: it stands in for the newer one should that rot.
                if let Ok(header) = checkpoint::Header::decode(&bytes) {
                    self.store.checkpoints.kept.push_front((header.commit, name.bytes));
                }
                continue;
            }
            match self.load(&bytes) {
                Ok((header, found)) => {
                    rows = found;
                    loaded = Some(header);
                    self.store.checkpoints.kept.push_front((header.commit, name.bytes));
                }
                Err(reason) if reason.contains("not known here") => {
                    return Err(EngineError::Format { path, reason });
                }
                Err(reason) => {
                    self.store.index = Default::default();
                    self.store.chains = Default::default();
                    self.report.from_checkpoint = 0;
                    self.damage(DamageKind::Checkpoint, format!("{path}: {reason}"));
                    // It would stand in the way of a good one of the same name.
                    io.disk.remove(&path)?;
                }
            }
        }
        if let Some(header) = loaded {
            self.store.log.index_seed = header.index_seed;
            self.store.log.last = (header.epoch, header.commit);
            self.store.commit = header.commit;
            self.commit = header.commit;
            self.synced = self.synced.max(header.commit);
        }
        Ok(rows)
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(checkpoint::Header, BTreeMap<u32, SegmentRow>), String> {
        let header = checkpoint::Header::decode(bytes)?;
        if header.partition != self.partition() {
            return Err("it is another partition's".into());
        }
        let mut table = Vec::new();
        let mut samples = BTreeMap::new();
        // Two passes: the rows that locations are read by stand at the end. The first checks every block.
        let mut counts = (0, 0);
        checkpoint::read_blocks(header.salt(), bytes, |block| {
            match block {
                Block::Segments(rows) => table = rows,
                Block::Samples { slot, samples: pairs } => drop(samples.insert(slot, pairs)),
                Block::Entries(entries) => counts.0 += entries.len() as u64,
                Block::Chain(_) => counts.1 += 1,
                Block::Extra(_) => {}
                Block::End { entries, chains, .. } if counts != (entries, chains) => {
                    return Err("its end block counts other entries".into());
                }
                Block::End { .. } => {}
            }
            Ok(())
        })?;
        let (slots, rows) = self.match_rows(&table, &mut samples);
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
        Ok((header, rows))
    }

    /// Which of the checkpoint's segments are here as they were: slot by slot, and their rows.
    fn match_rows(
        &mut self,
        table: &[SegmentRow],
        samples: &mut BTreeMap<u32, Vec<(u32, u32)>>,
    ) -> (BTreeMap<u32, u32>, BTreeMap<u32, SegmentRow>) {
        let (mut slots, mut rows) = (BTreeMap::new(), BTreeMap::new());
        for slot in self.store.log.order.clone() {
            let segment = self.store.log.segment_mut(slot);
            let is_same = |r: &&SegmentRow| {
                r.first_index == segment.first_index()
                    && r.generation == segment.header.generation
                    && r.file_bytes <= segment.bytes
            };
            let Some(row) = table.iter().find(is_same) else { continue };
            segment.dead_bytes = row.dead_bytes;
            segment.removal_bytes = row.removal_bytes;
            if let Some(samples) = samples.remove(&row.slot) {
                segment.adopt_samples(samples);
            }
            slots.insert(row.slot, slot);
            rows.insert(slot, *row);
        }
        (slots, rows)
    }

    fn load_entry(&mut self, slots: &BTreeMap<u32, u32>, fragment: u32, location: Location) {
        let Place::Entry(position) = location.place() else { return };
        // An entry of a segment that was rewritten since is found again when that is read.
        if let Some(&slot) = slots.get(&position.slot) {
            self.store.index.insert(fragment, location.in_slot(slot));
            self.report.from_checkpoint += 1;
        }
    }

    fn load_chain(&mut self, piece: &checkpoint::ChainPiece<'_>) {
        let same = self.store.index.find(piece.fragment, |location| match location.place() {
            Place::Chain(id) => {
                Ok::<_, std::convert::Infallible>(*self.store.chains.get(id).key == *piece.key)
            }
            Place::Entry(_) => Ok(false),
        });
        let id = match same.unwrap_or_else(|never| match never {}).map(|(_, location)| location.place()) {
            Some(Place::Chain(id)) => id,
            _ => {
                let chain = Chain { key: piece.key.into(), is_list: piece.is_list, ..Chain::default() };
                let id = self.store.chains.add(chain);
                self.store.index.insert(piece.fragment, Location::chain(id));
                self.report.from_checkpoint += 1;
                id
            }
        };
        let chain = self.store.chains.get_mut(id);
        let first_piece = chain.parts.is_empty();
        piece.parts.iter().for_each(|&part| chain.push(part));
        if first_piece {
            chain.units = chain.units.saturating_sub(piece.skipped);
        }
        chain.skipped = piece.skipped;
        chain.trimmed_by = piece.trimmed_by;
        chain.applied = piece.applied;
    }

    /// Reads every segment, or the part of it, that the checkpoint does not cover.
    fn read_log<D: Disk>(&mut self, io: &mut Io<D>, rows: &BTreeMap<u32, SegmentRow>) -> EngineResult<()> {
        let order = self.store.log.order.clone();
        for (at, &slot) in order.iter().enumerate() {
            let is_last = at + 1 == order.len();
            match rows.get(&slot) {
                Some(row) if row.last_index <= self.store.commit && row.resume_at >= row.file_bytes => {
                    let covered = self.adopt_covered(io, slot, row, is_last)?;
                    if !covered {
                        self.read_segment(io, slot, row.resume_at.max(FIRST_ENTRY_AT), is_last)?;
                    }
                }
                Some(row) => self.read_segment(io, slot, row.resume_at.max(FIRST_ENTRY_AT), is_last)?,
                None => self.read_segment(io, slot, FIRST_ENTRY_AT, is_last)?,
            }
        }
        Ok(())
    }

    /// A sealed segment that the checkpoint covers is not read: its footer tells what is needed.
    fn adopt_covered<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        row: &SegmentRow,
        is_last: bool,
    ) -> EngineResult<bool> {
        let last_epoch = self.store.log.last.0;
        let segment = self.store.log.segment_mut(slot);
        match read_footer(io, segment)? {
            Some(footer) if footer.last_index == row.last_index => {
                segment.adopt_footer(footer);
                self.continue_at(segment_end(self.store, slot));
                Ok(true)
            }
            _ if row.generation > 0 => {
                // A rewritten file always had its footer: it is read in full to mend what the footer told.
                self.read_segment(io, slot, FIRST_ENTRY_AT, is_last)?;
                Ok(true)
            }
            _ => {
                segment.last_index = row.last_index;
                segment.last_epoch = last_epoch;
                Ok(false)
            }
        }
    }

    fn continue_at(&mut self, (epoch, index): (u32, u64)) {
        if index > self.store.log.last.1 {
            self.store.log.last = (epoch, index);
        }
    }

    fn read_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        from: u64,
        is_last: bool,
    ) -> EngineResult<()> {
        let segment = self.store.log.segment(slot);
        let Some(file) = segment.file else { return Ok(()) };
        let base = *segment.base();
        if from == FIRST_ENTRY_AT {
            self.store.log.segment_mut(slot).forget_notes();
        }
        let segment = self.store.log.segment(slot);
        // From a block's beginning, so that whole blocks can stay in memory.
        let begin = from - from % BLOCK_BYTES as u64;
        let mut bytes = vec![0; (segment.bytes.max(begin) - begin) as usize];
        io.disk.read_at(file, begin, &mut bytes)?;
        let tail = bytes.get((from - begin) as usize..).unwrap_or(&[]);
        for item in scan::items(&base, tail, from) {
            if let Item::Mark { mark, .. } = item {
                self.synced = self.synced.max(mark.synced);
                self.commit = self.commit.max(mark.commit);
            }
        }
        let mut end = from;
        let mut is_clean = true;
        for item in scan::items(&base, tail, from) {
            match item {
                Item::Entry { offset, entry, payload_is_good } => {
                    let meta = entry.head.meta;
                    is_clean &= payload_is_good;
                    end = offset + entry.head.entry_bytes() as u64;
                    let placed =
                        Placed { slot, offset: offset as u32, entry_bytes: entry.head.entry_bytes() };
                    self.take_entry(io, placed, &meta, entry.key, entry.payload, payload_is_good)?;
                }
                Item::Mark { end: mark_end, .. } => end = mark_end,
                Item::Footer { offset, footer } => {
                    let (last_epoch, last_index) = (footer.last_epoch, footer.last_index);
                    let log = &mut self.store.log;
                    log.segment_mut(slot).adopt_footer(footer);
                    // A rewritten segment may end with less than it covers.
                    self.continue_at((last_epoch, last_index));
                    end = self.store.log.segment(slot).bytes.max(offset);
                }
                Item::Bad { offset, more_follows } => {
                    is_clean = false;
                    // At the end of a segment the next one's first index tells whether anything is missing; at the
                    // end of the last, only what is known to have been synced can be.
                    let is_an_end = !more_follows && (!is_last || self.store.log.last.1 >= self.synced);
                    if !is_an_end {
                        self.bad_spot(slot, offset, self.store.log.last.1 + 1);
                    }
                }
            }
        }
        self.keep_in_memory(io, slot, begin, bytes, is_clean);
        self.end_segment(io, slot, end, is_last)?;
        self.apply_known(io)
    }

    /// Somebody may vouch for what stood here; then it is rot, otherwise the log ends here.
    fn bad_spot(&mut self, slot: u32, offset: u64, index: u64) {
        let place = format!("{}+{offset}", self.store.log.segment(slot).path);
        let damage =
            Damage { partition: self.partition(), kind: DamageKind::Unreadable { after: index - 1 }, place };
        self.suspect(slot, offset, index, damage);
    }

    fn suspect(&mut self, slot: u32, offset: u64, index: u64, damage: Damage) {
        self.store.log.segment_mut(slot).is_damaged = true;
        match &mut self.doubt {
            Some(doubt) => doubt.damage.push(damage),
            None if index <= self.synced => self.report.damage.push(damage),
            None => self.doubt = Some(Doubt { index, slot, offset, damage: vec![damage] }),
        }
    }

    fn take_entry<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        placed: Placed,
        meta: &Meta,
        key: &[u8],
        payload: &[u8],
        payload_is_good: bool,
    ) -> EngineResult<()> {
        let slot = placed.slot;
        let is_rewritten = self.store.log.segment(slot).header.generation > 0;
        let last = self.store.log.last;
        self.store.log.segment_mut(slot).note(meta, u64::from(placed.offset), placed.entry_bytes);
        if !payload_is_good {
            let place = format!("{}+{}", self.store.log.segment(slot).path, placed.offset);
            let kind = DamageKind::Entry { index: meta.index, key: key.to_vec() };
            let damage = Damage { partition: self.partition(), kind, place };
            self.suspect(slot, u64::from(placed.offset), meta.index, damage);
        }
        if !is_rewritten && meta.index > last.1 + 1 && last.1 > 0 && self.doubt.is_none() {
            let place = self.store.log.segment(slot).path.clone();
            let kind = DamageKind::Missing { from: last.1 + 1, through: meta.index - 1 };
            let is_known = self.report.damage.iter().any(|d| {
                matches!(d.kind,
                DamageKind::Unreadable { after } if after == last.1)
                    || matches!(d.kind, DamageKind::Missing { from, .. } if from == last.1 + 1)
            });
            if !is_known {
                let damage = Damage { partition: self.partition(), kind, place };
                self.suspect(slot, u64::from(placed.offset), last.1 + 1, damage);
            }
        }
        self.report.from_log += 1;
        if meta.index > last.1 {
            self.store.log.last = (meta.epoch, meta.index);
        }
        if self.doubt.is_none() && meta.index <= self.commit && self.store.pending.is_empty() {
            let units = super::units_of(meta.kind, meta.flags, payload);
            self.store.apply(io, meta, placed, key, payload, units)?;
            self.store.commit = self.store.commit.max(meta.index);
        } else if meta.index > self.store.commit {
            self.store.pending.push_back(Pending { meta: *meta, placed });
        }
        Ok(())
    }

    /// Blocks that were read and found good stay in memory; older ones are given back as the budget asks.
    fn keep_in_memory<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        begin: u64,
        bytes: Vec<u8>,
        is_clean: bool,
    ) {
        if !is_clean || !begin.is_multiple_of(BLOCK_BYTES as u64) {
            return;
        }
        let handle = self.store.log.handle;
        let first = begin as usize / BLOCK_BYTES;
        for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
            if io.memory.is_over() {
                return;
            }
            // The first may hold entries that were not checked now.
            if n == 0 && begin > 0 {
                continue;
            }
            let taken = self.store.log.segment_mut(slot).install(first + n, block.to_vec());
            io.memory.took(taken);
            io.memory.evictable.push_back((handle, slot, (first + n) as u32));
        }
    }

    /// Cuts what stands behind the last good entry of the last segment, and makes it ready to go on.
    fn end_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        end: u64,
        is_last: bool,
    ) -> EngineResult<()> {
        let segment = self.store.log.segment_mut(slot);
        if !is_last {
            segment.sealed = true;
            return Ok(());
        }
        if segment.sealed || self.doubt.is_some() {
            return Ok(());
        }
        if end < segment.bytes {
            self.report.torn_bytes += segment.bytes - end;
            let last = (segment.last_epoch, segment.last_index);
            let freed = segment.cut(&mut io.disk, end, last)?;
            io.memory.freed(freed);
        }
        let taken = self.store.log.segment_mut(slot).load_open_block(&mut io.disk)?;
        io.memory.took(taken);
        Ok(())
    }

    /// Applies pending entries that are known to be committed and stand before any doubt.
    fn apply_known<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        if let Some(doubt) = self.doubt.take_if(|d| d.index <= self.synced) {
            self.report.damage.extend(doubt.damage);
        }
        let through = self.doubt.as_ref().map_or(self.commit, |d| self.commit.min(d.index - 1));
        self.store.commit(io, through)
    }

    /// What is still in doubt is a torn tail: the log ends before it.
    fn settle<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let log = &mut self.store.log;
        let last = log.last;
        log.set_end(last);
        if let Some(doubt) = self.doubt.take() {
            self.cut_at_doubt(io, &doubt)?;
        }
        // A process may have died with bytes only in the system's cache: they count as durable only from here on.
        for at in 0..self.store.log.order.len() {
            let slot = self.store.log.order[at];
            let segment = self.store.log.segment_mut(slot);
            segment.synced_index = segment.last_index;
            if segment.last_index > self.synced || !segment.sealed {
                segment.synced = 0;
            }
        }
        self.store.log.sync(io)?;
        io.disk.sync_dir(&self.store.log.folder)?;
        self.store.commit(io, self.commit)
    }

    fn cut_at_doubt<D: Disk>(&mut self, io: &mut Io<D>, doubt: &Doubt) -> EngineResult<()> {
        let keep = doubt.index - 1;
        while self.store.pending.back().is_some_and(|p| p.meta.index > keep) {
            self.store.pending.pop_back();
            self.report.from_log -= 1;
        }
        while let Some(&slot) = self.store.log.order.last().filter(|&&s| s != doubt.slot) {
            self.report.torn_bytes += self.store.log.segment(slot).bytes;
            self.drop_last_segment(io)?;
        }
        let epoch = match self.store.pending.back() {
            Some(pending) => pending.meta.epoch,
            None if keep == self.store.commit => {
                self.store.log.epoch_at(io, keep)?.unwrap_or(self.store.log.last.0)
            }
            None => 0,
        };
        let segment = self.store.log.segment_mut(doubt.slot);
        segment.is_damaged = false;
        self.report.torn_bytes += segment.bytes - doubt.offset;
        if segment.first_index() > keep {
            self.drop_last_segment(io)?;
            self.store.log.set_end((epoch, keep));
            return Ok(());
        }
        let freed = segment.cut(&mut io.disk, doubt.offset, (epoch, keep))?;
        io.memory.freed(freed);
        let taken = self.store.log.segment_mut(doubt.slot).load_open_block(&mut io.disk)?;
        io.memory.took(taken);
        self.store.log.set_end((epoch, keep));
        Ok(())
    }

    fn drop_last_segment<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let Some(slot) = self.store.log.order.pop() else { return Ok(()) };
        if let Some(segment) = self.store.log.drop_slot(io, slot) {
            segment.file.into_iter().for_each(|file| io.disk.close(file));
            io.disk.remove(&segment.path)?;
            io.disk.sync_dir(&self.store.log.folder)?;
        }
        Ok(())
    }

    /// Parts that the checkpoint names may be gone if their segment was rewritten since, and with them the removal
    /// that ended their record: then they do not count.
    fn forget_missing_parts<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        rows: &BTreeMap<u32, SegmentRow>,
    ) -> EngineResult<()> {
        let mut doubtful = Vec::new();
        let mut from = Some(0);
        while let Some(fragment) = from {
            let (entries, next) = self.store.index.page_entries(fragment);
            doubtful.extend(entries.filter_map(|(f, l)| match l.place() {
                Place::Chain(id) => Some((f, l, id)),
                Place::Entry(_) => None,
            }));
            from = next;
        }
        for (fragment, location, id) in doubtful {
            let mut missing = Vec::new();
            for part in &self.store.chains.get(id).parts {
                let slot = self.store.log.order_of(part.index).map(|at| self.store.log.order[at]);
                let is_as_it_was = slot.is_some_and(|slot| rows.contains_key(&slot));
                if !is_as_it_was && self.store.log.locate(io, part.index)?.is_none() {
                    missing.push(part.index);
                }
            }
            if missing.is_empty() {
                continue;
            }
            let chain = self.store.chains.get_mut(id);
            chain.forget(&missing);
            if chain.parts.is_empty()
                && let Some((found, _)) = self.store.index.find_place(fragment, location)
            {
                self.store.index.remove(found);
                self.store.chains.take(id);
            }
        }
        Ok(())
    }
}

fn segment_end(store: &Store, slot: u32) -> (u32, u64) {
    let segment = store.log.segment(slot);
    (segment.last_epoch, segment.last_index)
}

fn read_footer<D: Disk>(io: &mut Io<D>, segment: &Segment) -> EngineResult<Option<Footer>> {
    let (Some(file), Some(at)) = (segment.file, segment.bytes.checked_sub(TRAILER_BYTES as u64)) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES];
    io.disk.read_at(file, at, &mut trailer)?;
    let Some((footer_at, bytes)) = header::decode_trailer(segment.base().salt, &trailer) else {
        return Ok(None);
    };
    if u64::from(footer_at) + u64::from(bytes) > at {
        return Ok(None);
    }
    let mut entry = vec![0; bytes as usize];
    io.disk.read_at(file, u64::from(footer_at), &mut entry)?;
    Ok(match scan::items(segment.base(), &entry, u64::from(footer_at)).next() {
        Some(Item::Footer { footer, .. }) => Some(footer),
        _ => None,
    })
}

fn parse_name(name: &str) -> Option<(u64, u32)> {
    let (first, generation) = name.strip_suffix(".seg")?.split_once('-')?;
    let is_plain = first.len() == 16 && generation.len() == 8;
    let parsed = (u64::from_str_radix(first, 16).ok()?, u32::from_str_radix(generation, 16).ok()?);
    (is_plain && parsed.0 > 0).then_some(parsed)
}
