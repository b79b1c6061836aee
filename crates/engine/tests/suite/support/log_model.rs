//! What a partition of the model of a shared log is, and the model as the owner of the indexes.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::log::shared::compact::{LogHold, LogOwner, VictimEntry};
use zerohop_engine::log::shared::format::SharedKind;
use zerohop_engine::log::shared::lifecycle::EntryUseCount;
use zerohop_engine::log::shared::live_bytes::{EntryUse, LiveBytes};
use zerohop_engine::log::shared::streams::{LogPlace, LogSlot, SharedLog};
use zerohop_engine::{EntryKind, PartitionId};

/// Bytes of a key.
pub const KEY: usize = 3;

/// An entry of the model. No two have the same stamp, from which the payload follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEntry {
    pub epoch: u32,
    pub stamp: u64,
    pub bytes: usize,
    pub is_joined: bool,
    pub key: u8,
    pub is_removal: bool,
}

impl LoggedEntry {
    pub fn payload(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        Random::new(self.stamp).fill(&mut out);
        out
    }
}

/// The newest entry of each key, by key: what an index has, and removals.
pub fn newest_of(log: &[LoggedEntry]) -> BTreeMap<u8, u64> {
    log.iter().zip(1..).map(|(entry, index)| (entry.key, index)).collect()
}

/// An entry that is not dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedEntry {
    pub place: LogPlace,
    pub bytes: u32,
    pub entry_use: EntryUse,
}

/// A partition in a state: its log, or `None` if it does not exist.
pub type LogState = Option<Vec<LoggedEntry>>;

/// A partition of the model: its states since the last flush that has ended, the first of which survives everything.
#[derive(Clone, Debug, Default)]
pub struct LoggedPartition {
    pub slot: Option<LogSlot>,
    pub epoch: u32,
    pub states: Vec<LogState>,
    /// How many of the states the flush that runs covers.
    pub flushing: usize,
    /// The entries that are not dead, by index.
    pub uses: BTreeMap<u64, UsedEntry>,
    /// Nothing up to this index is truncated.
    pub commit: u64,
    /// A reader of the log needs these entries where they stand.
    pub hold: Option<(LogHold, Vec<(u64, LogPlace)>)>,
}

impl LoggedPartition {
    pub fn now(&self) -> &[LoggedEntry] {
        self.states.last().and_then(Option::as_deref).unwrap_or_default()
    }

    /// Lets die what committed entries replace, or keeps it for a snapshot.
    pub fn settle(&mut self, log: &mut SharedLog, is_kept: bool) {
        let Some(slot) = self.slot else { return };
        let newest = newest_of(&self.now()[..self.commit as usize]);
        let entries = self.now().to_vec();
        let committed: Vec<u64> = self.uses.range(..=self.commit).map(|(index, _)| *index).collect();
        for index in committed {
            let entry = entries[index as usize - 1];
            let is_newest = newest.get(&entry.key) == Some(&index);
            let Some(used) = self.uses.get_mut(&index) else { continue };
            let to = match used.entry_use {
                _ if is_newest && entry.is_removal => Some(EntryUse::Removal),
                EntryUse::Live if is_newest => Some(EntryUse::Live),
                EntryUse::Live if is_kept && !entry.is_removal => Some(EntryUse::Kept),
                EntryUse::Kept => Some(EntryUse::Kept),
                EntryUse::Live | EntryUse::Removal => None,
            };
            log.change_use(&counted(slot, index, used), Some(used.entry_use), to);
            match to {
                Some(to) => used.entry_use = to,
                None => drop(self.uses.remove(&index)),
            }
        }
    }

    /// The end of the last unit that ends at or below an index.
    pub fn last_unit(&self, index: u64) -> u64 {
        let is_end = |index: &u64| *index == 0 || !self.now()[*index as usize - 1].is_joined;
        (0..=index).rev().find(is_end).expect("0 is one")
    }

    /// What an index judges of a removal: without a newer entry of its key it may be needed.
    fn is_newest_removal(&self, index: u64) -> bool {
        let log = &self.now()[..self.commit as usize];
        let entry = log.get(index as usize - 1);
        entry.is_some_and(|entry| entry.is_removal && newest_of(log).get(&entry.key) == Some(&index))
    }
}

pub fn counted(slot: LogSlot, index: u64, used: &UsedEntry) -> EntryUseCount {
    EntryUseCount { slot, segment: used.place.segment, index, bytes: used.bytes }
}

/// The model as the owner of the indexes.
pub struct WorldOwner<'a> {
    pub partitions: &'a mut BTreeMap<PartitionId, LoggedPartition>,
    pub spans: &'a mut Vec<EntrySpan>,
}

impl WorldOwner<'_> {
    fn of(&mut self, slot: LogSlot) -> &mut LoggedPartition {
        let mut partitions = self.partitions.values_mut();
        partitions.find(|partition| partition.slot == Some(slot)).expect("an open partition owns it")
    }
}

impl LogOwner for WorldOwner<'_> {
    fn judge(&mut self, entries: &[VictimEntry<'_>], uses: &mut Vec<Option<EntryUse>>) {
        for entry in entries {
            let (index, is_removal) =
                (entry.head.index, entry.head.kind == SharedKind::Replicated(EntryKind::Remove));
            let partition = self.of(entry.slot);
            let used = partition.uses.get(&index).filter(|used| used.place == entry.place);
            // A removal that recovery has not counted is judged by its key.
            let is_removal =
                is_removal && !partition.uses.contains_key(&index) && partition.is_newest_removal(index);
            uses.push(used.map(|used| used.entry_use).or(is_removal.then_some(EntryUse::Removal)));
        }
    }

    fn is_removal_too(&mut self, _: &VictimEntry<'_>) -> bool {
        false
    }

    fn commit_of(&mut self, slot: LogSlot) -> u64 {
        self.of(slot).commit
    }

    fn moved(&mut self, entry: &VictimEntry<'_>, entry_use: EntryUse, to: Option<LogPlace>) {
        let (index, bytes) = (entry.head.index, entry.head.entry_bytes() as u32);
        let partition = self.of(entry.slot);
        let Some(place) = to else {
            assert_eq!(entry_use, EntryUse::Removal);
            partition.uses.remove(&index);
            return;
        };
        partition.uses.insert(index, UsedEntry { place, bytes, entry_use });
        let from = u64::from(place.offset);
        self.spans.push((place.segment, from..from + u64::from(bytes)));
    }

    fn forgotten(&mut self, _: LogSlot, _: LiveBytes) {}

    fn freed(&mut self, _: LogSlot, _: u64, _: u64) {}
}

/// Where bytes of an entry stand.
pub type EntrySpan = (u64, std::ops::Range<u64>);
