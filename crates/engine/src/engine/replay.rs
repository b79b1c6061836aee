//! Replay of the journal: entries that only the journal holds are restored to the logs.
//!
//! There are two passes: the first collects the truncations, the second restores the entries that were not
//! truncated later. A log in its segments is never older than a truncation in the journal, since a truncation
//! is durable in the segments before it is written to the journal. If the two differ, the segments are
//! therefore right, and the journal's entries behind that position belong to an abandoned branch.

use std::collections::{BTreeMap, BTreeSet};

use super::report::RecoveryReport;
use super::{Engine, Handle, store_of};
use crate::PartitionId;
use crate::damage::{Damage, DamageKind};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{DirEntry, Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::journal::format::{self, HEADER_BYTES, JournalHeader, JournalItem, JournalRecord};
use crate::journal::{FOLDER, Journal};
use crate::log::entry::EntryMeta;
use crate::planted::{Bug, is_planted};

/// State of one replay.
#[derive(Default)]
struct Replay {
    /// Records so far, over all files.
    count: u64,
    /// For each partition: the records after which it was truncated, and the last index that stayed.
    truncations: BTreeMap<PartitionId, Vec<(u64, u64)>>,
    /// The same for truncations that were started, whether or not they were completed.
    begun: BTreeMap<PartitionId, Vec<(u64, u64)>>,
    /// Partitions whose segments have left the branch that the journal holds.
    left: BTreeSet<PartitionId>,
    /// The hash seeds of partitions, as far as the journal has them.
    seeds: BTreeMap<PartitionId, u64>,
    /// Highest log index of each partition that both the journal and the log hold.
    in_journal_and_log: BTreeMap<PartitionId, u64>,
}

impl Replay {
    /// Whether the entry of this record was not truncated by a later one.
    fn survives(&self, partition: PartitionId, index: u64) -> bool {
        let cuts = self.truncations.get(&partition).into_iter().flatten();
        !self.left.contains(&partition)
            && cuts.filter(|(at, _)| *at > self.count).all(|(_, last)| index <= *last)
    }

    /// Whether entries behind this index may be gone because a truncation was started after this record.
    fn may_be_truncated(&self, partition: PartitionId, last: u64) -> bool {
        let begun = self.begun.get(&partition).into_iter().flatten();
        begun.filter(|(at, _)| *at > self.count).any(|(_, stays)| *stays <= last)
    }

    fn record_in_both(&mut self, partition: PartitionId, index: u64) {
        let last = self.in_journal_and_log.entry(partition).or_default();
        *last = index.max(*last);
    }
}

impl<D: Disk> Engine<D> {
    /// Replays the journal, makes its entries durable in the segments, and starts a new one. Its entries of
    /// partitions that were split are in their children. Returns whether nothing is left in it.
    pub(super) fn replay_journal(
        &mut self,
        report: &mut RecoveryReport,
        gone: &BTreeSet<PartitionId>,
    ) -> EngineResult<bool> {
        let names = self.io.disk.list(FOLDER)?;
        let mut replay = Replay { left: gone.clone(), ..Replay::default() };
        for name in &names {
            if let Some((header, bytes)) = self.read_journal(name, None)? {
                for record in records(&header, &bytes).1 {
                    replay.count += 1;
                    let (cuts, partition, index) = match record {
                        JournalRecord::Truncated { partition, index } => {
                            (&mut replay.truncations, partition, index)
                        }
                        JournalRecord::TruncateStarted { partition, index } => {
                            (&mut replay.begun, partition, index)
                        }
                        JournalRecord::Entry { .. }
                        | JournalRecord::Reference { .. }
                        | JournalRecord::Seed { .. }
                        | JournalRecord::Batch { .. } => continue,
                    };
                    cuts.entry(partition).or_default().push((replay.count, index));
                }
            }
        }
        replay.count = 0;
        let mut next_number = 1;
        for name in &names {
            next_number = next_number.max(number_of(name).map_or(1, |number| number + 1));
            let Some((header, bytes)) = self.read_journal(name, Some(report))? else { continue };
            next_number = next_number.max(header.number + 1);
            let (bad, found) = records(&header, &bytes);
            report.journal.extend(bad.map(|offset| damage_at(format!("{FOLDER}/{}+{offset}", name.name))));
            for record in found {
                replay.count += 1;
                self.replay_record(&mut replay, &record, report)?;
            }
        }
        self.io.disk.reached(CrashPoint::RecoveryJournalRead);
        self.journal =
            Journal::new(self.options.journal_file_bytes, self.io.space.file_bytes_max(), next_number);
        if !self.sync_replayed(&replay)? {
            return self.retain_journal(&names, &replay).map(|()| false);
        }
        for name in &names {
            self.io.disk.remove(&format!("{FOLDER}/{}", name.name))?;
            self.io.disk.sync_dir(FOLDER)?;
        }
        Ok(true)
    }

    /// Makes all logs durable. Returns whether there was room for it; if not, maintenance tries again.
    fn sync_replayed(&mut self, replay: &Replay) -> EngineResult<bool> {
        let mut has_room = true;
        for (number, store) in self.partitions.iter_mut().enumerate() {
            let Some(store) = store else { continue };
            let (log, mut io) = self.io.writable_separate(store.handle);
            match log.sync(&mut io) {
                Ok(()) => store.journaled = log.last.1,
                Err(error) if error.is_out_of_space() => {
                    has_room = false;
                    store.journaled =
                        replay.in_journal_and_log.get(&store.id.partition).copied().unwrap_or(0);
                    store.is_dirty = true;
                    self.maintenance.sync_later(Handle(number as u32), store.durability.sync_after_ms());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(has_room)
    }

    /// The disk is full: the entries stay in the journal until the segments hold them durably.
    fn retain_journal(&mut self, names: &[DirEntry], replay: &Replay) -> EngineResult<()> {
        let holds = |(partition, &index)| self.by_id.get(partition).map(|handle| (handle.0, index));
        let holds: BTreeMap<u32, u64> = replay.in_journal_and_log.iter().filter_map(holds).collect();
        for name in names {
            self.journal.add_old_file(&mut self.io.disk, name, holds.clone())?;
        }
        // A replay of the same files must not follow the abandoned branches.
        for partition in &replay.left {
            if let Some(handle) = self.by_id.get(partition)
                && store_of(&mut self.partitions, *handle).is_ok()
            {
                self.journal.push_truncated(handle.0, *partition, self.io.logs.separate(handle.0).last.1);
            }
        }
        Ok(())
    }

    /// Reads a file. `None` if it holds no records: the power failed just after the file was made. A corrupt
    /// header is reported; its contents are known from the file's name.
    fn read_journal(
        &mut self,
        name: &DirEntry,
        report: Option<&mut RecoveryReport>,
    ) -> EngineResult<Option<(JournalHeader, Vec<u8>)>> {
        let path = format!("{FOLDER}/{}", name.name);
        let file = self.io.disk.open(&path, OpenMode::Existing)?;
        let mut bytes = vec![0; name.bytes as usize];
        let read = self.io.disk.read_at(file, 0, &mut bytes);
        self.io.disk.close(file);
        read?;
        match JournalHeader::decode(&bytes) {
            Ok(header) => Ok(Some((header, bytes))),
            Err(reason) if reason.contains("not known here") => Err(EngineError::Format { path, reason }),
            Err(_) if bytes.len() <= HEADER_BYTES => Ok(None),
            Err(reason) => {
                if let Some(report) = report {
                    report.journal.push(damage_at(format!("{path}: {reason}")));
                }
                Ok(number_of(name).map(|number| (JournalHeader::new(number), bytes)))
            }
        }
    }

    fn replay_record(
        &mut self,
        replay: &mut Replay,
        record: &JournalRecord<'_>,
        report: &mut RecoveryReport,
    ) -> EngineResult<()> {
        match *record {
            JournalRecord::Entry { partition, meta, key, payload }
                if replay.survives(partition, meta.index) =>
            {
                self.replay_entry(replay, partition, &meta, (key, payload), report)
            }
            JournalRecord::Reference { partition, meta, .. } if replay.survives(partition, meta.index) => {
                self.replay_reference(replay, partition, &meta, report)
            }
            JournalRecord::Seed { partition, seed } => {
                replay.seeds.insert(partition, seed);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn replay_entry(
        &mut self,
        replay: &mut Replay,
        partition: PartitionId,
        meta: &EntryMeta,
        (key, payload): (&[u8], &[u8]),
        report: &mut RecoveryReport,
    ) -> EngineResult<()> {
        let handle = match self.by_id.get(&partition) {
            Some(&handle) => handle,
            None => {
                let found = self.recover_partition(partition)?;
                report.partitions.push((partition, found));
                self.by_id[&partition]
            }
        };
        let (last_epoch, last) = self.io.logs.separate(handle.0).last;
        if meta.index <= last {
            if self.has_other_entry(partition, meta)? {
                replay.left.insert(partition);
            } else {
                replay.record_in_both(partition, meta.index);
            }
            return Ok(());
        }
        if meta.epoch < last_epoch {
            replay.left.insert(partition);
            return Ok(());
        }
        if meta.index > last + 1 {
            let ends_cleanly = ends_cleanly(partition, report) && report.journal.is_empty();
            if ends_cleanly || replay.may_be_truncated(partition, last) {
                replay.left.insert(partition);
                return Ok(());
            }
            self.report_missing(partition, last + 1, meta.index - 1, report)?;
        }
        let (io, store) = self.store(handle)?;
        if let Some(&seed) = replay.seeds.get(&partition)
            && store.names_no_seed(&io.logs)
            && !is_planted(Bug::KeyHashSeedIgnored)
        {
            // Only the journal has entries of this log.
            store.id.index_seed = seed;
        }
        let placed = store.append(io, meta, key, [payload])?;
        store.recent.push(meta, placed);
        replay.record_in_both(partition, meta.index);
        if let Some((_, found)) = report.partitions.iter_mut().find(|(id, _)| *id == partition) {
            found.from_journal += 1;
        }
        Ok(())
    }

    /// An entry that is in its segment, which was synced before the journal was.
    fn replay_reference(
        &mut self,
        replay: &mut Replay,
        partition: PartitionId,
        meta: &EntryMeta,
        report: &mut RecoveryReport,
    ) -> EngineResult<()> {
        let last = match self.by_id.get(&partition) {
            Some(&handle) => self.io.logs.separate(handle.0).last.1,
            None => 0,
        };
        if meta.index <= last {
            if self.has_other_entry(partition, meta)? {
                replay.left.insert(partition);
            }
            return Ok(());
        }
        // The entries there cannot be read any more, unless they were truncated.
        replay.left.insert(partition);
        if !ends_cleanly(partition, report) && !replay.may_be_truncated(partition, last) {
            self.report_missing(partition, last + 1, meta.index, report)?;
        }
        Ok(())
    }

    /// Whether the log has another entry at this position.
    fn has_other_entry(&mut self, partition: PartitionId, meta: &EntryMeta) -> EngineResult<bool> {
        let Some(&handle) = self.by_id.get(&partition) else { return Ok(false) };
        let (io, store) = self.store(handle)?;
        if meta.index <= store.commit {
            return Ok(false);
        }
        match io.logs.separate(store.handle).epoch_at(&mut io.disk, meta.index) {
            Ok(epoch) => Ok(epoch.is_some_and(|epoch| epoch != meta.epoch)),
            // The entry is there, and its corruption is reported.
            Err(EngineError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn report_missing(
        &mut self,
        partition: PartitionId,
        from: u64,
        through: u64,
        report: &mut RecoveryReport,
    ) -> EngineResult<()> {
        let kind = DamageKind::Missing { from, through };
        let damage = Damage { partition, kind, place: "the journal".into() };
        if let Some(&handle) = self.by_id.get(&partition) {
            self.store(handle)?.1.damage.push(damage.clone());
        }
        if let Some((_, found)) = report.partitions.iter_mut().find(|(id, _)| *id == partition) {
            found.damage.push(damage);
        }
        Ok(())
    }
}

/// The valid records of a file up to its torn end, and the position of bad bytes that are known to have been
/// synced.
fn records<'a>(header: &JournalHeader, bytes: &'a [u8]) -> (Option<u64>, Vec<JournalRecord<'a>>) {
    let (mut found, mut bad, mut synced) = (Vec::new(), Vec::new(), 0);
    for item in format::items(header.salt, &bytes[HEADER_BYTES..]) {
        match item {
            JournalItem::Record(record) => {
                if let JournalRecord::Batch { synced_bytes } = record {
                    synced = synced.max(synced_bytes);
                }
                found.push(record);
            }
            JournalItem::Bad { offset, .. } => bad.push((offset, found.len())),
        }
    }
    // Torn: nothing behind it was acknowledged.
    if let Some((_, good)) = bad.iter().find(|(offset, _)| *offset >= synced) {
        found.truncate(*good);
    }
    (bad.first().map(|(offset, _)| *offset).filter(|offset| *offset < synced), found)
}

/// Whether recovery removed nothing from the end of a partition's log. If entries are missing then, the log
/// was being truncated, and the power failed before the journal had the truncation.
fn ends_cleanly(partition: PartitionId, report: &RecoveryReport) -> bool {
    report.partitions.iter().all(|(id, found)| *id != partition || found.torn_bytes == 0)
}

fn number_of(name: &DirEntry) -> Option<u64> {
    u64::from_str_radix(name.name.strip_suffix(".jnl")?, 16).ok()
}

fn damage_at(place: String) -> Damage {
    Damage { partition: PartitionId(0), kind: DamageKind::Journal, place }
}
