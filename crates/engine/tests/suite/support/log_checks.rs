//! What recovery finds, compared with the model of a shared log.

use std::collections::BTreeMap;

use zerohop_engine::disk::simulated::{SimulatedDisk, SimulatedFaults};
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::log::shared::compact::LogCompaction;
use zerohop_engine::log::shared::format::{HEAD_BYTES, SharedKind};
use zerohop_engine::log::shared::live_bytes::EntryUse;
use zerohop_engine::log::shared::prefix::{LogDamage, RecoveredLog};
use zerohop_engine::log::shared::recover::{read_section, recover, resume};
use zerohop_engine::log::shared::streams::{LogPlace, LogSlot, SharedLog};
use zerohop_engine::{EngineError, EntryKind, FLAG_JOINED};

use super::log_model::{EntrySpan, LogState, LoggedEntry, UsedEntry, counted, newest_of};
use super::log_world::{LOG, LogWorld, options};

/// What an owner makes of the log that recovery has found: as far as it is not damaged.
#[derive(Default)]
pub struct RebuiltLog {
    /// All entries that are named, by index.
    entries: BTreeMap<u64, (LoggedEntry, LogPlace)>,
    /// The index up to the section: the newest entries of keys, but for some that later entries replace.
    section: BTreeMap<u8, u64>,
    /// Every entry up to this one is in the section; dead ones up to `floor` may be gone.
    commit: u64,
    floor: u64,
    /// The index of the last entry.
    last: u64,
    /// Entries that are named, and cannot be read.
    corrupt: Vec<u64>,
}

impl RebuiltLog {
    /// The index up to an entry that is not below the section.
    fn index_at(&self, end: u64) -> BTreeMap<u8, u64> {
        let mut index = self.section.clone();
        for (at, (entry, _)) in self.entries.range(self.commit + 1..end + 1) {
            if entry.is_removal {
                index.remove(&entry.key);
            } else {
                index.insert(entry.key, *at);
            }
        }
        index
    }

    /// Whether a log of these entries may look so, of which the model has committed so many.
    fn is_of(&self, log: &[LoggedEntry], commit: u64) -> bool {
        let is_index = |end: u64| {
            let mut newest = newest_of(&log[..end as usize]);
            newest.retain(|_, index| !log[*index as usize - 1].is_removal);
            newest == self.index_at(end)
        };
        log.len() as u64 == self.last
            && self.entries.iter().all(|(index, (entry, _))| log.get(*index as usize - 1) == Some(entry))
            && (self.floor + 1..=self.last).all(|index| self.entries.contains_key(&index))
            // The model may have begun another life of the partition, and committed nothing of it.
            && (commit < self.commit || is_index(commit.min(self.last)))
            && is_index(self.last)
    }

    /// The entries that may be used.
    fn uses(&self) -> BTreeMap<u64, UsedEntry> {
        let is_used = |(index, (entry, _)): &(&u64, &(LoggedEntry, LogPlace))| {
            **index > self.commit || self.section.get(&entry.key) == Some(*index)
        };
        let used = self.entries.iter().filter(is_used).map(|(index, (entry, place))| {
            let bytes = (HEAD_BYTES + super::log_model::KEY + entry.bytes) as u32;
            (*index, UsedEntry { place: *place, bytes, entry_use: EntryUse::Live })
        });
        used.collect()
    }
}

impl LogWorld {
    /// What the owner of the indexes makes of a log that was found.
    fn rebuild(&mut self, log: &SharedLog, found: &RecoveredLog) -> RebuiltLog {
        let mut rebuilt = RebuiltLog { floor: found.floor, last: found.last.1, ..RebuiltLog::default() };
        if let Some(section) = &found.section {
            rebuilt.commit = section.commit;
            let bytes = read_section(&mut self.disk, "log", section).expect("reads").expect("is sound");
            let segments = log.segments();
            for row in bytes.chunks_exact(20) {
                let word = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
                let offset = u32::from_le_bytes(row[16..].try_into().expect("4 bytes"));
                let place = LogPlace { segment: word(8), offset };
                if segments.binary_search(&place.segment).is_ok()
                    && let Some(entry) = self.read(log, word(0), place, &mut rebuilt)
                {
                    rebuilt.section.insert(entry.key, word(0));
                    rebuilt.entries.insert(word(0), (entry, place));
                }
            }
        }
        for copy in found.copies.iter().filter(|copy| copy.is_good) {
            let entry = self.read(log, copy.index, copy.place, &mut rebuilt);
            if let Some(entry) = entry.filter(|entry| !entry.is_removal)
                && rebuilt.section.get(&entry.key).is_none_or(|known| *known <= copy.index)
            {
                rebuilt.section.insert(entry.key, copy.index);
                rebuilt.entries.insert(copy.index, (entry, copy.place));
            }
        }
        for one in found.entries.iter().filter(|one| one.is_good) {
            if let Some(entry) = self.read(log, one.index, one.place, &mut rebuilt) {
                rebuilt.entries.insert(one.index, (entry, one.place));
            }
        }
        rebuilt
    }

