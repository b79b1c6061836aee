//! The longest prefix of a partition's log, from entries that were found in any order.

use std::collections::BTreeMap;

use super::creations::{Ancestor, Creations};
use super::format::{LogPartition, LogStream, SharedHead, SharedKind};
use super::local::{Creation, MarkRow, VoidRange};
use super::round::SectionRow;
use super::streams::LogPlace;
use crate::PartitionId;
use crate::log::entry::{EntryKind, FLAG_JOINED};
use crate::planted::{Bug, is_planted};

/// Data that a mark proves to have been durable, and which is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDamage {
    /// Entries of a partition are not there.
    Missing {
        /// The partition.
        partition: PartitionId,
        /// The first index.
        from: u64,
        /// The last index.
        through: u64,
    },
    /// The payload of an entry is corrupt.
    Payload {
        /// The partition.
        partition: PartitionId,
        /// The index.
        index: u64,
    },
    /// Nothing says which partition has the entries of this log partition.
    Unowned {
        /// The log partition.
        number: LogPartition,
    },
    /// Copies of compaction cannot be read. Entries that a section has at places in segments that are gone may be among them.
    Copies {
        /// The bytes.
        range: VoidRange,
    },
    /// The newest checkpoint of a log partition is corrupt.
    Section {
        /// The log partition.
        number: LogPartition,
        /// The round that has it.
        round: u64,
    },
    /// The directory of a checkpoint round is corrupt.
    Round {
        /// The number of the round.
        round: u64,
    },
    /// A segment has no readable header.
    Header {
        /// The number of the segment.
        segment: u64,
    },
}

/// An entry that recovery has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntryPlace {
    /// Its log index.
    pub index: u64,
    /// Its epoch.
    pub epoch: u32,
    /// Its log partition.
    pub number: LogPartition,
    /// Its place.
    pub place: LogPlace,
    /// Its stream.
    pub stream: LogStream,
    /// Whether it is in one atomic batch with the entry behind it.
    pub is_joined: bool,
    /// Whether it is a removal. One of the same index as contents is a copy that says no more than that they were dead.
    pub is_removal: bool,
    /// Whether its payload is as it was written.
    pub is_good: bool,
}

impl LogEntryPlace {
    /// Of the copies of an entry, that with the lowest rank counts: contents, as their death may be lost with a crash; one
    /// whose payload is good; the newest.
    fn rank(&self) -> (u64, bool, bool, std::cmp::Reverse<LogPlace>) {
        let is_removal = self.is_removal && !is_planted(Bug::NewestCopyCounts);
        (self.index, is_removal, !self.is_good, std::cmp::Reverse(self.place))
    }
}

/// Entries by log partition.
#[derive(Clone, Debug, Default)]
pub(super) struct EntriesByPartition {
    by_number: BTreeMap<LogPartition, Vec<LogEntryPlace>>,
}

impl EntriesByPartition {
    pub(super) fn add(&mut self, head: &SharedHead, stream: LogStream, place: LogPlace, is_good: bool) {
        self.by_number.entry(head.partition).or_default().push(LogEntryPlace {
            index: head.index,
            epoch: head.epoch,
            number: head.partition,
            place,
            stream,
            is_joined: head.flags & FLAG_JOINED != 0,
            is_removal: head.kind == SharedKind::Replicated(EntryKind::Remove),
            is_good,
        });
    }

    /// Leaves out those at these places.
    pub(super) fn forget(&mut self, is_void: impl Fn(LogPlace) -> bool) {
        self.by_number.values_mut().for_each(|entries| entries.retain(|entry| !is_void(entry.place)));
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = LogPartition> {
        self.by_number.keys().copied()
    }

    pub(super) fn of(&self, number: LogPartition) -> &[LogEntryPlace] {
        self.by_number.get(&number).map_or(&[], Vec::as_slice)
    }
}

/// The highest figures of the marks of one log partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkedPartition {
    durable: u64,
    epoch: u32,
    commit: u64,
    covered: u64,
}

impl MarkedPartition {
    pub(super) fn add(&mut self, row: &MarkRow) {
        self.durable = self.durable.max(row.durable);
        self.epoch = self.epoch.max(row.epoch);
        self.commit = self.commit.max(row.commit);
        self.covered = self.covered.max(row.covered);
    }
}

/// The sections that can be read, by log partition, the newest first.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) by_number: BTreeMap<LogPartition, Vec<SectionRow>>,
}

impl Sections {
    /// The newest section of the owner of these.
    pub(super) fn of(&self, lineage: impl Iterator<Item = Ancestor>) -> Option<SectionRow> {
        let rows = lineage.flat_map(|ancestor| {
            let rows = self.by_number.get(&ancestor.number).into_iter().flatten();
            rows.filter(move |row| row.commit <= ancestor.through)
        });
        rows.max_by_key(|row| (row.round, row.number)).copied()
    }
}

/// The log of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLog {
    /// The partition.
    pub partition: PartitionId,
    /// Its index seed.
    pub seed: u64,
    /// Its present number.
    pub number: LogPartition,
    /// The checkpoint with the entries up to its commit index. Places in segments that are not there are to be left out.
    pub section: Option<SectionRow>,
    /// Copies of compaction of entries up to that index, by index: they are newer than the places in the section.
    pub copies: Vec<LogEntryPlace>,
    /// Its entries above the section, by index: without a gap above `floor`, but for those that damage names.
    pub entries: Vec<LogEntryPlace>,
    /// Indexes up to this may be left out: compaction, or the member that sent the log, has left out dead entries.
    pub floor: u64,
    /// Epoch and index of the last entry.
    pub last: (u32, u64),
    /// The highest commit index of a mark.
    pub commit: u64,
    /// The highest covered index of a mark.
    pub covered: u64,
    /// Behind its end are, or were, entries of its number: another number must continue it.
    pub is_cut: bool,
}

