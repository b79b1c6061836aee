//! Journal-first entries: entries that may survive a crash only together with everything that was accepted before them, of all partitions.
//!
//! The journal has the entries of all `sync` partitions in the order in which they were accepted, so one flush of it keeps that
//! order. The segments of a partition do not: a block is written as soon as it is full. So a segment is written only up to the
//! first such entry, until the journal has that entry.

use std::collections::VecDeque;

use crate::planted::{Bug, is_planted};

/// The position of a journal-first entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalFirstEntry {
    pub(crate) slot: u32,
    pub(crate) offset: u64,
    pub(crate) index: u64,
}

/// See the module. By log index.
#[derive(Debug, Default)]
pub(crate) struct JournalFirstEntries {
    /// Entries that are appended now are journal-first.
    pub(crate) is_on: bool,
    entries: VecDeque<JournalFirstEntry>,
}

impl JournalFirstEntries {
    pub(crate) fn push(&mut self, entry: JournalFirstEntry) {
        debug_assert!(self.entries.back().is_none_or(|last| last.index < entry.index));
        if !is_planted(Bug::JournalFirstIgnored) {
            self.entries.push_back(entry);
        }
    }

    pub(crate) fn first(&self) -> Option<&JournalFirstEntry> {
        self.entries.front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the entries up to a log index.
    pub(crate) fn release(&mut self, through: u64) {
        while self.entries.front().is_some_and(|entry| entry.index <= through) {
            self.entries.pop_front();
        }
    }

    /// The log was truncated behind a log index.
    pub(crate) fn truncate_after(&mut self, index: u64) {
        while self.entries.back().is_some_and(|entry| entry.index > index) {
            self.entries.pop_back();
        }
    }
}