    /// The entry at a place; `None` if it is corrupt.
    fn read(
        &mut self,
        log: &SharedLog,
        index: u64,
        place: LogPlace,
        rebuilt: &mut RebuiltLog,
    ) -> Option<LoggedEntry> {
        let mut into = Vec::new();
        let head = match log.read(&mut self.disk, place, &mut into) {
            Err(EngineError::Corrupt { .. }) => {
                rebuilt.corrupt.push(index);
                return None;
            }
            read => read.expect("can be read"),
        };
        let entry = LoggedEntry {
            epoch: head.epoch,
            stamp: head.timestamp,
            bytes: head.payload_bytes,
            is_joined: head.flags & FLAG_JOINED != 0,
            key: into[head.payload_at() - 1],
            is_removal: head.kind == SharedKind::Replicated(EntryKind::Remove),
        };
        assert_eq!(head.index, index);
        assert!(into[head.payload_at()..] == entry.payload(), "{:?} {index} is another", head.partition);
        Some(entry)
    }

    /// Recovers on a disk on which what was flushed is sound: each log is in one of its states.
    pub fn recover(&mut self) {
        self.recover_with(false);
    }

    /// Recovers. Sections may be corrupt.
    pub fn recover_with(&mut self, are_sections_corrupt: bool) {
        self.disk.set_faults(SimulatedFaults::default());
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        let mut damage = recovery.damage.clone();
        damage.retain(|damage| !(are_sections_corrupt && matches!(damage, LogDamage::Section { .. })));
        assert_eq!(damage, [], "the disk is sound");
        self.counts.rebuilt +=
            recovery.partitions.iter().filter(|one| one.section.is_none() && one.floor > 0).count();
        let found = recovery.partitions.clone();
        let (mut log, rounds, slots) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let mut recovered: BTreeMap<_, (LogSlot, RebuiltLog)> = BTreeMap::new();
        for (one, slot) in found.iter().zip(slots) {
            assert_eq!(one.seed, one.partition.0);
            let rebuilt = self.rebuild(&log, one);
            recovered.insert(one.partition, (slot, rebuilt));
        }
        (self.rounds, self.round, self.compaction) = (rounds, Vec::new(), LogCompaction::default());
        for (id, partition) in &mut self.partitions {
            let found = recovered.remove(id);
            let is_unit =
                |state: &LogState| !state.as_ref().is_some_and(|log| log.last().is_some_and(|e| e.is_joined));
            let is_it = |state: &&LogState| match (&found, state) {
                (None, None) => true,
                (Some((_, rebuilt)), Some(log)) => is_unit(state) && rebuilt.is_of(log, partition.commit),
                _ => false,
            };
            let state = partition.states.iter().find(is_it).cloned();
            let Some(state) = state else {
                let found = found.as_ref().map(|(_, rebuilt)| (rebuilt.last, rebuilt.commit, rebuilt.floor));
                let states = partition.states.iter().map(|state| state.as_ref().map(Vec::len));
                panic!("{id:?} is in none of its states: {found:?} of {:?}", states.collect::<Vec<_>>());
            };
            let last = state.as_ref().map_or(0, Vec::len) as u64;
            let is_earlier_life = found.as_ref().is_some_and(|found| found.1.commit > partition.commit);
            partition.commit = if is_earlier_life { last } else { partition.commit.min(last) };
            partition.epoch += 1;
            (partition.flushing, partition.hold) = (0, None);
            (partition.states, partition.slot) = (vec![state], found.as_ref().map(|found| found.0));
            partition.uses = found.map(|(_, rebuilt)| rebuilt.uses()).unwrap_or_default();
            let Some(slot) = partition.slot else { continue };
            for (index, used) in &partition.uses {
                log.change_use(&counted(slot, *index, used), None, Some(used.entry_use));
            }
            partition.settle(&mut log, false);
        }
        assert!(recovered.is_empty(), "no partition began {:?}", recovered.keys());
        // Removals that the sections cover are not known.
        log.end_counting(false);
        self.log = log;
        let highest = self.log.segments().last().copied();
        self.recovered_segments = highest.unwrap_or_default();
    }

