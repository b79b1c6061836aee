//! Older versions of records, as long as a snapshot can still read them.
//!
//! Whenever a record changes, its previous state is kept here under the timestamp at which it ended, until the horizon
//! passes that. Nothing here is persistent: no reader of an older version survives a restart.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::chains::{Chain, Form};
use crate::log::entry::EntryMeta;
use crate::log::shared::live_bytes::EntryUse;
use crate::overflow::part::ChainPart;

/// The former state of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormerState {
    /// There was no record.
    Absent,
    /// One entry, by log index.
    Entry(u64),
    /// Several parts.
    Chain { form: Form, parts: Vec<ChainPart>, skipped: u64, newest: NewestVersion },
    /// The parts up to this entry of the next state, which is a chain: appending costs no copy.
    Shorter { through: NewestVersion },
}

/// The entry that had changed a record of parts last: its log index, and its fields if they were known. It may have been a
/// trim, which the log need not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewestVersion {
    pub(crate) index: u64,
    pub(crate) meta: Option<EntryMeta>,
}

impl NewestVersion {
    pub(crate) fn of(chain: &Chain) -> NewestVersion {
        NewestVersion { index: chain.applied, meta: chain.newest() }
    }
}

/// A former state of a record, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OlderVersion {
    pub(crate) fragment: u32,
    pub(crate) key: Box<[u8]>,
    /// Timestamp of the entry that ended it.
    pub(crate) until: u64,
    /// Log index of that entry.
    pub(crate) by: u64,
    pub(crate) was: FormerState,
    /// Parts that no newer state holds: dead once this version is dropped.
    pub(crate) dead_parts: Vec<ChainPart>,
    /// What they are then: dead, or needed as removals.
    pub(crate) dead_use: Option<EntryUse>,
}

/// All older versions of a partition, oldest end first.
#[derive(Clone, Default)]
pub(crate) struct Versions {
    ring: VecDeque<OlderVersion>,
    /// Number of the ring's first element, counted from the beginning.
    first: u64,
    by_fragment: BTreeMap<u32, VecDeque<u64>>,
}

impl Versions {
    pub(crate) fn push(&mut self, older: OlderVersion) {
        let number = self.first + self.ring.len() as u64;
        self.by_fragment.entry(older.fragment).or_default().push_back(number);
        self.ring.push_back(older);
    }

    /// The state of this key at `timestamp`, if it has changed since. Or a later state, with the entry up to which its parts
    /// existed at that time: the one that had changed the record last.
    pub(crate) fn at(
        &self,
        fragment: u32,
        key: &[u8],
        timestamp: u64,
    ) -> Option<(&FormerState, Option<NewestVersion>)> {
        let mut through: Option<NewestVersion> = None;
        let mut last = None;
        for older in self.of(fragment).filter(|o| *o.key == *key && o.until > timestamp) {
            last = Some((&older.was, through));
            match older.was {
                // The first is the shortest: the following ones were longer.
                FormerState::Shorter { through: t } => through = through.or(Some(t)),
                _ => break,
            }
        }
        // If even the newest kept state is a `Shorter` one, the record's present state holds the parts.
        last.map(|(was, _)| (was, through))
    }

    /// Whether an entry of the log is needed for an older version.
    pub(crate) fn needs(&self, fragment: u32, index: u64) -> bool {
        self.of(fragment).any(|o| match &o.was {
            FormerState::Absent | FormerState::Shorter { .. } => false,
            FormerState::Entry(i) => *i == index,
            FormerState::Chain { parts, .. } => parts.iter().any(|p| p.index == index),
        })
    }

    /// Removes and returns the oldest state if no reader at or above `horizon` can read it.
    pub(crate) fn expire(&mut self, horizon: u64) -> Option<OlderVersion> {
        if self.ring.front()?.until > horizon {
            return None;
        }
        let older = self.ring.pop_front()?;
        self.first += 1;
        if let Some(numbers) = self.by_fragment.get_mut(&older.fragment) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.by_fragment.remove(&older.fragment);
            }
        }
        Some(older)
    }

    /// Keys of these fragments (to the end, without an upper bound) that have changed after `timestamp`.
    pub(crate) fn changed_after(&self, from: u32, until: Option<u32>, timestamp: u64) -> Vec<Box<[u8]>> {
        let range = (Bound::Included(from), until.map_or(Bound::Unbounded, Bound::Excluded));
        let numbers = self.by_fragment.range(range).flat_map(|(_, numbers)| numbers);
        let older = numbers.filter_map(|n| self.ring.get((n - self.first) as usize));
        let mut keys: Vec<Box<[u8]>> =
            older.filter(|older| older.until > timestamp).map(|older| older.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The keys of all versions, each with the end of that version, oldest end first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.ring.iter().map(|older| (&*older.key, older.until))
    }

    /// Number of versions kept.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Log index of the entry that ended the oldest version kept; `u64::MAX` if there is none.
    pub(crate) fn oldest_ended_by(&self) -> u64 {
        self.ring.front().map_or(u64::MAX, |older| older.by)
    }

    /// Parts that will be dead once the kept versions are dropped.
    pub(crate) fn parts_dead_later(&self) -> impl Iterator<Item = &ChainPart> {
        self.ring.iter().flat_map(|older| &older.dead_parts)
    }

    fn of(&self, fragment: u32) -> impl Iterator<Item = &OlderVersion> {
        let numbers = self.by_fragment.get(&fragment).into_iter().flatten();
        numbers.filter_map(|n| self.ring.get((n - self.first) as usize))
    }
}
