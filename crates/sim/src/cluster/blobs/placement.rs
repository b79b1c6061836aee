//! Writes to blobs whose place their client does not know, and reads without versions: other reads tell.

use std::collections::{BTreeMap, BTreeSet};

use super::contents::UNKNOWN_VERSION;
use crate::cycles::{CheckedAction, TransactionFate};
use crate::history::RunHistory;
use crate::workload::blobs::{blob_of_header, edition_of_mark, unplaced};

/// Enters the places and versions that the history shows. What no client has seen is left out: a write that may
/// have been replaced at once, and a read of a version that no client knows.
pub(super) fn place(history: &mut RunHistory) {
    let mut shown = ObservedValues::default();
    for one in history.transactions.iter().filter(|one| one.transaction.fate == TransactionFate::Committed) {
        shown.add(&one.transaction.actions);
    }
    for one in history.transactions.iter() {
        shown.add_writes(&one.transaction.actions);
    }
    for read in history.snapshots.iter().flat_map(|snapshot| &snapshot.reads) {
        shown.add(&read.found.actions);
    }
    for one in &mut history.transactions {
        one.transaction.actions.retain_mut(|action| shown.settle(action));
    }
}

/// What the reads of a run show.
#[derive(Default)]
struct ObservedValues {
    /// The keys at which a value was read.
    keys: BTreeMap<u64, BTreeSet<u64>>,
    /// The version of a value at a key.
    versions: BTreeMap<(u64, u64), u64>,
    /// Keys and values of writes whose place is known.
    written: BTreeSet<(u64, u64)>,
    /// The blob of each change of attributes.
    blobs: BTreeMap<u64, u64>,
}

impl ObservedValues {
    fn add(&mut self, actions: &[CheckedAction]) {
        for action in actions {
            match action {
                CheckedAction::Look { key, value, version } => {
                    self.keys.entry(*value).or_default().insert(*key);
                    if *version != UNKNOWN_VERSION {
                        self.versions.insert((*key, *value), *version);
                    }
                }
                CheckedAction::Read { key, values } => {
                    for value in values {
                        self.keys.entry(*value).or_default().insert(*key);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_writes(&mut self, actions: &[CheckedAction]) {
        for action in actions {
            match action {
                CheckedAction::Write { key, value, version } => {
                    self.written.insert((*key, *value));
                    if let Some(blob) = blob_of_header(*key) {
                        self.blobs.insert(*value, blob);
                    }
                    if let Some(version) = version {
                        self.versions.entry((*key, *value)).or_insert(*version);
                    }
                }
                CheckedAction::Append { key, value } => drop(self.written.insert((*key, *value))),
                _ => {}
            }
        }
    }

    /// Returns whether the action remains.
    fn settle(&self, action: &mut CheckedAction) -> bool {
        match action {
            CheckedAction::Look { key, value, version } if *version == UNKNOWN_VERSION => {
                let known = self.versions.get(&(*key, *value)).copied();
                *version = known.unwrap_or_default();
                known.is_some()
            }
            CheckedAction::Append { key, value } | CheckedAction::Write { key, value, .. } => {
                let Some((blob, place)) = unplaced(*key) else { return true };
                let keys = self.keys.get(value).into_iter().flatten();
                let is_of_blob = |found| {
                    edition_of_mark(found).is_none_or(|edition| self.blobs.get(&edition) == Some(&blob))
                };
                let found = keys.copied().find(|found| {
                    place.is_at(*found) && is_of_blob(*found) && !self.written.contains(&(*found, *value))
                });
                *key = found.unwrap_or_default();
                found.is_some()
            }
            _ => true,
        }
    }
}