impl RecoveredLog {
    /// `is_proved` says whether a mark proves that what stands at a place survives a crash.
    pub(super) fn of(
        creation: &Creation,
        creations: &Creations,
        found: &EntriesByPartition,
        marked: &BTreeMap<LogPartition, MarkedPartition>,
        sections: &Sections,
        is_proved: impl Fn(LogStream, LogPlace) -> bool,
        damage: &mut Vec<LogDamage>,
    ) -> RecoveredLog {
        let partition = creation.partition;
        let (mut marks, mut floor) = (MarkedPartition::default(), 0);
        let mut candidates: Vec<LogEntryPlace> = Vec::new();
        for ancestor in creations.lineage(partition) {
            let entries = found.of(ancestor.number).iter();
            candidates.extend(entries.filter(|entry| entry.index <= ancestor.through));
            if let Some(row) = marked.get(&ancestor.number) {
                marks.durable = marks.durable.max(row.durable.min(ancestor.through));
                marks.commit = marks.commit.max(row.commit.min(ancestor.through));
                marks.covered = marks.covered.max(row.covered.min(ancestor.through));
                marks.epoch = marks.epoch.max(row.epoch);
            }
            if ancestor.is_incoming {
                floor = floor.max(ancestor.through);
            }
        }
        let section = sections.of(creations.lineage(partition));
        if let Some(section) = &section {
            floor = floor.max(section.commit);
        }
        floor = floor.max(marks.covered);
        let covered = section.map_or(0, |section| section.commit);
        let mut copies: Vec<LogEntryPlace> = candidates.clone();
        copies.retain(|entry| {
            let is_newer = section
                .is_some_and(|section| entry.place >= section.cold || is_planted(Bug::CopyBeforeSectionUsed));
            let is_copy = entry.stream == LogStream::Cold && entry.index <= covered && is_newer;
            is_copy && !is_planted(Bug::CopyBehindSectionIgnored)
        });
        copies.sort_by_key(LogEntryPlace::rank);
        copies.dedup_by_key(|entry| entry.index);
        let corrupt = copies.iter().filter(|entry| !entry.is_good);
        damage.extend(corrupt.map(|entry| LogDamage::Payload { partition, index: entry.index }));
        let is_dropped = is_planted(Bug::EntryAboveSectionDropped) && section.is_some();
        candidates.retain(|entry| entry.index > covered + u64::from(is_dropped));
        candidates.sort_by_key(LogEntryPlace::rank);
        candidates.dedup_by_key(|entry| entry.index);
        let base = section.filter(|section| section.commit == floor).map_or(0, |section| section.epoch);
        let mut log = RecoveredLog {
            partition,
            seed: creation.seed,
            number: creation.number,
            section,
            copies,
            entries: Vec::with_capacity(candidates.len()),
            floor,
            last: (base, floor),
            commit: marks.commit,
            covered: marks.covered,
            is_cut: false,
        };
        let is_durable =
            |entry: &LogEntryPlace| entry.index <= marks.durable || is_proved(entry.stream, entry.place);
        let mut accepted = 0;
        for entry in &candidates {
            let gap = entry.index > floor && entry.index > log.last.1 + 1;
            // Whatever was appended before a durable entry is durable too.
            let is_gap_damage = entry.index <= marks.durable + 1 || is_durable(entry);
            if gap && (!is_gap_damage || is_planted(Bug::GapReadAsEnd))
                || !entry.is_good && !is_durable(entry)
            {
                break;
            }
            if gap {
                damage.push(LogDamage::Missing { partition, from: log.last.1 + 1, through: entry.index - 1 });
            }
            if !entry.is_good {
                damage.push(LogDamage::Payload { partition, index: entry.index });
            }
            log.entries.push(*entry);
            log.last = (entry.epoch, entry.index.max(floor));
            accepted += 1;
        }
        log.is_cut = accepted < candidates.len();
        // The first entries of a unit may be durable without the last: they are no damage.
        let found = log.last.1;
        log.cut_unfinished_unit(base, marks.durable);
        if found < marks.durable && !is_planted(Bug::GapReadAsEnd) {
            damage.push(LogDamage::Missing { partition, from: log.last.1 + 1, through: marks.durable });
        }
        log.is_cut |= log.last.1 < marks.durable;
        // A commit index in a mark must not speak of the entries that will have the indexes of those that are lost.
        log.is_cut |= log.commit > log.last.1;
        log.commit = log.commit.min(log.last.1);
        log
    }

    /// A unit whose last entry is lost is not there.
    fn cut_unfinished_unit(&mut self, base: u32, durable: u64) {
        // An entry may be committed before it is durable here, and the rest of its unit be lost.
        let kept = self.floor.max(self.commit.min(durable));
        while self.entries.last().is_some_and(|last| last.is_joined && last.index > kept) {
            self.entries.pop();
            self.is_cut = true;
        }
        if self.is_cut {
            self.last = self
                .entries
                .last()
                .map_or((base, self.floor), |last| (last.epoch, last.index.max(self.floor)));
        }
    }
}