    /// Corrupts bytes of what a mark proves, and recovers: all that was not hit is there.
    pub fn corrupt_and_recover(&mut self) {
        for _ in 0..2 {
            self.flush().expect("the disk is sound");
            self.log.mark().expect("the log runs");
        }
        self.flush().expect("the disk is sound");
        self.disk.power_off_clean();
        let hits = self.disk.corrupt_random(1 + self.random.below(4) as usize);
        // Most bytes are payloads of long entries, whose heads are found nonetheless.
        let targeted = self.spans.get(self.random.below(2 * self.spans.len() as u64) as usize).cloned();
        let targeted = targeted.and_then(|(segment, range)| {
            let at = range.start + self.random.below(40);
            self.disk.corrupt_at(&format!("log/{segment:016x}.log"), at, 1).ok().map(|()| (segment, at))
        });
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        let (found, damage) = (recovery.partitions.clone(), recovery.damage.clone());
        let (log, _, _) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let in_rounds = hits.iter().filter(|hit| hit.path.ends_with(".ckp")).count();
        let hits: Vec<(u64, u64)> = hits
            .iter()
            .filter_map(|hit| {
                let name = hit.path.strip_prefix("log/")?.strip_suffix(".log")?;
                Some((u64::from_str_radix(name, 16).expect("a number"), hit.offset))
            })
            .chain(targeted)
            .collect();
        let is_hit =
            |span: &EntrySpan| hits.iter().any(|(segment, at)| *segment == span.0 && span.1.contains(at));
        // Hits of creations and marks may cost more; those between header and entries cost nothing.
        let in_entries = |(segment, at): &(u64, u64)| {
            (64..4096).contains(at) || self.spans.iter().any(|span| span.0 == *segment && span.1.contains(at))
        };
        // One of two directories may become corrupt.
        let is_strict = hits.iter().all(in_entries) && in_rounds < 2;
        let hit_stamps = self.spans.iter().filter(|span| is_hit(span)).count();
        let mut lost = 0;
        for (id, partition) in self.partitions.clone() {
            let Some(state) = partition.states.last().cloned().flatten() else { continue };
            let one = found.iter().find(|one| one.partition == id);
            if one.is_none() && is_strict {
                panic!("{id:?} is gone");
            }
            let Some(one) = one else { continue };
            let is_live =
                |index: u64| partition.uses.get(&index).is_some_and(|used| used.entry_use == EntryUse::Live);
            let rebuilt = self.rebuild(&log, one);
            let entries: BTreeMap<u64, LoggedEntry> =
                rebuilt.entries.iter().map(|(index, (entry, _))| (*index, *entry)).collect();
            for (at, expected) in state.iter().enumerate() {
                let index = at as u64 + 1;
                match entries.get(&index) {
                    Some(entry) => assert_eq!(entry, expected, "{id:?} {index} is another entry"),
                    None if is_strict && is_live(index) => {
                        lost += 1;
                        let is_named = damage.iter().any(|damage| match *damage {
                            LogDamage::Missing { partition, from, through } => {
                                partition == id && (from..=through).contains(&index)
                            }
                            LogDamage::Payload { partition, index: corrupt } => {
                                partition == id && corrupt == index
                            }
                            LogDamage::Copies { .. } => true,
                            _ => false,
                        });
                        // What a section has is not read by recovery.
                        let is_corrupt = rebuilt.corrupt.contains(&index);
                        assert!(
                            is_named || is_corrupt,
                            "{id:?} {index} is missing without notice: {damage:?}"
                        );
                    }
                    None => {}
                }
            }
            assert!(!is_strict || entries.len() <= state.len(), "{id:?} has too many entries");
        }
        // A split shares entries.
        let partitions = self.partitions.len();
        assert!(lost <= hit_stamps * partitions, "{lost} entries lost by {hit_stamps} hits");
    }

    /// Corrupts the sections of all rounds, and leaves their directories.
    pub fn corrupt_sections(&mut self) {
        corrupt_sections(&mut self.disk);
    }
}

/// Corrupts the sections of all rounds, and leaves their directories.
pub fn corrupt_sections(disk: &mut SimulatedDisk) {
    for entry in disk.list("log").expect("lists") {
        let path = format!("log/{}", entry.name);
        if !entry.name.ends_with(".ckp") || entry.bytes < 24 {
            continue;
        }
        let file = disk.open(&path, OpenMode::Existing).expect("opens");
        let mut directory = [0; 8];
        disk.read_at(file, entry.bytes - 24, &mut directory).expect("reads");
        disk.close(file);
        for at in (64..u64::from_le_bytes(directory).min(entry.bytes)).step_by(20) {
            // A file that is incomplete may not be on the disk yet.
            let _ = disk.corrupt_at(&path, at, 1);
        }
    }
}
